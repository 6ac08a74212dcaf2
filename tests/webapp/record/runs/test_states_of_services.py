"""Every service from every state: a run goes along the arrows of `webapp.record.runs.states`, or stays."""

from contextlib import suppress
from datetime import timedelta
from itertools import pairwise

import pytest
from django.conf import settings
from django.utils import timezone

from tests import launching
from tests.fake_model import make_model
from tests.members import member
from tests.shared_rows import kept
from training.records import Record
from webapp.base.errors import ServiceError
from webapp.identity.accounts.services import create_project
from webapp.record.runs import editing, ingest, launch, lifecycle, observation, places
from webapp.record.runs.models import Run, State, Transition
from webapp.record.runs.observation import JobStatus
from webapp.record.runs.states import ENDED, LEAVES

RESUMED = {(ended, State.QUEUED) for ended in ENDED}
DRAWN = {(source, to) for to, sources in LEAVES.items() for source in sources} | RESUMED


def observed(status, *, answered=True):
    def observe(run, user):
        name = f"run-{run.pk}-a{run.attempt_number}"
        jobs = ({name: JobStatus(status)} if status else {}) if answered else None
        observation.observe(observation.unfinished_attempts(), jobs)

    return observe


def dispatched(run, user):
    for dispatch in lifecycle.claim_dispatches():
        lifecycle.dispatch_done(dispatch)


def refused(*, retry):
    def refuse(run, user):
        for dispatch in lifecycle.claim_dispatches():
            lifecycle.dispatch_failed(dispatch, "no", retry=retry)

    return refuse


def reported(run, user):
    record = {"attempt": 1, "seq": 0, "step": 1, "time": "2026-01-01T00:00:00+00:00", "metrics": {"a": 1.0}}
    compute = {"device_hours": 0.1, "flops": 1.0, "tokens": 1.0}
    ingest.store_records(run, [Record.model_validate(record | {"compute": compute})])


SERVICES = (
    {
        "cancel": lambda run, user: lifecycle.cancel_run(run, user=user),
        "resume": lambda run, user: launch.resume_run(run, user=user),
        "launch draft": lambda run, user: editing.launch_draft(run, user=user),
        "delete draft": lambda run, user: editing.delete_draft(run, user=user),
        "extend": lambda run, user: lifecycle.extend_run(run, 2.0, user=user),
        "priority": lambda run, user: places.set_priority(run, 2, user=user),
        "started": lambda run, user: lifecycle.report_started(run, attempt=1),
        "heartbeat": lambda run, user: ingest.store_records(run, []),
        "reported": reported,
        "dispatched": dispatched,
        "refused for good": refused(retry=False),
        "refused for now": refused(retry=True),
        "retried": lambda run, user: lifecycle.retry_failed(()),
        "went on": lambda run, user: lifecycle.go_on(),
        "unreachable": observed(None, answered=False),
        "unknown": observed(None),
    }
    | {
        f"{end} reported": lambda run, user, end=end: lifecycle.report_finished(run, attempt=1, state=end)
        for end in ("succeeded", "failed", "cancelled")
    }
    | {
        f"Ray says {status}": observed(status)
        for status in ("PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED")
    }
)


def put_into(run, state):
    """The run as if it had come to that state long ago."""
    ended_at = timezone.now() - timedelta(minutes=5) if state in ENDED else None
    Run.objects.filter(pk=run.pk).update(state=state, ended_at=ended_at)
    failures = {State.FAILED: "infrastructure", State.LOST: "infrastructure", State.CANCELLED: "stepped back"}
    failure = failures.get(state, "")
    run.attempts.update(
        state=state, failure=failure, ended_at=ended_at, created_at=timezone.now() - timedelta(hours=1)
    )
    if state not in (State.DRAFT, State.QUEUED):
        run.dispatches.update(done_at=timezone.now() - timedelta(hours=1))
    if state == State.DRAFT:
        run.attempts.all().delete()
        run.dispatches.all().delete()
    run.refresh_from_db()


@pytest.fixture(scope="module")
def launched(django_db_setup, django_db_blocker):
    """A queued run, for all tests of this module that take it."""
    make_model(settings.HEADROOM_HOME, "tiny-arithmetic", 4096)
    with kept(django_db_blocker):
        project = create_project(slug="shared", name="Shared")
        yield launching.launched(
            user=member("grace", project=project), project=project, recipe="tiny-scalerl", task="arithmetic",
            model="tiny-arithmetic", seed=0, budget_hours=0.5,
        )  # fmt: skip


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("state", list(State))
def test_no_service_leaves_the_drawing(db, launched, state, service):
    """Whatever is called in whatever state: the run goes along a drawn arrow, with one row for each, or stays."""
    run = Run.objects.get(pk=launched.pk)
    user = run.created_by
    put_into(run, state)
    known = Transition.objects.filter(run=run).count()

    with suppress(ServiceError):
        SERVICES[service](run, user)

    now = Run.objects.filter(pk=run.pk).first()
    if now is None:
        assert (state, service) == (State.DRAFT, "delete draft")
        return
    rows = list(Transition.objects.filter(run=run).order_by("id")[known:])
    path = [state, *(row.to_state for row in rows)]
    assert [row.from_state for row in rows] == path[:-1]
    assert set(pairwise(path)) <= DRAWN
    assert now.state == path[-1]
    assert all(row.actor_id or row.part for row in rows)
    current = now.attempts.filter(number=now.attempt_number).first()
    assert current is None and now.state == State.DRAFT or current.state == now.state
