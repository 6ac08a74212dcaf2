"""Rows of the runs list: everything about a page of runs in a constant number of queries, none of them for points."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import prefetch_related_objects

from scaling.course import widened_ceiling
from webapp.alarms.models import Alarm
from webapp.alarms.selectors import active_alarms
from webapp.curves import ahead
from webapp.curves.axes import DEFAULT_LEVEL
from webapp.curves.record.recalibrating import Record, record_of
from webapp.pages.run.alarms import is_unjudged, mark_words
from webapp.runs.models import Run
from webapp.runs.summaries import spent_hours, summary_of

SCALE_MARGIN = 0.05


@dataclass(frozen=True)
class Row:
    """One run as the list shows it."""

    run: Run
    spark: Sequence[float]
    latest: float | None
    latest_stderr: float | None
    used_hours: float | None  # None: nothing reported, or not known
    share: float | None  # of the budget; None without a budget, or where not known
    ceiling: dict[str, Any] | None  # None: no forecast
    alarms: Sequence[Alarm] = ()  # active ones, the worst first

    @property
    def alarm_words(self) -> str:
        """The active alarms in full, for the mark's tooltip."""
        return mark_words(self.alarms)

    @property
    def spent(self) -> float | None:
        """Device-hours; a run that trains elsewhere may not say them, and then nobody knows."""
        return spent_hours(self.run, self.used_hours)

    @property
    def unjudged(self) -> bool:
        """Whether no mark means nothing, because nobody judges the newest records."""
        return is_unjudged(self.run)


def rows_of(runs: Sequence[Run]) -> list[Row]:
    """For any number of runs one query for the active alarms, one for the record that their project's forecasts are
    recalibrated by, and one for the summaries of those that come without."""
    prefetch_related_objects(runs, "summary")
    alarms = active_alarms([run.pk for run in runs])
    records = {project: record_of(project) for project in {run.project_id for run in runs}}
    return [_row(run, alarms.get(run.pk, []), records[run.project_id]) for run in runs]


def _row(run: Run, alarms: Sequence[Alarm], record: Record) -> Row:
    summary = summary_of(run)
    spent = spent_hours(run, summary.used_hours)
    return Row(
        run=run,
        spark=summary.spark,
        latest=summary.pass_rate,
        latest_stderr=summary.pass_rate_stderr,
        used_hours=summary.used_hours,
        share=None if spent is None or not run.budget_hours else min(1.0, spent / run.budget_hours),
        ceiling=_ceiling(run, record),
        alarms=alarms,
    )


def _ceiling(run: Run, record: Record) -> dict[str, Any] | None:
    """The forecast ceiling as the run's own page has it, with words; None where nothing is forecast."""
    summary = summary_of(run)
    if summary.tail is None or summary.ceiling_lo is None or summary.ceiling_hi is None:
        return None
    status, level = summary.fit_status, summary.level or DEFAULT_LEVEL
    interval = (summary.ceiling_lo, summary.ceiling_hi)
    factor = record.widening(level, without=run.pk).factor
    if factor != 1.0:
        status, interval = widened_ceiling(summary.tail, interval, level, factor)
    return ahead.ceiling_from(status, summary.tail, interval, level)


def shared_scale(ceilings: Sequence[dict[str, Any] | None]) -> tuple[float, float]:
    """One scale for all whiskers of a column: from the least to the greatest end, with a margin, within [0, 1]."""
    ends = [c[end] for c in ceilings if c for end in ("lo", "hi") if c[end] is not None]
    if not ends:
        return 0.0, 1.0
    return max(0.0, min(ends) - SCALE_MARGIN), min(1.0, max(ends) + SCALE_MARGIN)
