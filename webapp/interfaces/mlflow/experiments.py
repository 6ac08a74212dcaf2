"""/api/2.0/mlflow/experiments: groups of runs in the token's project.

Groups and runs in the form of MLflow's messages (protobuf's JSON).
"""

import math
from collections.abc import Iterable
from typing import Any

from webapp.base.errors import InvalidInput, NotFound, first_of
from webapp.base.formats import whole_in
from webapp.identity.accounts.models import Project
from webapp.interfaces.api.auth import READ, WRITE
from webapp.interfaces.mlflow import protocol
from webapp.interfaces.mlflow.protocol import Call, endpoint, in_view, page
from webapp.interfaces.tracking import client_runs
from webapp.interfaces.tracking.models import ClientMetric, ClientRun, Group
from webapp.interfaces.tracking.translate import Value, to_ms
from webapp.record.runs.models import State

DEFAULT_ID = "0"
ARTIFACTS = "mlflow-artifacts:"  # the client asks its tracking server for what lies there
STATUS: dict[str, str] = {  # of every other state RUNNING
    State.DRAFT: "SCHEDULED",
    State.QUEUED: "SCHEDULED",
    State.SUCCEEDED: "FINISHED",
    State.FAILED: "FAILED",
    State.LOST: "FAILED",
    State.CANCELLED: "KILLED",
}


def group_id(group: Group) -> str:
    """MLflow's clients know the default experiment by its id."""
    return DEFAULT_ID if group.name == client_runs.DEFAULT_GROUP else str(group.pk)


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
        "name": client_runs.DEFAULT_GROUP,
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
        "status": STATUS.get(found.run.state, "RUNNING"),
        "start_time": found.start_ms,
        "artifact_uri": f"{ARTIFACTS}/{group_id(found.group)}/{found.key}/artifacts",
        "lifecycle_stage": "deleted" if found.deleted_at else "active",
    }
    return info if found.end_ms is None else info | {"end_time": found.end_ms}


def run(found: ClientRun, metrics: Iterable[ClientMetric]) -> dict[str, Any]:
    newest = (Value(metric.key, metric.value, metric.step, metric.time_ms) for metric in metrics)
    data = {"metrics": history(newest), "params": pairs(found.params), "tags": pairs(found.tags)}
    return {"info": run_info(found), "data": data, "inputs": {"dataset_inputs": [], "model_inputs": []}}


def history(values: Iterable[Value]) -> list[dict[str, Any]]:
    return [
        {"key": each.name, "value": _number(each.value), "timestamp": each.time_ms, "step": each.step}
        for each in values
    ]


def _number(value: float) -> float | str:
    """JSON has no word of its own for what is not finite; protobuf's JSON has."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def find_group(project: Project, experiment_id: str) -> Group:
    """Raises NotFound, also for an experiment of another project."""
    is_default = experiment_id == DEFAULT_ID
    wanted: dict[str, Any] = (
        {"name": client_runs.DEFAULT_GROUP} if is_default else {"pk": whole_in(experiment_id, 18)}
    )
    return first_of(project.groups.filter(**wanted), f"No Experiment with id={experiment_id} exists.")


def writable_group(project: Project, experiment_id: str) -> Group:
    """The same to log into: the default one is made when it is first needed. Raises NotFound, InvalidInput."""
    if experiment_id == DEFAULT_ID:
        group = client_runs.ensure_group(project, client_runs.DEFAULT_GROUP)
    else:
        group = find_group(project, experiment_id)
    if group.deleted_at:
        raise InvalidInput("experiment_id", f"The experiment {experiment_id} must be active: it is deleted.")
    return group


@endpoint("POST", WRITE)
def create(call: Call) -> dict[str, Any]:
    tags = protocol.pairs(call.body, "tags", protocol.MAX_ENTITIES, protocol.MAX_GROUP_TAG)
    group = client_runs.create_group(call.project, protocol.text(call.body, "name"), tags=tags)
    return {"experiment_id": group_id(group)}


@endpoint("GET", READ)
def get(call: Call) -> dict[str, Any]:
    experiment_id = protocol.text(call.body, "experiment_id")
    try:
        return {"experiment": experiment(find_group(call.project, experiment_id))}
    except NotFound:
        if experiment_id != DEFAULT_ID:
            raise
    return {"experiment": default_experiment()}


@endpoint("GET", READ)
def get_by_name(call: Call) -> dict[str, Any]:
    name = protocol.text(call.body, "experiment_name")
    group = call.project.groups.filter(name=name).first()
    if group is not None:
        return {"experiment": experiment(group)}
    if name == client_runs.DEFAULT_GROUP:
        return {"experiment": default_experiment()}
    raise NotFound(f"Could not find experiment with name '{name}'.")


@endpoint("POST", READ)
def search(call: Call) -> dict[str, Any]:
    found = in_view(call.project.groups.all(), protocol.text(call.body, "view_type", default="ACTIVE_ONLY"))
    name = name_wanted(protocol.text(call.body, "filter", default=""), "experiments")
    if name is not None:
        found = found.filter(name=name)
    most = protocol.whole(call.body, "max_results", default=1000, least=1, most=protocol.MOST_LISTED)
    rows, following = page(found.order_by("-pk"), protocol.text(call.body, "page_token", default=""), most)
    return {"experiments": [experiment(row) for row in rows], **following}


def name_wanted(text: str, what: str) -> str | None:
    """The one thing that experiments and models (`what`) are filtered by here: `name = 'x'`. Raises InvalidInput."""
    if not text.strip():
        return None
    left, equals, right = text.partition("=")
    value = right.strip()
    if (
        left.strip().lower() not in ("name", "attribute.name", "attributes.name")
        or not equals
        or len(value) < 2
    ):
        raise InvalidInput("filter", f"filter: {what} can be filtered by name = 'NAME' only.")
    if value[0] not in "'\"" or value[-1] != value[0]:
        raise InvalidInput("filter", "filter: the name stands in quotes.")
    return value[1:-1]


@endpoint("POST", WRITE)
def update(call: Call) -> None:
    group = find_group(call.project, protocol.text(call.body, "experiment_id"))
    if group.name == client_runs.DEFAULT_GROUP:
        raise InvalidInput("new_name", "The default experiment keeps its name.")
    client_runs.rename_group(group, protocol.text(call.body, "new_name"))


@endpoint("POST", WRITE)
def delete(call: Call) -> None:
    client_runs.set_group_deleted(find_group(call.project, protocol.text(call.body, "experiment_id")), True)


@endpoint("POST", WRITE)
def restore(call: Call) -> None:
    client_runs.set_group_deleted(find_group(call.project, protocol.text(call.body, "experiment_id")), False)


@endpoint("POST", WRITE)
def set_tag(call: Call) -> None:
    group = writable_group(call.project, protocol.text(call.body, "experiment_id"))
    name, value = protocol.pair(call.body, protocol.MAX_GROUP_TAG)
    client_runs.set_group_tags(group, {name: value})


@endpoint("POST", WRITE)
def delete_tag(call: Call) -> None:
    group = writable_group(call.project, protocol.text(call.body, "experiment_id"))
    name = protocol.key(call.body)
    if name not in group.tags:
        raise NotFound(f"No tag with name: {name} in experiment with id {group_id(group)}.")
    client_runs.set_group_tags(group, {name: None})
