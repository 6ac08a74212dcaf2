"""How a run stands at a moment: pass rate, compute used, ceiling with its interval, and the forecast at its budget.

Read from the run's summary and its newest stored fit, so that a decision freezes what the pages show.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from webapp.curves import estimates, words
from webapp.curves.models import Fit
from webapp.curves.selectors import latest_fits
from webapp.runs.models import Run, Summary
from webapp.runs.summaries import spent_hours

Payload = dict[str, Any]


def standing(runs: Sequence[Run]) -> dict[str, tuple[Payload, Fit | None]]:
    """Run -> (state, its newest whole-curve fit or None). Two queries, whatever the number of runs.

    `state` is JSON-ready: {"run_state", "pass_rate", "stderr", "used_hours", "budget_hours", "ceiling", "forecast"};
    hours are device-hours, pass rates in [0, 1], null where nothing is known yet.
    """
    ids = [run.pk for run in runs]
    fits = latest_fits(ids, outlooks=True)
    summaries = Summary.objects.in_bulk(ids)
    return {run.pk: (_state(run, summaries.get(run.pk), fits.get(run.pk)), fits.get(run.pk)) for run in runs}


def _state(run: Run, summary: Summary | None, row: Fit | None) -> Payload:
    return {
        "run_state": run.state,
        "pass_rate": summary.pass_rate if summary else None,
        "stderr": summary.pass_rate_stderr if summary else None,
        "used_hours": spent_hours(run, summary.used_hours if summary else None),
        "budget_hours": run.budget_hours,
        "ceiling": estimates.ceilings([[estimates.of_stored(row)]])[0],
        "forecast": forecast(row, run.budget_hours),
    }


def forecast(row: Fit | None, hours: float | None) -> Payload | None:
    """What a stored fit expects at `hours` device-hours: {"at", "value", "lo", "hi", "level", "text"}; None without.

    Ends are null beyond the band that is stored with the fit.
    """
    fit = estimates.of_stored(row)
    if fit is None or row is None or fit.params is None or not hours:
        return None
    at = np.array([hours])
    value, lo, hi = (_number(ends[0]) for ends in (fit.values(at), *fit.band(at)))
    if value is None:
        return None
    said = words.between((lo, hi), row.level)
    return {"at": hours, "value": value, "lo": lo, "hi": hi, "level": row.level,
            "text": f"{words.rate(value, (lo, hi))}, {said}"}  # fmt: skip


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
