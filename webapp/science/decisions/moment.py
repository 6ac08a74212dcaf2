"""How a run stands at a moment: pass rate, compute used, ceiling with its interval, and the forecast at its budget.

Read from the run's summary and its newest stored fit, so that a decision freezes what the pages show.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from webapp.record.runs.models import Run, Summary
from webapp.record.runs.summaries import spent_hours
from webapp.science.curves import estimates, words
from webapp.science.curves.axes import DEFAULT_LEVEL
from webapp.science.curves.forecasts import read
from webapp.science.curves.models import Fit
from webapp.science.curves.record.recalibrating import Record, Widening, record_of
from webapp.science.curves.selectors import latest_fits

Payload = dict[str, Any]


def standing(runs: Sequence[Run]) -> dict[str, tuple[Payload, Fit | None]]:
    """Run -> (state, its newest whole-curve fit or None). Three queries, whatever the number of runs of a project.

    `state` is JSON-ready: {"run_state", "pass_rate", "stderr", "used_hours", "budget_hours", "ceiling", "forecast"};
    hours are device-hours, pass rates in [0, 1], null where nothing is known yet.
    """
    ids = [run.pk for run in runs]
    fits = latest_fits(ids, outlooks=True)
    summaries = Summary.objects.in_bulk(ids)
    records = {project: record_of(project) for project in {run.project_id for run in runs}}
    return {
        run.pk: (
            _state(run, summaries.get(run.pk), fits.get(run.pk), records[run.project_id]),
            fits.get(run.pk),
        )
        for run in runs
    }


def _state(run: Run, summary: Summary | None, row: Fit | None, record: Record) -> Payload:
    return {
        "run_state": run.state,
        "pass_rate": summary.pass_rate if summary else None,
        "stderr": summary.pass_rate_stderr if summary else None,
        "used_hours": spent_hours(run, summary.used_hours if summary else None),
        "budget_hours": run.budget_hours,
        "ceiling": estimates.ceilings([[estimates.of_stored(row)]])[0],
        "forecast": forecast(row, run.budget_hours, record.widening(DEFAULT_LEVEL, run.pk)),
    }


def forecast(row: Fit | None, hours: float | None, widening: Widening) -> Payload | None:
    """What is forecast at `hours` device-hours: {"at", "value", "lo", "hi", "level", "text"}; None without, and beyond
    what is stored with the fit."""
    found = read(row.forecast) if row is not None else None
    if found is None or not hours:
        return None
    found = found.widened(widening.factor)
    value, lo, hi = found.value_at(hours)
    if not np.isfinite(value):
        return None
    said = words.between((lo, hi), found.level)
    return {"at": hours, "value": value, "lo": lo, "hi": hi, "level": found.level,
            "text": f"{words.rate(value, (lo, hi))}, {said}"}  # fmt: skip
