"""Giving a run a larger budget: while it runs, or after it has used the one it had."""

from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.base import nudge
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import User
from webapp.identity.audit.services import record
from webapp.record.runs import places
from webapp.record.runs.bounds import check_budget
from webapp.record.runs.models import Dispatch, Run, State
from webapp.record.runs.selectors import used_hours
from webapp.record.runs.states import ACTIVE
from worker import names


@transaction.atomic
def extend_run(run: Run, budget_hours: float, *, user: User | None) -> Run:
    """From now on the run may use `budget_hours` device-hours in all. Its driver learns of it between two updates;
    an ended run can be resumed to it.

    Raises InvalidInput (budget_hours) where that is not above
    the budget, or not above what is spent, or the project's quota does not reach; Conflict for a draft, a tracked run,
    or where somebody else changed the budget at the same time.
    """
    if run.origin == Run.Origin.TRACKED or run.budget_hours is None:
        raise Conflict("This run trains elsewhere; its budget is set there.")
    if run.state == State.DRAFT:
        raise Conflict("This run is a draft; launch it with the budget that it should have.")
    before = run.budget_hours
    _check(run, before, budget_hours)
    places.check_quota(run.project, budget_hours - before)
    config = run.config | {"budget": (run.config.get("budget") or {}) | {"device_hours": budget_hours}}
    mine = Run.objects.filter(pk=run.pk, budget_hours=before)
    changed = mine.update(budget_hours=budget_hours, config=config, version=F("version") + 1)
    run.refresh_from_db()
    if not changed:
        raise Conflict(
            f"Somebody else changed the budget meanwhile: it is {run.budget_hours:,.7g} device-hours now."
        )
    if run.state in ACTIVE:
        _tell_driver(run)
    figures: dict[str, Any] = {"budget_hours": budget_hours, "before": before}
    record("run.extended", actor=user, project=run.project, kind="run", key=run.pk, name=run.name, **figures)
    return run


def _check(run: Run, before: float, budget_hours: float) -> None:
    check_budget(budget_hours)
    used = used_hours(run)
    if budget_hours <= used:
        raise InvalidInput(
            "budget_hours", f"{used:.4g} device-hours are spent already: the budget must be above that."
        )
    if budget_hours <= before:
        raise InvalidInput(
            "budget_hours",
            f"The budget is {before:g} device-hours, of which {used:.4g} are spent; it can only be extended.",
        )


def _tell_driver(run: Run) -> None:
    """Through the outbox: the row is opened again where an earlier extension has closed it."""
    kind = Dispatch.Kind.BUDGET
    row, made = Dispatch.objects.get_or_create(run=run, attempt=run.attempt_number, kind=kind)
    if not made:
        Dispatch.objects.filter(pk=row.pk).update(done_at=None, claimed_until=None, created_at=timezone.now())
    nudge.send(names.DISPATCH, run.pk)
