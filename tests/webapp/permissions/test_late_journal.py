"""A trainer whose run has ended: what its client still delivers, what it keeps, and what it says. Real client, real
server."""

import threading
from datetime import timedelta

import pytest
from django.utils import timezone

from headroom import backoff, sender
from headroom.beginning import init
from tests.fake_model import make_model
from tests.launching import launched
from tests.members import member
from tests.waiting import wait_until
from webapp.identity.accounts.services import default_project
from webapp.record.runs import lifecycle
from webapp.record.runs.models import Record, Run, State
from webapp.record.runs.tokens import create_job_token


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(sender, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(backoff, "FIRST_CLOSING_SECONDS", 0.02)
    for name in ("HEADROOM_URL", "HEADROOM_TOKEN", "HEADROOM_TOKEN_FILE", "HEADROOM_RUN", "HEADROOM_ATTEMPT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(transactional_db, headroom_home):
    make_model(headroom_home, "tiny-arithmetic", 4096)
    user = member()
    run = launched(
        user=user, project=default_project(), recipe="tiny-scalerl", task="arithmetic", model="tiny-arithmetic",
        seed=0, budget_hours=0.5,
    )  # fmt: skip
    return lifecycle.report_started(run, attempt=1, resumed_from_step=None, device="cpu")


@pytest.fixture
def report(run, live_server, tmp_path):
    """report(timeout): a trainer with the run's own token logs one record and finishes; whether all of it arrived."""
    token = create_job_token(run)

    def send(timeout):
        trainer = init(
            run=run.pk, attempt=1, journal=tmp_path / "metrics.jsonl", url=live_server.url, token=token
        )
        trainer.log({"eval/pass_rate": 0.5}, step=3, compute={"device_hours": 0.1})
        return trainer.finish(timeout=timeout)

    return send


def ended(run, state, ago):
    Run.objects.filter(pk=run.pk).update(state=state, ended_at=timezone.now() - ago)
    run.attempts.update(state=state, ended_at=timezone.now() - ago)


def test_within_the_hour_a_late_record_still_arrives(run, report):
    ended(run, State.SUCCEEDED, timedelta(minutes=30))

    assert report(timeout=20)
    assert Record.objects.get(run=run).step == 3
    run.refresh_from_db()
    assert run.state == State.SUCCEEDED


def test_after_the_hour_records_stay_in_the_journal_and_the_log_says_why(run, report, tmp_path, caplog):
    ended(run, State.FAILED, timedelta(hours=2))
    of_others = set(threading.enumerate())

    assert not report(timeout=1)

    assert not Record.objects.exists()
    assert '"step":3' in (tmp_path / "metrics.jsonl").read_text().replace(" ", "")
    assert not (tmp_path / "metrics.jsonl.rejected").exists()
    assert (
        f"This token could only report attempt 1 of run {run.pk}, which has ended. (HTTP 401)" in caplog.text
    )
    assert "records wait in" in caplog.text

    ended(
        run, State.FAILED, timedelta(minutes=1)
    )  # as if it had been in time: the journal goes on where it was
    wait_until(lambda: Record.objects.filter(run=run, step=3).exists(), what="the kept record")
    for thread in set(threading.enumerate()) - of_others:
        if thread.name == "headroom-sender":  # it may not outlive the database of this test
            thread.join(30)
            assert not thread.is_alive()


def test_a_lost_run_that_speaks_after_days_runs_again(run, report):
    ended(run, State.LOST, timedelta(days=2))

    assert report(timeout=20)
    assert Record.objects.get(run=run).step == 3
    run.refresh_from_db()
    assert run.state == State.SUCCEEDED  # its trainer came back and finished
