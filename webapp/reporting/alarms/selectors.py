"""Reading stored alarms."""

from collections.abc import Iterable

from webapp.record.alarm_rules.configured import rules_by_name
from webapp.record.alarm_rules.rules import Level
from webapp.record.runs.models import Run
from webapp.reporting.alarms.models import Alarm


def alarms_of(run: Run) -> list[Alarm]:
    """The run's alarms by rules in force: active before over, critical before warnings, then the longest ago."""
    return sorted(Alarm.objects.filter(run=run, rule__in=rules_by_name()), key=_order)


def active_alarms(run_ids: Iterable[str]) -> dict[str, list[Alarm]]:
    """Run -> its active alarms, for many runs in one query."""
    found: dict[str, list[Alarm]] = {}
    rows = Alarm.objects.filter(run__in=list(run_ids), active=True, rule__in=rules_by_name()).defer("marks")
    for alarm in sorted(rows, key=_order):
        found.setdefault(alarm.run_id, []).append(alarm)
    return {run_id: most_severe(alarms) for run_id, alarms in found.items()}


def most_severe(alarms: Iterable[Alarm]) -> list[Alarm]:
    """Of the alarms of one metric on one side only the most severe: a critical one says what the warning would."""
    kept: dict[tuple[str, bool], Alarm] = {}
    known = rules_by_name()
    for alarm in sorted(alarms, key=_order):
        kept.setdefault((alarm.metric, known[alarm.rule].comparison.upwards), alarm)
    return list(kept.values())


def _order(alarm: Alarm) -> tuple[bool, bool, int, str]:
    return not alarm.active, alarm.level != Level.CRITICAL, alarm.first_step, alarm.rule
