"""Stored fits: each new batch of evaluations is refitted and kept, with the digest of the points it used."""

import logging
from dataclasses import dataclass
from typing import Any

from django.db.models import F

import scaling
from webapp.curves import answers
from webapp.curves.axes import DEFAULT_METRIC
from webapp.curves.fitting import Curve, Question, curve_of, fit_curve
from webapp.curves.forecasts import forecast_of
from webapp.curves.models import Fit
from webapp.curves.outlook import outlook_of
from webapp.curves.run.figure import keep_figure
from webapp.curves.summaries import rebuild
from webapp.curves.superseding import set_aside
from webapp.observing import metrics
from webapp.runs.models import Run
from webapp.runs.selectors import pass_rates_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refit:
    """What a refit did: the stored fit (None: too few points) and whether it is new."""

    fit: Fit | None
    created: bool


def refit(run_id: str) -> Refit:
    """Fit the run's curves with all their points, store them, and tell the run's page. Safe to repeat.

    A mixture of tasks has one curve overall and one for each part; what comes back is the overall fit, and whether
    any fit is new.

    The wish (`refit_wanted_at`) is cleared first and only if it is the one seen, so points that arrive
    meanwhile wish again.
    """
    run = Run.objects.get(pk=run_id)
    Run.objects.filter(pk=run_id, refit_wanted_at=run.refit_wanted_at).update(refit_wanted_at=None)
    curves = {name: curve_of(run, metric=name) for name in {DEFAULT_METRIC, *pass_rates_of(run)}}
    results = {name: store_fit(run, curve, Question(metric=name)) for name, curve in curves.items()}
    created = any(result.created for result in results.values())
    aside = [
        set_aside(run, curve, Question(metric=name), results[name].fit) for name, curve in curves.items()
    ]
    keep_figure(run, curves[DEFAULT_METRIC])
    if rebuild([run_id]) or created or any(aside):
        Run.objects.filter(pk=run_id).update(version=F("version") + 1)
    return Refit(results[DEFAULT_METRIC].fit, created)


def store_fit(run: Run, curve: Curve, question: Question) -> Refit:
    """Fit and keep; the same question on the same data is the same row."""
    try:
        fit = fit_curve(curve, question)
    except scaling.InputError as error:
        log.info("run %s: no fit yet: %s", run.pk, error)
        return Refit(None, created=False)
    same: dict[str, Any] = {
        "run": run,
        "metric": question.metric,
        "x": question.x,
        "form": question.form,
        "method": fit.method,
        "level": question.level,
        "window_lo": question.window_lo,
        "cutoff": question.cutoff,
        "data_digest": fit.digest,
    }
    row, created = Fit.objects.filter(**same).first(), False
    if row is None:
        row, created = Fit.objects.get_or_create(**same, defaults=outcome_of(fit))
    if row.forecast is None:  # stored by a release that knew none
        row.forecast = forecast_of(fit)
        row.save(update_fields=["forecast"])
    if created:
        metrics.FITS.labels(row.status).inc()
    return Refit(row, created)


def outcome_of(fit: "scaling.Fit") -> dict[str, Any]:
    """The columns of a stored fit that say what came out."""
    return {
        "status": fit.status,
        "message": fit.message,
        "params": fit.params,
        "intervals": answers.shown_intervals(fit),
        "sse": fit.sse,
        "r2": fit.r2,
        "n": fit.n,
        "fitted_lo": fit.window[0],
        "fitted_hi": fit.window[1],
        "outlook": outlook_of(fit),
        "forecast": forecast_of(fit),
    }
