import shlex
import socket
import sys
from pathlib import Path

import httpx
import pytest

from stack.ports import free_port
from tests.running_stack import RunningStack
from tests.waiting import wait_until
from tests.worker.fake_ray import FakeRay
from worker import ray_jobs
from worker.ray_jobs import LOG_TAIL_BYTES, JobStatus, RayJobs, RayRefused, RayUnreachable, connect


def test_submission_names_the_job_and_its_variables(ray: FakeRay) -> None:
    with connect() as jobs:
        jobs.submit("run-x-a1", "echo hello", {"COLOUR": "green"})

    assert ray.jobs["run-x-a1"].submission == {
        "submission_id": "run-x-a1",
        "entrypoint": "echo hello",
        "runtime_env": {"env_vars": {"COLOUR": "green"}},
    }


def test_same_id_twice_is_one_job(ray: FakeRay) -> None:
    with connect() as jobs:
        jobs.submit("run-x-a1", "echo first", {})
        jobs.submit("run-x-a1", "echo second", {})

    assert ray.jobs["run-x-a1"].submission["entrypoint"] == "echo first"


def test_unknown_job_is_none_and_its_stop_is_done(ray: FakeRay) -> None:
    with connect() as jobs:
        assert jobs.status("run-y-a1") is None
        jobs.stop("run-y-a1")


def test_status_and_end_of_the_log(ray: FakeRay) -> None:
    with connect() as jobs:
        jobs.submit("run-x-a1", "true", {})
        job = ray.jobs["run-x-a1"]
        job.status, job.message, job.log = "FAILED", "exit 1", "ü" * LOG_TAIL_BYTES + "\nlast\n"

        assert jobs.status("run-x-a1") == JobStatus("FAILED", "exit 1", "node-1", "ray-run-x-a1")
        tail = jobs.log_tail("run-x-a1", "node-1")
        assert tail.endswith("ü\nlast\n") and len(tail.encode()) <= LOG_TAIL_BYTES + 3
        assert jobs.log_tail("run-x-a1", None) == ""
        assert jobs.log_tail("run-y-a1", "node-1") == ""


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ((400, "Traceback\nValueError: entrypoint_num_cpus is wrong."), RayRefused, "entrypoint_num_cpus"),
        ((500, "Traceback\nException: No available agent"), RayUnreachable, "No available agent"),
    ],
    ids=["for-good", "for-now"],
)
def test_refused_submission_says_why(
    ray: FakeRay, answer: tuple[int, str], error: type[Exception], message: str
) -> None:
    ray.refuse_submissions = answer
    with connect() as jobs, pytest.raises(error, match=message):
        jobs.submit("run-x-a1", "true", {})


def test_wrong_token_is_named(ray: FakeRay) -> None:
    with (
        RayJobs(ray.address, "wrong") as jobs,
        pytest.raises(RayUnreachable, match="does not accept the token"),
    ):
        jobs.status("run-x-a1")


def test_absent_ray_is_named() -> None:
    with (
        RayJobs(f"127.0.0.1:{free_port()}") as jobs,
        pytest.raises(RayUnreachable, match="does not answer.*refused"),
    ):
        jobs.status("run-x-a1")


def test_hung_ray_is_an_error_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_jobs, "TIMEOUT", httpx.Timeout(0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with RayJobs(address) as jobs, pytest.raises(RayUnreachable, match="does not answer: timed out"):
            jobs.status("run-x-a1")


def test_unknown_cluster_is_said_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADROOM_HOME", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(RayUnreachable, match="no Ray cluster is known"):
        connect()


@pytest.fixture
def real_jobs(stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> RayJobs:
    monkeypatch.setenv("HEADROOM_HOME", str(stack.home))
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(stack.home / "secrets" / "ray_token"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return connect()


def status(jobs: RayJobs, name: str) -> str:
    job = jobs.status(name)
    return job.status if job else "unknown"


@pytest.mark.stack
def test_real_ray_runs_a_job_once(real_jobs: RayJobs) -> None:
    with real_jobs as jobs:
        jobs.submit("run-real-a1", "echo $COLOUR; echo $RAY_JOB_STOP_WAIT_TIME_S", {"COLOUR": "green"})
        jobs.submit("run-real-a1", "echo again", {})
        wait_until(lambda: status(jobs, "run-real-a1") == "SUCCEEDED", 60)
        job = jobs.status("run-real-a1")
        assert job is not None
        wait_until(lambda: "green\n30\n" in jobs.log_tail("run-real-a1", job.node_id), 10)

        assert "again" not in jobs.log_tail("run-real-a1", job.node_id)


CHECKPOINTING = """
import signal, sys, time
def stop(*_):
    print("writing the checkpoint", flush=True)
    time.sleep(4)
    print("written", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("training", flush=True)
time.sleep(600)
"""


@pytest.mark.stack
def test_stopped_job_has_time_to_write_its_checkpoint(real_jobs: RayJobs, tmp_path: Path) -> None:
    """Four seconds here: more than the three that Ray gives by itself."""
    (tmp_path / "driver.py").write_text(CHECKPOINTING)
    with real_jobs as jobs:
        jobs.submit("run-stop-a1", shlex.join([sys.executable, str(tmp_path / "driver.py")]), {})
        wait_until(lambda: status(jobs, "run-stop-a1") == "RUNNING", 60)
        job = jobs.status("run-stop-a1")
        assert job is not None
        wait_until(lambda: "training" in jobs.log_tail("run-stop-a1", job.node_id), 30)
        jobs.stop("run-stop-a1")
        wait_until(lambda: status(jobs, "run-stop-a1") in ("STOPPED", "SUCCEEDED"), 60)

        assert jobs.log_tail("run-stop-a1", job.node_id).endswith("written\n")
