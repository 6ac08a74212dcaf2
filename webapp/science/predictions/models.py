"""Predictions, their reviews and comments, and what came of them."""

from django.conf import settings
from django.db import models

from webapp.identity.accounts.models import Project, User
from webapp.record.recipes.models import Revision
from webapp.record.runs.models import Run, new_run_id
from webapp.science.curves.models import Fit

USER = settings.AUTH_USER_MODEL


class Prediction(models.Model):
    """A claim made before the data: a frozen fit, a statement with an interval, and reasons.

    Nothing of it changes after it is stored (a trigger refuses it) except the withdrawal, which happens once. A changed
    claim is a new prediction that `replaces` the old one.
    """

    class Statement(models.TextChoices):
        PASS_RATE = "pass_rate"  # of a run of this recipe at `target`
        CEILING = "ceiling"  # A of the recipe's curve, judged at `target` by a fit of all points up to there
        PASSES = "passes"  # the recipe's curve lies above the rival's from `target` on at the latest

    id = models.CharField(primary_key=True, max_length=16, default=new_run_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="predictions")
    author = models.ForeignKey(USER, on_delete=models.RESTRICT, related_name="predictions")
    created_at = models.DateTimeField(auto_now_add=True)
    replaces = models.OneToOneField("self", on_delete=models.RESTRICT, null=True, related_name="replaced_by")

    # Of what: the run whose curve was read, and the recipe whose runs the claim is about.
    run = models.ForeignKey(Run, on_delete=models.RESTRICT, related_name="predictions")
    revision = models.ForeignKey(Revision, on_delete=models.RESTRICT, related_name="predictions", null=True)
    task = models.CharField(max_length=80)
    model = models.CharField(max_length=200)

    # The frozen fit, copied: the stored fit may be made anew, this never.
    fit = models.ForeignKey(Fit, on_delete=models.RESTRICT, related_name="predictions")
    frozen = models.JSONField()  # what `webapp.science.predictions.frozen.frozen_of` says
    metric = models.CharField(max_length=250)
    x = models.CharField(max_length=20)
    window_lo = models.FloatField(null=True)
    cutoff = models.FloatField()  # in units of x: the last point that the fit used
    known_until = models.FloatField()  # in units of x: the last evaluation stored then, whether fitted or not
    data_digest = models.CharField(max_length=64)

    # The statement.
    statement = models.CharField(max_length=12, choices=Statement.choices)
    target = models.FloatField()  # in units of x, beyond everything that was stored of the run
    target_hours = models.FloatField(null=True)  # about the same in device-hours, to compare with budgets
    level = models.FloatField()  # of the interval, e.g. 0.9
    value = models.FloatField(null=True)  # pass rate or ceiling; None for PASSES
    lo = models.FloatField(null=True)
    hi = models.FloatField(null=True)
    rival = models.ForeignKey(Run, on_delete=models.RESTRICT, related_name="rival_predictions", null=True)
    rival_frozen = models.JSONField(null=True)
    probability = models.FloatField(null=True)  # of PASSES
    reasons = models.TextField()

    # A repeated request with the same key and content is the same prediction.
    key = models.CharField(max_length=200, null=True)
    body_digest = models.CharField(max_length=64)

    # The withdrawal.
    withdrawn_at = models.DateTimeField(null=True)
    withdrawn_reason = models.TextField(blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["project", "-created_at"], name="predictions_newest"),
            models.Index(fields=["revision", "task", "model"], name="predictions_of_recipe"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["project", "author", "key"], name="prediction_key_once")
        ]


class ReviewRequest(models.Model):
    """A reviewer who was asked."""

    prediction = models.ForeignKey(Prediction, on_delete=models.CASCADE, related_name="requests")
    reviewer = models.ForeignKey(USER, on_delete=models.CASCADE, related_name="review_requests")
    asked_by = models.ForeignKey(USER, on_delete=models.CASCADE, related_name="+")
    asked_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        unique_together = [("prediction", "reviewer")]


class Review(models.Model):
    """A verdict; it is never changed, a later one of the same reviewer counts instead."""

    class Verdict(models.TextChoices):
        APPROVED = "approved"
        CHANGES = "changes"
        REJECTED = "rejected"

    prediction = models.ForeignKey(Prediction, on_delete=models.CASCADE, related_name="reviews")
    reviewer = models.ForeignKey(USER, on_delete=models.RESTRICT, related_name="reviews")
    verdict = models.CharField(max_length=10, choices=Verdict.choices)
    reason = models.TextField(blank=True)  # required unless approved
    created_at = models.DateTimeField(auto_now_add=True)


class Comment(models.Model):
    """A comment; `parent` makes a thread of one level, `anchor_x` ties it to a point of the chart."""

    prediction = models.ForeignKey(Prediction, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(USER, on_delete=models.RESTRICT, related_name="+")
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="replies")
    text = models.TextField()
    anchor_x = models.FloatField(null=True)
    anchor_y = models.FloatField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    edited_at = models.DateTimeField(null=True)
    earlier = models.JSONField(default=list)  # [{"text", "until"}]: what it said before
    resolved_at = models.DateTimeField(null=True)
    resolved_by = models.ForeignKey(USER, on_delete=models.SET_NULL, null=True, related_name="+")
    mentions = models.ManyToManyField(User, related_name="mentioned_in")


class Outcome(models.Model):
    """What came of a prediction by one run of the recipe that passed the target; made once, from unsampled points."""

    prediction = models.ForeignKey(Prediction, on_delete=models.CASCADE, related_name="outcomes")
    run = models.ForeignKey(Run, on_delete=models.RESTRICT, related_name="prediction_outcomes")
    actual = models.FloatField(null=True)  # pass rate at the target, or ceiling; None for PASSES
    actual_lo = models.FloatField(null=True)  # its own uncertainty, at the prediction's level
    actual_hi = models.FloatField(null=True)
    error = models.FloatField(null=True)  # actual - value
    inside = models.BooleanField(null=True)
    interval_score = models.FloatField(null=True)
    happened = models.BooleanField(null=True)  # of PASSES
    probability_score = models.FloatField(null=True)  # Brier
    log_score = models.FloatField(null=True)
    how = models.JSONField(default=dict)  # which points: computes, values, digest
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        unique_together = [("prediction", "run")]


class Pending(models.Model):
    """A run that passed the target, and why it could not score the prediction yet. Gone once there is an outcome."""

    prediction = models.ForeignKey(Prediction, on_delete=models.CASCADE, related_name="pendings")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+")
    reason = models.TextField()
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        unique_together = [("prediction", "run")]
