"""Deleting a run that trains elsewhere. For a day it can be brought back; then all that it has goes for good.

Runs that are saved but not launched yet: launch them later, or delete them.

Taking a project's runs away again, whatever they have grown to.
"""

import logging
from collections.abc import Iterator
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import F
from django.db.models.deletion import RestrictedError
from django.utils import timezone

from webapp.base.errors import Conflict
from webapp.identity.accounts.models import Project, User
from webapp.identity.audit.services import record
from webapp.record.runs import launch
from webapp.record.runs.models import Point, Run, Series, State, deleted_or_restored
from webapp.record.runs.states import ENDED

CHUNK = 100  # runs a transaction
DELETE_POINTS = """
DELETE FROM runs_point USING runs_series
WHERE runs_point.series_id = runs_series.id AND runs_series.run_id = ANY(%s)
"""
DELETE_RECORDS = "DELETE FROM runs_record WHERE run_id = ANY(%s)"
log = logging.getLogger(__name__)
UNDO = timedelta(days=1)


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
    if run.origin == Run.Origin.LAUNCHED:
        raise Conflict("This run was launched here: it can be archived, not deleted.")
    if is_predicted(run):
        raise Conflict("A prediction rests on this run: it can be archived, not deleted.")
    if run.studies.exists():
        raise Conflict("This run is in a study: take it out there first, or archive it.")
    ended = Run.objects.filter(pk=run.pk, state__in=ENDED)
    if not ended.update(deleted_at=timezone.now(), version=F("version") + 1):
        is_there = Run.objects.filter(pk=run.pk).exists()
        raise Conflict("It has not ended; stop it first." if is_there else "This run is deleted already.")
    record("run.deleted", actor=user, project=run.project, kind="run", key=run.pk, name=run.name)
    deleted_or_restored.send(Run, project=run.project)
    run.refresh_from_db()
    return run


@transaction.atomic
def restore_run(run: Run, *, user: User | None) -> Run:
    """Undo `delete_run`: everything is as it was.

    Raises Conflict for a run that is not deleted.
    """
    deleted = Run.with_deleted.filter(pk=run.pk, deleted_at__isnull=False)
    if not deleted.update(deleted_at=None, version=F("version") + 1):
        raise Conflict("This run is not deleted.")
    record("run.restored", actor=user, project=run.project, kind="run", key=run.pk, name=run.name)
    deleted_or_restored.send(Run, project=run.project)
    run.refresh_from_db()
    return run


def is_predicted(run: Run) -> bool:
    """Whether a prediction, of whatever state, is about it or was judged by it."""
    return run.predictions.exists() or run.rival_predictions.exists() or run.prediction_outcomes.exists()


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
            run.revision, task=run.task, model=run.model, seed=run.seed, budget_hours=run.budget_hours or 0.0
        )
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
    record("run.draft_deleted", actor=user, project=run.project, kind="run", key=run.pk, name=run.name)
