"""/api/2.0/mlflow/logged-models: what MLflow 3's `log_model` says of a model.

What is said of it lies with the run that logged it, and so do its files.

/api/2.0/mlflow-artifacts/artifacts: the files that MLflow's clients log, below the address that their run names.

GROUP/RUN/artifacts/PATH             PATH of the run's files
GROUP/models/MODEL/artifacts/PATH    models/MODEL/PATH of the run that logged the model
"""

import json
import re
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from webapp.base.errors import InvalidInput, NotFound
from webapp.identity.accounts.models import Project
from webapp.interfaces import files
from webapp.interfaces.api.auth import READ, WRITE
from webapp.interfaces.mlflow import experiments, protocol
from webapp.interfaces.mlflow.protocol import (
    Call,
    NotKept,
    authenticate,
    endpoint,
    in_mlflows_form,
    problem,
)
from webapp.interfaces.mlflow.runs import active, find, find_active, runs_of_groups
from webapp.interfaces.tracking import client_runs
from webapp.interfaces.tracking.models import ClientRun
from webapp.interfaces.tracking.selectors import client_run_by_key
from webapp.interfaces.tracking.translate import now_ms
from webapp.record.artifacts import store
from webapp.record.runs.bounds import MAX_MODELS_CHARACTERS
from webapp.record.runs.models import Run

MODEL_ID = re.compile(r"m-([0-9a-f]{32})-(\d{1,6})")  # of the run that logged it, and its number there
STATUSES = ("LOGGED_MODEL_PENDING", "LOGGED_MODEL_READY", "LOGGED_MODEL_UPLOAD_FAILED")
MAX_NAME = 500
MOST_FOUND = 1000


def by_method(**views: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """One address, another view for each method."""

    @csrf_exempt
    def view(request: HttpRequest, **kwargs: str) -> HttpResponseBase:
        chosen = views.get((request.method or "").lower())
        if chosen is None:
            return problem(405, "BAD_REQUEST", f"{request.method} is not possible here.")
        return chosen(request, **kwargs)

    return view


def _find(call: Call) -> tuple[ClientRun, str, dict[str, Any]]:
    """The run, the id and what is known of a model. Raises NotFound, also for one of another project."""
    model_id = call.path["model_id"]
    found = MODEL_ID.fullmatch(model_id)
    run = client_run_by_key(call.project, found[1]) if found else None
    if run is None or model_id not in run.logged_models:
        raise NotFound(f"Logged model with ID '{model_id}' not found.")
    return run, model_id, run.logged_models[model_id]


def _payload(run: ClientRun, model_id: str, about: dict[str, Any]) -> dict[str, Any]:
    group = experiments.group_id(run.group)
    info = {
        "model_id": model_id,
        "experiment_id": group,
        "name": about["name"],
        "creation_timestamp_ms": about["made_ms"],
        "last_updated_timestamp_ms": about["changed_ms"],
        "artifact_uri": f"{experiments.ARTIFACTS}/{group}/models/{model_id}/artifacts",
        "status": about["status"],
        "model_type": about["model_type"],
        "source_run_id": run.key,
        "tags": experiments.pairs(about["tags"]),
    }
    return {"model": {"info": info, "data": {"params": experiments.pairs(about["params"]), "metrics": []}}}


@endpoint("POST", WRITE)
def create(call: Call) -> dict[str, Any]:
    if not call.body.get("source_run_id"):
        raise NotKept("Headroom keeps a model with the run that logged it: send source_run_id.")
    run = find_active(Call(call.token, call.body | {"run_id": call.body["source_run_id"]}))
    now = now_ms()
    about = {
        "name": protocol.text(call.body, "name", default="model")[:MAX_NAME],
        "model_type": protocol.text(call.body, "model_type", default="")[:MAX_NAME],
        "params": protocol.pairs(call.body, "params", protocol.MAX_ENTITIES, protocol.MAX_PARAM),
        "tags": protocol.pairs(call.body, "tags", protocol.MAX_ENTITIES, protocol.MAX_TAG),
        "status": STATUSES[0],
        "made_ms": now,
        "changed_ms": now,
    }
    model_id, run = client_runs.add_model(run, about)
    return _payload(run, model_id, about)


@endpoint("GET", READ)
def get(call: Call) -> dict[str, Any]:
    return _payload(*_find(call))


@endpoint("PATCH", WRITE)
def finalize(call: Call) -> dict[str, Any]:
    status = protocol.text(call.body, "status")
    if status not in STATUSES:
        raise InvalidInput("status", f"status must be one of {', '.join(STATUSES)}.")
    return _changed(call, status=status)


@endpoint("PATCH", WRITE)
def set_tags(call: Call) -> dict[str, Any]:
    tags = protocol.pairs(call.body, "tags", protocol.MAX_ENTITIES, protocol.MAX_TAG)
    return _changed(call, tags=_find(call)[2]["tags"] | tags)


@endpoint("DELETE", WRITE)
def delete_tag(call: Call) -> dict[str, Any]:
    tags = _find(call)[2]["tags"]
    if call.path["key"] not in tags:
        raise NotFound(f"No tag with name: {call.path['key']} in this model.")
    return _changed(call, tags={key: value for key, value in tags.items() if key != call.path["key"]})


@endpoint("POST", WRITE)
def log_params(call: Call) -> None:
    params = protocol.pairs(call.body, "params", protocol.MAX_ENTITIES, protocol.MAX_PARAM)
    _changed(call, params=_find(call)[2]["params"] | params)


def _changed(call: Call, **changes: Any) -> dict[str, Any]:
    run, model_id, about = _find(call)
    changed = about | changes | {"changed_ms": now_ms()}
    return _payload(client_runs.change_model(run, model_id, changed), model_id, changed)


@endpoint("POST", READ)
def search(call: Call) -> dict[str, Any]:
    """The newest models of the experiments, by name where that is asked for; clients look among them for a run. Of the
    newest runs as many as have MAX_MODELS_CHARACTERS said of them."""
    runs = runs_of_groups(call).filter(deleted_at=None).exclude(logged_models={}).order_by("-start_ms", "pk")
    name = experiments.name_wanted(protocol.text(call.body, "filter", default=""), "models")
    most = protocol.whole(call.body, "max_results", default=MOST_FOUND, least=1, most=MOST_FOUND)
    found: list[tuple[ClientRun, str, dict[str, Any]]] = []
    characters = 0
    for run in runs.defer("params", "tags", "run__config")[:MOST_FOUND].iterator(chunk_size=10):
        wanted = {key: one for key, one in run.logged_models.items() if name is None or one["name"] == name}
        characters += len(json.dumps(wanted))
        if characters > MAX_MODELS_CHARACTERS and found:
            break
        found += [(run, model_id, about) for model_id, about in wanted.items()]
    found.sort(key=lambda each: each[2]["made_ms"], reverse=True)
    return {"models": [_payload(*each)["model"] for each in found[:most]]}


@in_mlflows_form
def artifacts(request: HttpRequest, path: str = "") -> HttpResponseBase:
    """GET without a path lists the folder that the query names; with one, GET, PUT and DELETE are of that file."""
    if request.method not in ("GET", "PUT", "DELETE") or (not path and request.method != "GET"):
        return problem(405, "BAD_REQUEST", f"{request.method} is not possible here.")
    token = authenticate(request, READ if request.method == "GET" else WRITE)
    if not path:
        found, folder = _place(token.project, request.GET.get("path", ""))
        return JsonResponse({"files": listed(found.run, folder)})
    found, name = _place(token.project, path)
    if request.method == "GET":
        return files.download(store.find(found.run, name))
    run = active(found).run
    if request.method == "PUT":
        files.upload(request, run, name)
    else:
        store.delete(run, name, user=token.user)
    return JsonResponse({})


def _place(project: Project, path: str) -> tuple[ClientRun, str]:
    """The run that an address means, and the path within it. Raises NotFound."""
    match path.strip("/").split("/"):
        case [_, "models", model, "artifacts", *rest] if found := MODEL_ID.fullmatch(model):
            return client_run_by_key(project, found[1]), "/".join(["models", model, *rest])
        case [_, key, "artifacts", *rest]:
            return client_run_by_key(project, key), "/".join(rest)
    raise NotFound(f"{path} is no address of a run's artifacts: EXPERIMENT/RUN/artifacts/PATH.")


@endpoint("GET", READ)
def list_artifacts(call: Call) -> dict[str, Any]:
    """The same by the run's id, with whole paths."""
    found, folder = find(call), protocol.text(call.body, "path", default="").strip("/")
    before = f"{folder}/" if folder else ""
    inside = [item | {"path": before + item["path"]} for item in listed(found.run, folder)]
    return {"root_uri": experiments.run_info(found)["artifact_uri"], "files": inside}


def listed(run: Run, folder: str) -> list[dict[str, Any]]:
    """What stands directly in a folder of the run: files with their bytes, and folders; none of a file."""
    found: dict[str, dict[str, Any]] = {}
    for path, size in store.below(run, folder).values_list("path", "size"):
        name, slash, _ = path[len(folder) :].lstrip("/").partition("/")
        if name:
            found[name] = {"path": name, "is_dir": bool(slash)} | ({} if slash else {"file_size": size})
    return list(found.values())
