"""Putting right what is said of a run: name, tags and notes of any run; of one that trains elsewhere also task, model,
seed and the meaning of its metrics. What a launch has determined stays.

What a trainer that runs elsewhere says of its run after it was made: a name, words, more of its configuration.

Deleting a run that trains elsewhere. For a day it can be brought back; then all that it has goes for good.

Runs that are saved but not launched yet: launch them later, or delete them.

Taking a project's runs away again, whatever they have grown to.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.db.models.deletion import RestrictedError
from django.utils import timezone

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.identity.audit.services import record_each
from webapp.record.recipes.services import parse_config
from webapp.record.runs import launch
from webapp.record.runs.bounds import (
    MAX_MODEL,
    MAX_TAGS,
    MAX_TASK,
    check_config,
    check_seed,
    clean_name,
    clean_notes,
    clean_tags,
    clean_text,
)
from webapp.record.runs.meaning import AT_ONCE, meaning_of, state_meaning
from webapp.record.runs.models import Point, Run, Series, State, deleted_or_restored
from webapp.record.runs.states import ENDED, bump, record_run

MEANING = "meaning"
DETERMINED = ("task", "model", "seed", MEANING)  # by the launch, of a run that was launched here
DETERMINED_SAYS = "This run was launched here: its {} is what it trains with."
SHOWN_CHARACTERS = 200  # of notes, in the audit log


def _name(value: str) -> str:
    if not (name := clean_name(value)):
        raise InvalidInput("name", "name must not be empty.")
    return name


def _seed(value: int) -> int:
    check_seed(value)
    return value


_CLEAN: dict[str, Callable[[Any], Any]] = {
    "name": _name,
    "tags": clean_tags,
    "notes": clean_notes,
    "task": lambda value: clean_text("task", value, MAX_TASK) or launch.UNSTATED,
    "model": lambda value: clean_text("model", value, MAX_MODEL) or launch.UNSTATED,
    "seed": _seed,
}
FIELDS = (*_CLEAN, MEANING)


@transaction.atomic
def change_run(run: Run, changes: Mapping[str, Any], *, user: User | None, at_once: int = AT_ONCE) -> Run:
    """Change the fields (of FIELDS) that are named, all of them or none; what is not named stays. `meaning` is a
    mapping of fields of `meaning.Meaning`, of which those that are not named stay, too; `at_once`: `state_meaning`.

    Predictions keep the task and model that they were made for. Raises InvalidInput naming the field, and Conflict for
    what a launch determined, and what `state_meaning`
    raises.
    """
    held = Run.objects.select_for_update().get(pk=run.pk)
    if field := determined(held, changes):
        raise Conflict(DETERMINED_SAYS.format(field), field=field)
    change_held([held], changes, user=user)
    if MEANING in changes:
        state_meaning(run, replace(meaning_of(held), **changes[MEANING]), user=user, at_once=at_once)
    run.refresh_from_db()
    return run


def cleaned(changes: Mapping[str, Any]) -> dict[str, Any]:
    """What `change_run` would store of them, but for the meaning. Raises InvalidInput naming the field."""
    if unknown := [field for field in changes if field not in FIELDS]:
        raise InvalidInput(unknown[0], f"{unknown[0]} cannot be changed: what can is {', '.join(FIELDS)}.")
    return {field: _CLEAN[field](value) for field, value in changes.items() if field != MEANING}


def determined(run: Run, changes: Mapping[str, Any]) -> str:
    """The first of the fields that its launch has determined; empty where there is none."""
    is_launched = run.origin == Run.Origin.LAUNCHED
    return next((field for field in DETERMINED if is_launched and field in changes), "")


@transaction.atomic
def change_held(runs: Sequence[Run], changes: Mapping[str, Any], *, user: User | None) -> set[str]:
    """What `change_run` changes but for the meaning, of runs of one project that the caller has locked and may change,
    in a few queries. Those that were not so before."""
    clean = cleaned(changes)
    told = {run.pk: _told(run, clean) for run in runs}
    changed = [run for run in runs if told[run.pk]]
    if changed:
        Run.objects.filter(pk__in=[run.pk for run in changed]).update(version=F("version") + 1, **clean)
        record_each(
            "run.changed", actor=user, project=changed[0].project, kind="run",
            things=[(run.pk, clean.get("name", run.name)) for run in changed],
            own={run.pk: {"changes": told[run.pk]} for run in changed},
        )  # fmt: skip
    return {run.pk for run in changed}


def _told(before: Run, clean: Mapping[str, Any]) -> dict[str, list[Any]]:
    """For the audit log: what changes, from what to what."""
    fresh = {field: value for field, value in clean.items() if getattr(before, field) != value}
    return {field: [_shown(getattr(before, field)), _shown(value)] for field, value in fresh.items()}


def _shown(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return value[:SHOWN_CHARACTERS] or "none" if isinstance(value, str) else value


@transaction.atomic
def report_described(
    run: Run, *, name: str = "", tags: Iterable[str] = (), config: Mapping[str, Any] | None = None
) -> Run:
    """Rename the run, add tags to those that it has, and set these entries of its configuration; what is not named
    stays. Model and seed of the configuration are the run's, where none was said. Safe to repeat.

    Raises InvalidInput (name, tags, config), and Conflict for a run that was launched here.
    """
    held = Run.objects.select_for_update().get(pk=run.pk)
    if held.origin != Run.Origin.TRACKED:
        raise Conflict("This run was launched here: its configuration is what it trains with.")
    said: dict[str, Any] = {
        "name": clean_name(name) or held.name,
        "tags": sorted({*held.tags, *clean_tags(tags)}),
        "config": {**held.config, **(config or {})},
    }
    open_fields = {"model": launch.UNSTATED, "seed": 0}  # what nobody has said yet
    said |= {
        field: value
        for field, value in launch.said_in(config or {}).items()
        if getattr(held, field) == open_fields[field]
    }
    fresh = {field: value for field, value in said.items() if value != getattr(held, field)}
    if len(fresh.get("tags", ())) > MAX_TAGS:
        raise InvalidInput("tags", f"tags: a run has at most {MAX_TAGS}.")
    check_config(fresh.get("config", {}))
    if fresh:
        bump(run.pk, **fresh)
        run.refresh_from_db()
    return run


CHUNK = 100  # runs a transaction
DELETE_POINTS = """
DELETE FROM runs_point USING runs_series
WHERE runs_point.series_id = runs_series.id AND runs_series.run_id = ANY(%s)
"""
DELETE_RECORDS = "DELETE FROM runs_record WHERE run_id = ANY(%s)"
log = logging.getLogger(__name__)
UNDO = timedelta(days=1)
RESTING = ("predictions", "rival_predictions", "prediction_outcomes")  # what keeps a run from being deleted


def remove_runs(project: Project) -> Iterator[int]:
    """Delete the project's runs with all that they have; yields how many went at a time."""
    _empty_points_of_nobody_else(project)
    ids = list(Run.with_deleted.filter(project=project).values_list("pk", flat=True))
    for first in range(0, len(ids), CHUNK):
        chunk = ids[first : first + CHUNK]
        remove(chunk)
        yield len(chunk)


@transaction.atomic
def remove(ids: list[str]) -> None:
    """Delete these runs with all that they have. Raises RestrictedError where a prediction rests on one."""
    with connection.cursor() as cursor:
        cursor.execute(DELETE_POINTS, [ids])
        cursor.execute(DELETE_RECORDS, [ids])
    Run.with_deleted.filter(pk__in=ids).delete()


@transaction.atomic
def _empty_points_of_nobody_else(project: Project) -> None:
    """All points at once where no other project has any: deleting 100 million of them takes an hour."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"LOCK TABLE {Series._meta.db_table} IN SHARE MODE"
        )  # nobody begins a series meanwhile
        if not Series.objects.exclude(run__project=project).exists():
            cursor.execute(f"TRUNCATE {Point._meta.db_table}")


@transaction.atomic
def delete_run(run: Run, *, user: User | None) -> Run:
    """From now on it is in no list, chart or ranking and takes no records. `restore_run` brings it back within UNDO.

    Raises Conflict for a run that was launched here, that
    has not ended, that a prediction rests on, that is in a study, or that is deleted already.
    """
    if refused := delete_runs([run], user=user):
        raise Conflict(refused[run.pk])
    run.refresh_from_db()
    return run


@transaction.atomic
def delete_runs(runs: Sequence[Run], *, user: User | None) -> dict[str, str]:
    """`delete_run` of many runs of one project, in a few queries: those that cannot be deleted -> why not."""
    ids = [run.pk for run in runs]
    held = Run.objects.select_for_update().filter(pk__in=ids).order_by("pk")
    states = dict(held.values_list("pk", "state"))
    predicted, studied = _related(ids, *RESTING), _related(ids, "studies")
    refused = {}
    for run in runs:
        reasons = (
            (
                run.origin == Run.Origin.LAUNCHED,
                "This run was launched here: it can be archived, not deleted.",
            ),
            (run.pk in predicted, "A prediction rests on this run: it can be archived, not deleted."),
            (run.pk in studied, "This run is in a study: take it out there first, or archive it."),
            (run.pk not in states, "This run is deleted already."),
            (states.get(run.pk) not in ENDED, "It has not ended; stop it first."),
        )
        if why := next((sentence for holds, sentence in reasons if holds), ""):
            refused[run.pk] = why
    _set_deleted([run for run in runs if run.pk not in refused], timezone.now(), "run.deleted", user)
    return refused


def _set_deleted(runs: Sequence[Run], at: datetime | None, verb: str, user: User | None) -> None:
    if not runs:
        return
    named, project = [(run.pk, run.name) for run in runs], runs[0].project
    Run.with_deleted.filter(pk__in=[pk for pk, _ in named]).update(deleted_at=at, version=F("version") + 1)
    record_each(verb, actor=user, project=project, kind="run", things=named)
    deleted_or_restored.send(Run, project=project)


@transaction.atomic
def restore_run(run: Run, *, user: User | None) -> Run:
    """Undo `delete_run`: everything is as it was.

    Raises Conflict for a run that is not deleted.
    """
    if not restore_runs([run], user=user):
        raise Conflict("This run is not deleted.")
    run.refresh_from_db()
    return run


@transaction.atomic
def restore_runs(runs: Sequence[Run], *, user: User | None) -> set[str]:
    """`restore_run` of many runs of one project, in a few queries: those that were deleted."""
    ids = [run.pk for run in runs]
    deleted = Run.with_deleted.select_for_update().filter(pk__in=ids, deleted_at__isnull=False).order_by("pk")
    found = set(deleted.values_list("pk", flat=True))
    _set_deleted([run for run in runs if run.pk in found], None, "run.restored", user)
    return found


def _related(ids: Sequence[str], *relations: str) -> set[str]:
    """Those of the runs that have anything in one of these relations. A query each."""
    runs = Run.with_deleted.filter(pk__in=ids)
    return {
        pk for name in relations
        for pk in runs.filter(**{f"{name}__isnull": False}).values_list("pk", flat=True)
    }  # fmt: skip


def purge() -> int:
    """Remove what was deleted longer than UNDO ago; how many runs. Safe to repeat, and to interrupt anywhere."""
    due = Run.with_deleted.filter(deleted_at__lt=timezone.now() - UNDO).order_by("deleted_at")
    count = 0
    for pk in list(due.values_list("pk", flat=True)):
        try:
            remove([pk])
            count += 1
        except RestrictedError as error:  # something rests on it after all
            log.warning("run %s is deleted and stays: %s", pk, error)
    return count


@transaction.atomic
def launch_draft(run: Run, *, user: User | None) -> Run:
    """Queue the draft's first attempt. Its configuration is resolved anew: a model may have gone since.

    Raises InvalidInput where it cannot be launched (any more)
    or the project's quota does not reach, NoRoom where the disk is full, and Conflict where it is no draft (any more).
    """
    if run.state == State.DRAFT and run.revision is not None:
        launch.resolved_config(
            parse_config(run.revision.config), task=run.task, model=run.model, seed=run.seed,
            budget_hours=run.budget_hours or 0.0,
        )  # fmt: skip
    if run.state != State.DRAFT or not launch.queue_first_attempt(run, user):
        run.refresh_from_db()
        raise Conflict(f"This run is no draft any more: it is {run.state}.")
    return run


@transaction.atomic
def delete_draft(run: Run, *, user: User | None) -> None:
    """Delete a draft for good. What was launched is never deleted.

    Raises Conflict where it is no draft (any more).
    """
    held = Run.objects.select_for_update().filter(pk=run.pk, state=State.DRAFT).first()
    if held is None:
        state = Run.objects.filter(pk=run.pk).values_list("state", flat=True).first()
        raise Conflict(
            f"This run is no draft any more: it is {state}." if state else "This draft is deleted already."
        )
    held.delete()
    record_run("run.draft_deleted", run, user)
