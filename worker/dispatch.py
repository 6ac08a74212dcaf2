"""Hands claimed dispatch rows to Ray Jobs: one submission or one stop each."""

import json
import logging
import os
import shlex
import sys
from pathlib import Path

import yaml
from django.conf import settings

from observability import tracing
from observability.context import bound
from webapp.base import metrics, task_queue
from webapp.record.runs import launch, lifecycle
from webapp.record.runs.models import Dispatch, submission_id_of
from worker.cluster import know_cluster
from worker.ray_jobs import RayJobs, RayRefused, RayUnreachable, connect

log = logging.getLogger(__name__)

JOB_STOP_SECONDS = "30"
# Jobs are observed as their worker is, and keep their checkpoints where it looks for them. Ray shows a job's variables
# to whoever may see its jobs: OTEL_EXPORTER_OTLP_HEADERS, which may hold a key, is set on the cluster itself.
HANDED_ON = (
    "HEADROOM_LOG_FORMAT",
    "HEADROOM_CHECKPOINTS_URL",
    "HEADROOM_CHECKPOINTS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "OTEL_SDK_DISABLED",
    "SENTRY_DSN",
    "SENTRY_ENVIRONMENT",
    "SENTRY_RELEASE",
)
CONTROL = "control.json"  # in the run's folder; training.driver.control reads it


def send_dispatches(*, run_id: str | None = None) -> int:
    """Send every dispatch row that is due (of one run, or of all); returns how many went through.

    A row that could not be sent is tried again later, unless Ray refuses it for good.
    """
    know_cluster()
    sent = 0
    for dispatch in lifecycle.claim_dispatches(run_id=run_id):
        with (
            bound(request_id=dispatch.request_id, run=dispatch.run_id, attempt=dispatch.attempt),
            tracing.span(dispatch.kind, kind="client", parent=dispatch.traceparent) as span,
        ):
            if not (went_through := _sent(dispatch)):
                span.failed("handover")
            sent += went_through
    return sent


def _sent(dispatch: Dispatch) -> bool:
    """Whether it went through; what did not is noted in its row."""
    try:
        with connect() as jobs:
            _send(jobs, dispatch)
    except RayRefused as error:
        log.warning("%s of run %s is refused: %s", dispatch.kind, dispatch.run_id, error)
        lifecycle.dispatch_failed(dispatch, str(error), retry=False)
        return _counted(dispatch, "refused")
    except RayUnreachable as error:
        lifecycle.dispatch_failed(dispatch, str(error), retry=True)
        return _counted(dispatch, "retry")
    except Exception as error:
        log.exception("dispatch %s of run %s", dispatch.kind, dispatch.run_id)
        lifecycle.dispatch_failed(dispatch, f"{type(error).__name__}: {error}", retry=True)
        return _counted(dispatch, "retry")
    log.info("%s of run %s, attempt %s: handed over", dispatch.kind, dispatch.run_id, dispatch.attempt)
    lifecycle.dispatch_done(dispatch)
    return _counted(dispatch, "done")


def _counted(dispatch: Dispatch, outcome: str) -> bool:
    """Whether it is done."""
    metrics.HANDOVERS.labels(dispatch.kind, outcome).inc()
    return outcome == "done"


def _send(jobs: RayJobs, dispatch: Dispatch) -> None:
    submission_id = submission_id_of(dispatch.run_id, dispatch.attempt)
    if dispatch.kind == Dispatch.Kind.STOP:
        jobs.stop(submission_id)
    elif dispatch.kind == Dispatch.Kind.BUDGET:
        write_budget(dispatch)
    elif jobs.status(submission_id) is None:  # else it went through before and only the answer was lost
        spec = launch.job_spec(dispatch)
        write_run_folder(spec)
        try:
            variables = job_variables(spec) | task_queue.variables(dispatch.request_id)
            jobs.submit(spec.submission_id, entrypoint(spec), variables)
        except RayRefused:  # no driver will come for them
            spec.secrets_path.unlink(missing_ok=True)
            raise


def write_run_folder(spec: launch.JobSpec) -> None:
    """recipe.yaml, the token and the project's secrets (mode 0600) in the run's folder, each replaced as a whole.

    Raises OSError.
    """
    spec.run_dir.mkdir(parents=True, exist_ok=True)
    _write(spec.run_dir / "recipe.yaml", yaml.safe_dump(spec.recipe, sort_keys=False), 0o644)
    _write(spec.run_dir / "token", spec.token, 0o600)
    if spec.secrets:
        _write(spec.secrets_path, json.dumps(dict(spec.secrets)), 0o600)


def write_budget(dispatch: Dispatch) -> None:
    """The budget as it is now into the run's folder, where its driver looks between two updates. Raises OSError."""
    run = dispatch.run
    run.refresh_from_db(fields=["budget_hours"])
    folder = Path(settings.HEADROOM_HOME) / "runs" / run.pk
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / CONTROL, json.dumps({"device_hours": run.budget_hours}), 0o644)


def _write(path: Path, text: str, mode: int) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
    partial.replace(path)


def entrypoint(spec: launch.JobSpec) -> str:
    """The driver's command line for a shell. HEADROOM_JOB_PYTHON names the Python of another cluster.

    With `exec` the shell becomes the driver: a stop that comes before the driver has been started cannot miss it.
    """
    words = [
        job_python(),
        "-m",
        "training",
        "run",
        str(spec.run_dir / "recipe.yaml"),
        "--run-dir",
        str(spec.run_dir),
    ]
    return "exec " + shlex.join(words + (["--resume"] if spec.resume else []))


def job_python() -> str:
    """The cluster's."""
    return os.environ.get("HEADROOM_JOB_PYTHON") or sys.executable


def handed_on() -> dict[str, str]:
    """Variables of this worker's that every job has, too."""
    return {name: value for name in HANDED_ON if (value := os.environ.get(name))}


def job_variables(spec: launch.JobSpec) -> dict[str, str]:
    """The driver's variables: who it reports to, and time enough to write a checkpoint when it is stopped."""
    return handed_on() | spec.env | {"RAY_JOB_STOP_WAIT_TIME_S": JOB_STOP_SECONDS}
