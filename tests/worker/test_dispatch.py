import os
import shlex
import stat
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from django.utils import timezone

from stack.environment import ROOT
from tests.webapp.tokens import authenticate
from tests.worker.fake_ray import FakeRay
from training.recipe import load_recipe
from webapp.record.health.models import ClusterSeen
from webapp.record.runs import lifecycle
from webapp.record.runs.models import Dispatch, Run, State
from worker.cluster import look_at_cluster
from worker.dispatch import send_dispatches

pytestmark = pytest.mark.django_db


def due_now() -> None:
    """As if the waiting time of failed dispatches had passed."""
    Dispatch.objects.filter(done_at=None).update(claimed_until=timezone.now() - timedelta(seconds=1))


def test_launched_run_becomes_a_ray_job(run: Run, ray: FakeRay, tmp_path: Path) -> None:
    assert send_dispatches(run_id=run.pk) == 1

    run.refresh_from_db()
    assert run.state == State.STARTING
    submission = ray.jobs[f"run-{run.pk}-a1"].submission
    folder = tmp_path / "runs" / run.pk
    words = shlex.split(submission["entrypoint"])
    assert words == [
        "exec", sys.executable, "-m", "training", "run", str(folder / "recipe.yaml"), "--run-dir", str(folder),
    ]  # fmt: skip
    variables = submission["runtime_env"]["env_vars"]
    assert variables["HEADROOM_RUN"] == run.pk
    assert variables["HEADROOM_ATTEMPT"] == "1"
    assert variables["HEADROOM_URL"] == "http://headroom.example"
    assert variables["PYTHONPATH"] == str(ROOT)
    assert variables["RAY_JOB_STOP_WAIT_TIME_S"] == "30"


def test_run_folder_holds_a_recipe_that_loads_and_a_token_of_the_owner_only(
    run: Run, ray: FakeRay, tmp_path: Path
) -> None:
    send_dispatches(run_id=run.pk)

    folder = tmp_path / "runs" / run.pk
    assert yaml.safe_load((folder / "recipe.yaml").read_text()) == run.config
    assert load_recipe(str(folder / "recipe.yaml")).model_dump(mode="json") == run.config
    assert stat.S_IMODE(os.stat(folder / "token").st_mode) == 0o600
    token = authenticate((folder / "token").read_text())
    assert token is not None and token.run_id == run.pk
    assert (folder / "token").read_text() not in str(ray.jobs)


def test_second_attempt_resumes(run: Run, ray: FakeRay) -> None:
    Dispatch.objects.update(done_at=timezone.now())
    Run.objects.update(state=State.QUEUED, attempt_number=2)
    Dispatch.objects.create(run=run, attempt=2, kind=Dispatch.Kind.SUBMIT)
    send_dispatches()

    assert ray.jobs[f"run-{run.pk}-a2"].submission["entrypoint"].endswith(" --resume")


def test_python_of_another_cluster(run: Run, ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_JOB_PYTHON", "/opt/venv/bin/python")
    send_dispatches()

    assert (
        ray.jobs[f"run-{run.pk}-a1"]
        .submission["entrypoint"]
        .startswith("exec /opt/venv/bin/python -m training")
    )


def test_answer_that_got_lost_does_not_submit_twice(run: Run, ray: FakeRay) -> None:
    send_dispatches()
    Dispatch.objects.update(done_at=None, claimed_until=None)
    Run.objects.update(state=State.SUBMITTING)
    send_dispatches()

    assert ray.requests.count("POST /api/jobs/") == 1
    run.refresh_from_db()
    assert run.state == State.STARTING


def test_absent_ray_leaves_the_run_queued_and_says_why(
    run: Run, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:1")
    assert send_dispatches() == 0
    run.refresh_from_db()
    assert run.state == State.QUEUED
    assert "Ray at http://127.0.0.1:1 does not answer" in run.state_reason

    monkeypatch.setenv("RAY_ADDRESS", ray.address)
    due_now()
    assert send_dispatches() == 1
    run.refresh_from_db()
    assert run.state == State.STARTING


def test_job_that_ray_refuses_for_good_fails_the_run(run: Run, ray: FakeRay) -> None:
    ray.refuse_submissions = (400, "Traceback\nValueError: no such resource.")
    send_dispatches()

    run.refresh_from_db()
    assert run.state == State.FAILED
    assert "no such resource" in run.state_reason


def test_folder_that_cannot_be_written_is_tried_again(run: Run, ray: FakeRay, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    send_dispatches()
    run.refresh_from_db()
    assert run.state == State.QUEUED and run.state_reason

    (tmp_path / "runs").unlink()
    due_now()
    assert send_dispatches() == 1


def test_a_cluster_that_was_not_seen_lately_is_asked_first(run: Run, ray: FakeRay) -> None:
    config = run.config | {"resources": run.config["resources"] | {"generator_gpus": 1}}
    Run.objects.filter(pk=run.pk).update(config=config)
    node = {"node_id": "a", "node_ip": "10.0.0.1", "state": "ALIVE", "resources_total": {"CPU": 64.0}}
    ray.nodes = [node]
    look_at_cluster()
    ClusterSeen.objects.update(seen_at=timezone.now() - timedelta(hours=1))  # all workers were away

    assert send_dispatches() == 0
    run.refresh_from_db()
    assert (run.state, run.state_reason) == (State.QUEUED, "needs 1 GPU, the cluster has 0")

    ray.fail = (404, "no such address")  # one that says nothing of its nodes is tried all the same
    ClusterSeen.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    due_now()
    send_dispatches()
    assert run.dispatches.get().tries == 1


def test_cancel_stops_the_job(run: Run, ray: FakeRay) -> None:
    send_dispatches()
    run.refresh_from_db()
    lifecycle.cancel_run(run, user=None)
    send_dispatches()

    assert ray.jobs[f"run-{run.pk}-a1"].stops == 1


def test_run_cancelled_before_it_was_sent_never_reaches_ray(run: Run, ray: FakeRay) -> None:
    lifecycle.cancel_run(run, user=None)
    send_dispatches()

    assert ray.jobs == {}
