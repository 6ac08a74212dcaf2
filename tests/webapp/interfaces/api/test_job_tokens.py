"""The token of a job belongs to one attempt of its run, and dies with that attempt though the run goes on."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.launching import launched
from tests.webapp.interfaces.api.conftest import ApiClient
from webapp.record.runs import launch, lifecycle, states
from webapp.record.runs.models import Record, State
from webapp.record.runs.tokens import create_job_token


@pytest.fixture
def run(user, project, model_folder):
    """Of its first attempt the job was found dead, its second trains."""
    run = launched(
        user=user, project=project, recipe="tiny-scalerl", task="arithmetic", model="tiny-arithmetic", seed=0,
        budget_hours=0.5,
    )  # fmt: skip
    lifecycle.report_started(run, attempt=1, resumed_from_step=None, device="cpu")
    states.move(run, State.FAILED, attempt=1, reason="out of memory", part=states.RECONCILIATION)
    launch.resume_run(run, user=user)
    return lifecycle.report_started(run, attempt=2, resumed_from_step=3, device="cpu")


@pytest.fixture
def job(run):
    """job(1): a client with the token that the job of this attempt was given."""
    return lambda attempt: ApiClient(create_job_token(run, attempt))


def batch(attempt):
    return {
        "records": [
            {
                "attempt": attempt, "seq": 0, "step": 4, "time": "2026-01-01T00:00:00Z",
                "compute": {"device_hours": 0.1, "flops": 1e15, "tokens": 1e5}, "metrics": {"train/reward": 0.5},
            }
        ]
    }  # fmt: skip


def ended(run, attempt, ago, state=State.FAILED):
    run.attempts.filter(number=attempt).update(state=state, ended_at=timezone.now() - ago)


@pytest.mark.parametrize("state", [State.FAILED, State.LOST])
def test_an_hour_after_its_attempt_the_token_is_dead_though_the_run_goes_on(run, job, state):
    ended(run, 1, timedelta(hours=2), state)

    answer = job(1).post(f"runs/{run.pk}/records", batch(1))

    assert answer.status_code == 401
    assert answer.json()["error"]["message"] == (
        f"This token could only report attempt 1 of run {run.pk}, which has ended."
    )
    assert not Record.objects.exists()
    assert job(2).post(f"runs/{run.pk}/records", batch(2)).status_code == 200


def test_within_the_hour_it_delivers_what_its_journal_held_and_nothing_of_the_next_attempt(run, job):
    ended(run, 1, timedelta(minutes=30))
    old = job(1)

    refused = [
        old.post(f"runs/{run.pk}/records", batch(2)),
        old.post(f"runs/{run.pk}/start", {"attempt": 2}),
        old.post(f"runs/{run.pk}/finish", {"attempt": 2, "state": "failed"}),
    ]

    assert [answer.status_code for answer in refused] == [403, 403, 403]
    assert "attempt 1" in refused[0].json()["error"]["message"]
    run.refresh_from_db()
    assert (run.state, Record.objects.count()) == (State.RUNNING, 0)
    assert old.post(f"runs/{run.pk}/records", batch(1)).status_code == 200


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_after_its_own_word_of_the_end_it_writes_nothing_and_may_repeat_that_word(run, job, state):
    end = {"attempt": 2, "state": state}
    assert job(2).post(f"runs/{run.pk}/records", batch(2)).status_code == 200
    assert job(2).post(f"runs/{run.pk}/finish", end).status_code == 200

    late = job(2).post(f"runs/{run.pk}/records", {"records": [batch(2)["records"][0] | {"seq": 1}]})

    assert (late.status_code, Record.objects.count()) == (401, 1)
    assert late.json()["error"]["message"] == (
        f"This token could only report attempt 2 of run {run.pk}, which has ended."
    )
    assert job(2).post(f"runs/{run.pk}/finish", end).status_code == 200  # the answer did not arrive


def test_a_later_job_delivers_what_an_earlier_one_left_in_the_journal(run, job):
    assert job(2).post(f"runs/{run.pk}/records", batch(1)).status_code == 200


def test_the_newest_attempt_may_come_back_from_being_lost(run, job):
    ended(run, 2, timedelta(days=2), State.LOST)

    assert job(2).post(f"runs/{run.pk}/records", batch(2)).status_code == 200
