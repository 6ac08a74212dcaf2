"""Rows of the runs list: everything about a page of runs in a constant number of queries, none of them for points."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import prefetch_related_objects

from scaling.course import widened_ceiling
from webapp.interfaces.pages.run.alarms import is_unjudged, mark_words
from webapp.record.runs.ingest import spent_hours, summary_of
from webapp.record.runs.models import Run
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.selectors import active_alarms
from webapp.science.curves import ahead
from webapp.science.curves.axes import DEFAULT_LEVEL
from webapp.science.curves.record.recalibrating import Record, record_of


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
