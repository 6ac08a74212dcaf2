"""Stored and published fits as the API and pages show them."""

from typing import Any

from webapp.base.times import utc
from webapp.science.curves.fitting import read, stored
from webapp.science.curves.models import Fit, ReferenceFit
from webapp.science.curves.record.recalibrating import Record

CSV_COLUMNS = (
    "id", "run", "metric", "x", "form", "method", "status", "message", "level", "window_lo", "cutoff",
    "R0", "A", "A_lo", "A_hi", "B", "B_lo", "B_hi", "C_mid", "C_mid_lo", "C_mid_hi",
    "sse", "r2", "n", "fitted_lo", "fitted_hi", "data_digest", "superseded", "created_at", "forecast_status",
    "forecast_ceiling", "forecast_lo", "forecast_hi",
)  # fmt: skip


def fit_payload(fit: Fit, record: Record) -> dict[str, Any]:
    """A stored fit. A that is not identified is null in `params`, its lower bound is in `intervals`. `record`: of its
    project, by which intervals of the forecast are recalibrated."""
    params = dict(fit.params) if fit.params else None
    if params is not None and fit.status != "ok":
        params["A"] = None
    return {
        "id": fit.pk,
        "run": fit.run_id,
        "metric": fit.metric,
        "x": fit.x,
        "form": fit.form,
        "method": fit.method,
        "status": fit.status,
        "message": fit.message,
        "level": fit.level,
        "window": {"lo": fit.window_lo, "cutoff": fit.cutoff},
        "fitted": [fit.fitted_lo, fit.fitted_hi],
        "params": params,
        "intervals": fit.intervals,
        "sse": fit.sse,
        "r2": fit.r2,
        "n": fit.n,
        "data_digest": fit.data_digest,
        "superseded": fit.superseded,
        "created_at": utc(fit.created_at),
        "forecast": forecast_payload(fit, record),
    }


def forecast_payload(fit: Fit, record: Record) -> dict[str, Any] | None:
    """The forecast from the same points; None where none is stored yet."""
    found = read(fit.forecast)
    if found is None:
        return None
    found = record.recalibrated(found, fit.run_id)
    return stored(found) | {
        "multiples": {
            f"{times}": {"compute": c, "value": y, "interval": [lo, hi]}
            for times, c, y, lo, hi in found.multiples()
        }
        or None,
        "recalibrated_by": found.widening,
    }


def fit_row(fit: Fit, record: Record) -> list[Any]:
    """The same as one CSV row in the order of CSV_COLUMNS."""
    payload = fit_payload(fit, record)
    flat = payload | {
        "window_lo": fit.window_lo,
        "cutoff": fit.cutoff,
        "fitted_lo": fit.fitted_lo,
        "fitted_hi": fit.fitted_hi,
    }
    for name, value in (payload["params"] or {}).items():
        flat[name] = value
    for name, ends in (payload["intervals"] or {}).items():
        flat[f"{name}_lo"], flat[f"{name}_hi"] = ends
    if forecast := payload["forecast"]:
        lo, hi = forecast["interval"] or (None, None)
        flat |= {"forecast_status": forecast["status"], "forecast_ceiling": forecast["ceiling"]}
        flat |= {"forecast_lo": lo, "forecast_hi": hi}
    return [flat.get(column) for column in CSV_COLUMNS]


def published_ceiling(reference: ReferenceFit) -> dict:
    """The ceiling of a published curve, with the margin that its authors work with."""
    lo, hi = reference.a - reference.margin, reference.a + reference.margin
    return {
        "identified": True, "value": reference.a, "lo": lo, "hi": hi, "text": f"{reference.a:.3f}",
        "interval_text": f"published, margin ± {reference.margin:g}",
    }  # fmt: skip
