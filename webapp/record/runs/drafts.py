"""Runs that are saved but not launched yet: launch them later, or delete them."""

from django.db import transaction

from webapp.base.errors import Conflict
from webapp.identity.accounts.models import User
from webapp.identity.audit.services import record
from webapp.record.runs import launch
from webapp.record.runs.models import Run, State


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
