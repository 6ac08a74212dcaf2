"""Deleting a run that trains elsewhere. For a day it can be brought back; then all that it has goes for good."""

import logging
from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.deletion import RestrictedError
from django.dispatch import Signal
from django.utils import timezone

from webapp.base.errors import Conflict
from webapp.identity.accounts.models import User
from webapp.identity.audit.services import record
from webapp.record.runs.models import Run
from webapp.record.runs.removal import remove
from webapp.record.runs.states import ENDED

log = logging.getLogger(__name__)

UNDO = timedelta(days=1)
deleted_or_restored = Signal()  # project: of the run; inside the transaction


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
