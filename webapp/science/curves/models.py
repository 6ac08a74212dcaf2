"""Stored fits, and the published curves."""

from django.db import models

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run


class Fit(models.Model):
    """A fit of one run's curve: what was fitted (window, cutoff, digest of the points) and what came out.

    A row never changes, but for `superseded`, and for `forecast` where a release that knew none stored it. The same
    question on the same data is the same row (`fit_once`).
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="fits")
    metric = models.CharField(max_length=250, default="eval/pass_rate")
    x = models.CharField(max_length=20, default="device_hours")  # device_hours, flops, tokens, step
    form = models.CharField(max_length=20, default="sigmoid")
    method = models.CharField(max_length=10, default="fast")
    level = models.FloatField(default=0.9)
    window_lo = models.FloatField(null=True)  # in units of x; None: from the first point
    cutoff = models.FloatField(null=True)  # points after it were not used; None: all points
    data_digest = models.CharField(max_length=64)  # SHA-256 of the points used
    status = models.CharField(max_length=20)  # ok, not_identified, failed
    message = models.TextField(blank=True)
    params = models.JSONField(null=True)  # {"R0", "A", "B", "C_mid"}
    intervals = models.JSONField(null=True)  # {"A": [lo, hi], ...}; an end may be null
    sse = models.FloatField(null=True)
    r2 = models.FloatField(null=True)
    n = models.PositiveIntegerField()
    fitted_lo = models.FloatField(null=True)  # x of the first and last point used
    fitted_hi = models.FloatField(null=True)
    outlook = models.JSONField(
        null=True
    )  # band, compute to 90 % of the gain: `webapp.science.curves.answers`
    forecast = models.JSONField(
        null=True
    )  # from the same points, by forms averaged: `webapp.science.curves.fitting`
    # Points that it used no longer count (`webapp.science.curves.services`). The default is the database's own,
    # so that a worker of the release before can store fits meanwhile.
    superseded = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "run",
                    "metric",
                    "x",
                    "form",
                    "method",
                    "level",
                    "window_lo",
                    "cutoff",
                    "data_digest",
                ],
                name="fit_once",
                nulls_distinct=False,
            )
        ]
        indexes = [models.Index(fields=["run", "metric", "x", "-id"], name="fit_newest")]


class KeptFigure(models.Model):
    """What the page of a run says of its whole curve, as it was last made: `webapp.science.curves.run.figure`.

    Only a copy of what can be made again. `key` names all that it rests on, so that it is never shown for other points.
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="kept_figure")
    key = models.CharField(max_length=80)
    said = models.JSONField()
    made_at = models.DateTimeField(auto_now=True)


class ForecastOrigin(models.Model):
    """What was forecast of a run from the evaluations up to `cut`, and what came: `webapp.science.curves.record`.

    Made while the run goes on, at shares of its budget (`as_it_went`), or once it has ended, at shares of its compute.
    Of device-hours and the overall pass rate. Scored when the run has ended, anew where it was resumed since.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="forecast_origins")
    data_digest = models.CharField(max_length=64)  # of the evaluations that were known
    cut = models.FloatField()  # device-hours: what came later was not known
    seen = models.FloatField()  # device-hours of the last evaluation known
    n = models.PositiveIntegerField()
    as_it_went = models.BooleanField()
    status = models.CharField(max_length=20)  # ok, not_identified, failed
    message = models.TextField(blank=True)
    says = models.JSONField(
        null=True
    )  # {"compute": [n], "value": [n], "levels": {"0.9": {"lo": [n], "hi": [n]}, ...}}
    made_at = models.DateTimeField(auto_now_add=True)
    # What each method said of the end: {"forecast": {"value", "levels": {"0.9": [lo, hi], ...}}, "last": ..., ...}
    said = models.JSONField(null=True)
    ratios = models.JSONField(null=True)  # {"0.9": error / half width on its side, ...}; null: not scored

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "data_digest"], name="forecast_origin_once")]


class ForecastOutcome(models.Model):
    """How a run ended that its forecasts are judged by. `why`: it cannot be judged; the numbers are null then."""

    run = models.OneToOneField(
        Run, on_delete=models.CASCADE, primary_key=True, related_name="forecast_outcome"
    )
    data_digest = models.CharField(max_length=64)  # of all its evaluations
    why = models.CharField(max_length=200, blank=True)
    last = models.FloatField(null=True)  # device-hours of its last evaluation
    target = models.FloatField(null=True)  # mean device-hours and mean pass rate of the last eighth
    came = models.FloatField(null=True)
    judged_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["-judged_at"], name="outcome_newest")]


class Recalibration(models.Model):
    """Whether the intervals of a project's forecasts are widened by their record. No row: they are."""

    project = models.OneToOneField(
        Project, on_delete=models.CASCADE, primary_key=True, related_name="recalibration"
    )
    is_on = models.BooleanField(default=True)
    stamp = models.PositiveIntegerField(default=0)  # grows when a run is judged, deleted or restored


class ReferenceFit(models.Model):
    """A curve as published (arXiv 2510.13786, Table 1). Read-only: rows come from a migration."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=100)
    source = models.CharField(max_length=200)
    task = models.CharField(max_length=80)
    model = models.CharField(max_length=80)
    unit = models.CharField(max_length=40, default="GPU-hours")
    a = models.FloatField()
    b = models.FloatField()
    c_mid = models.FloatField()
    margin = models.FloatField()  # half width of the error margin of A that the source works with

    class Meta:
        ordering = ["-a", "name"]

    def __str__(self) -> str:
        return self.name
