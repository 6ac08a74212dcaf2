"""A stored fit: the same question on the same data is the same row, with the digest of the points it used."""

import logging
from dataclasses import dataclass
from typing import Any

import scaling
from webapp.base import metrics
from webapp.record.runs.models import Run
from webapp.science.curves import answers
from webapp.science.curves.fitting import Curve, Question, fit_curve
from webapp.science.curves.forecasts import forecast_of
from webapp.science.curves.models import Fit
from webapp.science.curves.outlook import outlook_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refit:
    """What a refit did: the stored fit (None: too few points) and whether it is new."""

    fit: Fit | None
    created: bool


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
