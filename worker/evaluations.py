"""Benchmarks of checkpoints, each a job of Ray's: submitted, looked at, their results kept."""

import json
import shlex
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from training.recipe import parse_recipe
from webapp.record.evaluations import services
from webapp.record.evaluations.models import Evaluation
from webapp.record.runs.observation import JobStatus, last_line
from worker.dispatch import handed_on, job_python
from worker.ray_jobs import RayJobs, RayRefused, RayUnreachable, connect

MOST = 100  # a round
UNKNOWN_AFTER = timedelta(
    minutes=1
)  # to a Ray that does not have the job: it was never handed over, or lost since


def see_to_evaluations() -> int:
    """Submit the jobs of evaluations that wait, and keep what others have measured; returns how many are open."""
    rows = services.open_ones(MOST)
    if rows:
        with connect() as jobs:
            known = jobs.all()
            for one in rows:
                _see_to(jobs, one, known.get(one.submission_id))
    return len(rows)


def _see_to(jobs: RayJobs, one: Evaluation, job: JobStatus | None) -> None:
    if one.state == Evaluation.State.QUEUED:
        if services.claim(one):
            _submit(jobs, one)
    elif job is None:
        if one.submitted_at is not None and one.submitted_at < timezone.now() - UNKNOWN_AFTER:
            services.put_back(one, "Ray does not know its job any more.")
    elif job.status == "SUCCEEDED":
        _keep_result(one)
    elif job.status in ("FAILED", "STOPPED"):
        said = last_line(jobs.log_tail(one.submission_id, job.node_id))
        services.failed(one, said or job.message or f"Its job is {job.status.lower()}.")


def _submit(jobs: RayJobs, one: Evaluation) -> None:
    checkpoint = services.checkpoints_by_step(one.run_id).get(one.step)
    if checkpoint is None:
        services.failed(one, f"The checkpoint of step {one.step} is not there any more.")
        return
    resources = parse_recipe(one.run.config).resources
    gpus = resources.gpus_per_generator
    cpus = 0 if gpus else resources.cpus_per_generator
    out = _out(one)
    out.parent.mkdir(parents=True, exist_ok=True)
    variables = handed_on() | {
        "HEADROOM_HOME": str(settings.HEADROOM_HOME),
        "PYTHONPATH": str(settings.BASE_DIR),
        "OMP_NUM_THREADS": str(resources.cpus_per_generator),
    }
    try:
        jobs.submit(one.submission_id, _entrypoint(one, checkpoint, out), variables, cpus=cpus, gpus=gpus)
    except RayRefused as error:
        services.failed(one, str(error))
    except RayUnreachable as error:
        services.put_back(one, str(error), counts=False)


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
    try:
        result = json.loads(_out(one).read_bytes())
        float(result["pass_rate"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        services.failed(one, f"Its result cannot be read: {error}")
        return
    services.succeeded(one, result)
