"""Benchmarks of checkpoints, each a job of Ray's: submitted, looked at, their results kept."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from training.bundles import engine_bundle
from training.recipe import parse_recipe
from webapp.record.evaluations import queue
from webapp.record.evaluations.models import Evaluation
from webapp.record.evaluations.services import checkpoints_by_step
from webapp.record.runs.observation import ALIVE, JobStatus, last_line
from worker.cluster import look_if_unknown
from worker.dispatch import handed_on, job_python
from worker.ray_jobs import RayJobs, RayRefused, RayUnreachable


def see_to_evaluations(jobs: RayJobs, known: Mapping[str, JobStatus], rows: list[Evaluation]) -> None:
    """Keep what those at work have measured, stop what was cancelled, and hand over what the queue lets go."""
    for one in rows:
        if one.state != Evaluation.State.QUEUED:
            _see_to(jobs, one, known.get(one.submission_id))
    waiting = [one for one in rows if one.state == Evaluation.State.QUEUED]
    if waiting:
        look_if_unknown()
    for one in queue.claim(waiting):
        _submit(jobs, one)


def _see_to(jobs: RayJobs, one: Evaluation, job: JobStatus | None) -> None:
    is_alive = job is not None and job.status in ALIVE
    if one.state == Evaluation.State.STOPPING:
        if is_alive:
            jobs.stop(one.submission_id)
        elif job is not None or queue.is_lost(one):
            queue.stopped(one)
    elif job is None:
        if queue.is_lost(one):
            queue.put_back(one, "Ray does not know its job any more.")
    elif job.status == "SUCCEEDED":
        _keep_result(one)
    elif not is_alive:
        said = last_line(jobs.log_tail(one.submission_id, job.node_id))
        queue.failed(one, said or job.message or f"Its job is {job.status.lower()}.")
    elif job.status == "RUNNING":
        queue.begun(one)


def _submit(jobs: RayJobs, one: Evaluation) -> None:
    checkpoint = checkpoints_by_step(one.run_id).get(one.step)
    if checkpoint is None:
        queue.failed(one, f"The checkpoint of step {one.step} is not there any more.")
        return
    resources = parse_recipe(one.run.config).resources
    asked = {name: round(amount) for name, amount in engine_bundle(resources).items()}
    out = _out(one)
    out.parent.mkdir(parents=True, exist_ok=True)
    variables = handed_on() | {
        "HEADROOM_HOME": str(settings.HEADROOM_HOME),
        "PYTHONPATH": str(settings.BASE_DIR),
        "OMP_NUM_THREADS": str(resources.cpus_per_generator),
    }
    try:
        command = _entrypoint(one, checkpoint, out)
        jobs.submit(one.submission_id, command, variables, cpus=asked["CPU"], gpus=asked.get("GPU", 0))
    except RayRefused as error:
        queue.failed(one, str(error))
    except RayUnreachable as error:
        queue.put_back(one, str(error), counts=False)


def _out(one: Evaluation) -> Path:
    """Where its job's standard output goes."""
    folder = Path(settings.HEADROOM_HOME) / "runs" / one.run_id / "evaluations"
    return folder / f"{one.submission_id}.json"


def _entrypoint(one: Evaluation, checkpoint: Path, out: Path) -> str:
    """One engine, as the run's recipe has it, on one checkpoint."""
    words = [
        job_python(),
        "-m",
        "training",
        "evaluate",
        str(checkpoint),
        "--task",
        one.task,
        "--k",
        str(one.k),
    ]
    words += ["--limit", str(one.limit)] if one.limit else []
    for name, value in one.options.items():
        words += ["--option", f"{name}={json.dumps(value)}"]
    return f"exec {shlex.join([*words, '--json'])} > {shlex.quote(str(out))}"


def _keep_result(one: Evaluation) -> None:
    """Without what PostgreSQL does not take: NUL, and numbers that are none."""
    try:
        text = _out(one).read_text().replace("\\u0000", "\\ufffd")
        result = json.loads(text, parse_constant=lambda _: None)
        if not isinstance(result["pass_rate"], int | float):
            raise ValueError("it has no pass rate")
    except (OSError, ValueError, KeyError, TypeError) as error:
        queue.failed(one, f"Its result cannot be read: {error}")
        return
    queue.succeeded(one, result)
