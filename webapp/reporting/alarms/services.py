"""Judging a run anew and storing what was found. The points are the truth; alarms follow from all of them each time,
so that repeated, late and superseded records need no care."""

from datetime import timedelta

from django.db import transaction
from django.db.models import Case, F, When
from django.db.models.functions import Now
from django.utils import timezone

from webapp.base.claims import take_turns
from webapp.record.alarm_rules import rules, watched_metrics
from webapp.record.runs.models import Run
from webapp.reporting.alarms.judge import judge_all
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.selectors import alarms_of, watched_series

OVERDUE = timedelta(seconds=5)  # the worker judges within two; whoever reads after this judges for it
FIELDS = (
    "metric",
    "level",
    "active",
    "threshold",
    "value",
    "latest",
    "first_step",
    "last_step",
    "times",
    "marks",
)


def judge_run(run_id: str) -> bool:
    """Judge the run's points by the rules in force and store the outcome. True where it changed. Safe to repeat.

    The wish (`alarms_wanted_at`) is served unless something new arrived meanwhile.
    """
    with transaction.atomic():
        # One at a time a run, and not by its row: ingest must not wait.
        take_turns("alarms", run_id)
        version = Run.objects.values_list("version", flat=True).get(pk=run_id)
        changed = _store(run_id, judge_all(rules(), watched_series(run_id, watched_metrics())))
        Run.objects.filter(pk=run_id).update(
            alarms_wanted_at=Case(When(version=version, then=None), default=Now()),
            version=F("version") + int(changed),
        )
    return changed


def current_alarms(run: Run) -> list[Alarm]:
    """The run's alarms; where no worker has judged its newest records in time, they are judged now."""
    if run.alarms_wanted_at is not None and timezone.now() - run.alarms_wanted_at > OVERDUE:
        judge_run(run.pk)
        run.alarms_wanted_at = None  # once a request
    return alarms_of(run)


def judge_all_anew() -> int:
    """Wish every run to be judged again, e.g. by other thresholds; returns how many runs."""
    return Run.objects.filter(series__isnull=False).distinct().update(alarms_wanted_at=timezone.now())


def _store(run_id: str, found: list[Alarm]) -> bool:
    """Bring the run's rows in line with what was found. True where a row changed."""
    known = {alarm.rule: alarm for alarm in Alarm.objects.filter(run=run_id)}
    gone = known.keys() - {alarm.rule for alarm in found}
    if gone:
        Alarm.objects.filter(run=run_id, rule__in=gone).delete()
    changed = [alarm for alarm in found if not _is_same(alarm, known.get(alarm.rule))]
    for alarm in changed:
        before = known.get(alarm.rule)
        is_going_on = before is not None and before.first_step == alarm.first_step
        alarm.run_id, alarm.raised_at = run_id, before.raised_at if before and is_going_on else timezone.now()
    Alarm.objects.bulk_create(
        changed, update_conflicts=True, unique_fields=["run", "rule"], update_fields=[*FIELDS, "raised_at"]
    )
    return bool(gone or changed)


def _is_same(alarm: Alarm, known: Alarm | None) -> bool:
    return known is not None and all(getattr(known, name) == getattr(alarm, name) for name in FIELDS)
