"""Rows of the runs list: everything about a page of runs in a constant number of queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webapp.curves import answers
from webapp.curves.axes import DEFAULT_METRIC
from webapp.curves.models import Fit
from webapp.curves.selectors import latest_fits
from webapp.runs.models import Run
from webapp.runs.selectors import Sparkline, sparklines

SPARKLINE_POINTS = 40
SCALE_MARGIN = 0.05


@dataclass(frozen=True)
class Row:
    """One run as the list shows it."""

    run: Run
    spark: Sequence[float]
    latest: float | None
    latest_stderr: float | None
    used_hours: float | None
    share: float | None  # of the budget; None without a budget
    ceiling: dict[str, Any] | None  # None: no fit yet


def rows_of(runs: Sequence[Run]) -> list[Row]:
    """Two queries for any number of runs: newest fits, and thinned pass rates."""
    fits = latest_fits(run.pk for run in runs)
    lines = sparklines([run.pk for run in runs], DEFAULT_METRIC, SPARKLINE_POINTS)
    return [_row(run, fits.get(run.pk), lines.get(run.pk)) for run in runs]


def _row(run: Run, fit: Fit | None, line: Sparkline | None) -> Row:
    used = line.device_hours if line else None
    return Row(
        run=run,
        spark=line.values if line else [],
        latest=line.values[-1] if line else None,
        latest_stderr=line.stderr if line else None,
        used_hours=used,
        share=min(1.0, (used or 0.0) / run.budget_hours) if run.budget_hours else None,
        ceiling=stored_ceiling(fit) if fit else None,
    )


def stored_ceiling(fit: Fit) -> dict[str, Any]:
    """The ceiling of a stored fit as a payload with words."""
    interval = tuple(fit.intervals["A"]) if fit.intervals else None
    value = fit.params["A"] if fit.params else None
    return answers.ceiling(fit.status, interval, value, fit.level)


def shared_scale(ceilings: Sequence[dict[str, Any] | None]) -> tuple[float, float]:
    """One scale for all whiskers of a column: from the least to the greatest end, with a margin, within [0, 1]."""
    ends = [c[end] for c in ceilings if c for end in ("lo", "hi") if c[end] is not None]
    if not ends:
        return 0.0, 1.0
    return max(0.0, min(ends) - SCALE_MARGIN), min(1.0, max(ends) + SCALE_MARGIN)
