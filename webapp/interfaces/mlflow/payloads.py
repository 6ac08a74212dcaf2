"""Groups and runs in the form of MLflow's messages (protobuf's JSON)."""

import math
import re
from collections.abc import Iterable
from typing import Any

from webapp.interfaces.tracking.groups import DEFAULT
from webapp.interfaces.tracking.lines import Value, to_ms
from webapp.interfaces.tracking.models import ClientMetric, ClientRun, Group
from webapp.record.runs.models import State

DEFAULT_ID = "0"
ARTIFACTS = "mlflow-artifacts:"  # the client asks its tracking server for what lies there
MODEL_ID = re.compile(r"m-([0-9a-f]{32})-(\d{1,6})")  # of the run that logged it, and its number there
STATUS = {
    State.DRAFT: "SCHEDULED",
    State.QUEUED: "SCHEDULED",
    State.SUCCEEDED: "FINISHED",
    State.FAILED: "FAILED",
    State.LOST: "FAILED",
    State.CANCELLED: "KILLED",
}


def group_id(group: Group) -> str:
    """MLflow's clients know the default experiment by its id."""
    return DEFAULT_ID if group.name == DEFAULT else str(group.pk)


def experiment(group: Group) -> dict[str, Any]:
    return {
        "experiment_id": group_id(group),
        "name": group.name,
        "artifact_location": f"{ARTIFACTS}/{group_id(group)}",
        "lifecycle_stage": "deleted" if group.deleted_at else "active",
        "creation_time": to_ms(group.created_at),
        "last_update_time": to_ms(group.changed_at),
        "tags": pairs(group.tags),
    }


def default_experiment() -> dict[str, Any]:
    """The default experiment of a project that has logged nothing into it yet."""
    return {
        "experiment_id": DEFAULT_ID,
        "name": DEFAULT,
        "artifact_location": f"{ARTIFACTS}/{DEFAULT_ID}",
        "lifecycle_stage": "active",
    }


def pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in sorted(values.items())]


def run_info(found: ClientRun) -> dict[str, Any]:
    """`status` is Headroom's: a person may have stopped the run, or it was lost (FAILED)."""
    info: dict[str, Any] = {
        "run_id": found.key,
        "run_uuid": found.key,
        "run_name": found.name,
        "experiment_id": group_id(found.group),
        "user_id": found.user_name,
        "status": STATUS.get(State(found.run.state), "RUNNING"),
        "start_time": found.start_ms,
        "artifact_uri": f"{ARTIFACTS}/{group_id(found.group)}/{found.key}/artifacts",
        "lifecycle_stage": "deleted" if found.deleted_at else "active",
    }
    return info if found.end_ms is None else info | {"end_time": found.end_ms}


def run(found: ClientRun, metrics: Iterable[ClientMetric]) -> dict[str, Any]:
    newest = [
        _metric(metric.key, Value(metric.key, metric.value, metric.step, metric.time_ms))
        for metric in metrics
    ]
    data = {"metrics": newest, "params": pairs(found.params), "tags": pairs(found.tags)}
    return {"info": run_info(found), "data": data, "inputs": {"dataset_inputs": [], "model_inputs": []}}


def history(values: Iterable[Value]) -> list[dict[str, Any]]:
    return [_metric(value.name, value) for value in values]


def _metric(key: str, value: Value) -> dict[str, Any]:
    return {"key": key, "value": number(value.value), "timestamp": value.time_ms, "step": value.step}


def number(value: float) -> float | str:
    """JSON has no word of its own for what is not finite; protobuf's JSON has."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
