from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from tests.waiting import wait_until
from tests.worker.conftest import make_run
from tests.worker.fake_ray import FakeJob, FakeRay
from training.driver.control import CONTROL, Budget
from webapp.record.health.models import LastRound
from webapp.record.runs import lifecycle
from webapp.record.runs.models import Attempt, Dispatch, Run, State
from worker import reconcile
from worker.dispatch import send_dispatches
from worker.reconcile import observe_jobs, reconcile_all

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(run: Run, ray: FakeRay, with_broker: str) -> FakeJob:
    """The run's job, submitted by a round of reconciliation: its hint got lost."""
    reconcile_all()
    return ray.jobs[f"run-{run.pk}-a1"]


def state(run: Run) -> str:
    run.refresh_from_db()
    return run.state


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("PENDING", State.STARTING),
        ("RUNNING", State.STARTING),
        ("SUCCEEDED", State.SUCCEEDED),
        ("FAILED", State.FAILED),
        ("STOPPED", State.CANCELLED),
    ],
)
def test_run_follows_its_job(run: Run, job: FakeJob, status: str, expected: str) -> None:
    job.status = status
    reconcile_all()

    assert state(run) == expected


def test_failure_and_log_reach_the_attempt(run: Run, job: FakeJob) -> None:
    job.status, job.message, job.log = "FAILED", "", "loading\nModelError: no such model\n"
    reconcile_all()

    attempt = Attempt.objects.get(run=run)
    assert attempt.log_tail == job.log
    assert state(run) == State.FAILED
    assert run.state_reason == "ModelError: no such model"


def test_repeated_rounds_change_nothing(run: Run, job: FakeJob) -> None:
    job.status, job.log = "RUNNING", "step 1\n"
    reconcile_all()
    run.refresh_from_db()
    version = run.version
    reconcile_all()
    run.refresh_from_db()

    assert run.version == version


def test_unreachable_ray_says_nothing_about_its_jobs(
    run: Run, job: FakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    Attempt.objects.update(created_at=long_ago)
    Run.objects.update(heartbeat_at=long_ago)
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:1")
    reconcile_all()

    assert state(run) == State.STARTING


def test_job_that_ray_forgot_is_lost_after_a_while(run: Run, job: FakeJob, ray: FakeRay) -> None:
    ray.jobs.clear()
    reconcile_all()
    assert state(run) == State.STARTING

    long_ago = timezone.now() - timedelta(hours=1)
    Attempt.objects.update(created_at=long_ago)
    run.dispatches.update(done_at=long_ago)
    reconcile_all()
    assert run.transitions.filter(to_state=State.LOST).count() == 1
    assert (state(run), run.attempt_number) == (State.QUEUED, 2)  # and goes on


def test_cancelled_run_is_stopped_and_settled(run: Run, job: FakeJob) -> None:
    run.refresh_from_db()
    lifecycle.cancel_run(run, user=None)
    reconcile_all()
    assert (state(run), job.stops) == (State.STOPPING, 1)

    job.status = "STOPPED"
    reconcile_all()
    assert state(run) == State.CANCELLED


def test_refit_whose_hint_was_lost_is_made(run: Run, ray: FakeRay, with_broker: str) -> None:
    Run.objects.update(refit_wanted_at=timezone.now())
    reconcile_all()
    run.refresh_from_db()

    assert run.refit_wanted_at is None


def test_one_steps_trouble_does_not_stop_the_others(
    run: Run, ray: FakeRay, with_broker: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ray.fail = (200, "this is not JSON")
    Run.objects.update(refit_wanted_at=timezone.now())
    reconcile_all()
    run.refresh_from_db()

    assert run.refit_wanted_at is None


@pytest.mark.django_db(transaction=True)
def test_only_one_round_at_a_time(ray: FakeRay) -> None:
    settings = connection.get_connection_params() | {"cursor_factory": None}
    known = {key: settings[key] for key in ("dbname", "user", "host", "port") if settings.get(key)}
    with psycopg.connect(**known, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [reconcile.ADVISORY_LOCK])
        assert not reconcile_all()
    wait_until(reconcile_all, 5)  # the server notices the closed connection a moment later


def test_nothing_unfinished_asks_ray_nothing(db: None, ray: FakeRay) -> None:
    assert observe_jobs() == 0
    assert ray.requests == []


def test_one_listing_whatever_the_number_of_runs(run: Run, job: FakeJob, ray: FakeRay) -> None:
    for _ in range(4):
        make_run()
    send_dispatches()
    ray.requests.clear()
    observe_jobs()

    others = [line for line in ray.requests if not line.endswith("/logs/file")]
    assert others == ["GET /api/jobs/", "GET /api/v0/placement_groups"]
    assert ray.requests.count("GET /api/v0/logs/file") == 5


def test_an_answer_that_was_lost_is_adopted(run: Run, ray: FakeRay) -> None:
    """Ray took the job, the worker never heard of it, and the row says that it is to be tried again."""
    send_dispatches()
    Dispatch.objects.update(done_at=None, claimed_until=timezone.now() + timedelta(minutes=1))
    Run.objects.update(state=State.QUEUED)
    Attempt.objects.update(state=State.QUEUED)
    observe_jobs()

    assert state(run) == State.STARTING
    assert ray.submitted == [f"run-{run.pk}-a1"]
    assert not Dispatch.objects.filter(done_at=None).exists()


def test_a_killed_driver_is_retried_and_a_broken_recipe_is_not(
    run: Run, job: FakeJob, ray: FakeRay, with_broker: str
) -> None:
    broken = make_run()
    send_dispatches()
    job.status, job.message = "FAILED", "Job entrypoint command failed with exit code -9, last available logs"
    other = ray.jobs[f"run-{broken.pk}-a1"]
    other.status, other.message = "FAILED", "Job entrypoint command failed with exit code 1, last"
    reconcile_all()

    assert (state(run), run.attempt_number) == (State.QUEUED, 2)
    assert "Retry 1 of 3" in run.state_reason and "exit code -9" in run.state_reason
    assert (state(broken), broken.attempt_number) == (State.FAILED, 1)
    Dispatch.objects.update(claimed_until=None)
    reconcile_all()
    assert ray.jobs[f"run-{run.pk}-a2"].submission["entrypoint"].endswith(" --resume")


def test_the_only_run_is_retried_when_its_driver_has_said_that_a_part_died(
    run: Run, job: FakeJob, with_broker: str
) -> None:
    lifecycle.report_finished(run, attempt=1, state="failed", message="generator 0 died", infrastructure=True)
    reconcile_all()
    assert state(run) == State.FAILED  # its driver still leaves the cluster

    job.status, job.message = "FAILED", "Job entrypoint command failed with exit code 75"
    for _ in range(2):  # whether or not there is a log to read
        reconcile_all()

    assert (state(run), run.attempt_number) == (State.QUEUED, 2)
    assert "Retry 1 of 3 in 10 s, from the newest checkpoint: generator 0 died" in run.state_reason


def test_a_larger_budget_reaches_the_drivers_folder(run: Run, job: FakeJob, tmp_path: Path) -> None:
    run.refresh_from_db()
    lifecycle.extend_run(run, 0.75, user=None)
    send_dispatches()

    control = tmp_path / "runs" / run.pk / CONTROL
    assert Budget(control.parent, 0.1).hours() == 0.75


def test_a_round_is_written_down_with_the_steps_that_failed(
    run: Run, ray: FakeRay, with_broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconcile_all()
    assert LastRound.objects.get().failures == {}

    def refit_wanted() -> int:
        raise ValueError("with an address of ours in it")

    monkeypatch.setattr(reconcile, "STEPS", (refit_wanted, *reconcile.STEPS))
    reconcile_all()
    assert LastRound.objects.get().failures == {"refit_wanted": "ValueError; the worker's log says more"}
