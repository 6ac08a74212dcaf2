"""/api/2.0/mlflow-artifacts/artifacts: the files that MLflow's clients log, below the address that their run names.

GROUP/RUN/artifacts/PATH             PATH of the run's files
GROUP/models/MODEL/artifacts/PATH    models/MODEL/PATH of the run that logged the model
"""

from typing import Any

from django.http import HttpRequest, HttpResponseBase, JsonResponse

from webapp.base.errors import NotFound
from webapp.identity.accounts.models import Project, Scope
from webapp.interfaces import files
from webapp.interfaces.mlflow import checks
from webapp.interfaces.mlflow.door import DOORS, Call, authenticate, endpoint, in_mlflows_form, problem
from webapp.interfaces.mlflow.experiments import MODEL_ID, run_info
from webapp.interfaces.mlflow.runs import MLFLOW, check_active, find
from webapp.interfaces.tracking.models import ClientRun
from webapp.interfaces.tracking.selectors import client_run_by_key
from webapp.record.artifacts import store
from webapp.record.runs.models import Run


@in_mlflows_form
def artifacts(request: HttpRequest, path: str = "") -> HttpResponseBase:
    """GET without a path lists the folder that the query names; with one, GET, PUT and DELETE are of that file."""
    if request.method not in ("GET", "PUT", "DELETE") or (not path and request.method != "GET"):
        return problem(405, "BAD_REQUEST", f"{request.method} is not possible here.")
    token = authenticate(request, DOORS[Scope.READ if request.method == "GET" else Scope.WRITE])
    if not path:
        found, folder = _place(token.project, request.GET.get("path", ""))
        return JsonResponse({"files": listed(found.run, folder)})
    found, name = _place(token.project, path)
    if request.method == "GET":
        return files.download(store.find(found.run, name))
    check_active(found)
    if request.method == "PUT":
        files.upload(request, found.run, name)
    else:
        store.delete(found.run, name, user=token.user)
    return JsonResponse({})


def _place(project: Project, path: str) -> tuple[ClientRun, str]:
    """The run that an address means, and the path within it. Raises NotFound."""
    match path.strip("/").split("/"):
        case [_, "models", model, "artifacts", *rest] if found := MODEL_ID.fullmatch(model):
            return client_run_by_key(project, MLFLOW, found[1]), "/".join(["models", model, *rest])
        case [_, key, "artifacts", *rest]:
            return client_run_by_key(project, MLFLOW, key), "/".join(rest)
    raise NotFound(f"{path} is no address of a run's artifacts: EXPERIMENT/RUN/artifacts/PATH.")


@endpoint("GET", Scope.READ)
def list_artifacts(call: Call) -> dict[str, Any]:
    """The same by the run's id, with whole paths."""
    found, folder = find(call), checks.text(call.body, "path", default="").strip("/")
    before = f"{folder}/" if folder else ""
    inside = [item | {"path": before + item["path"]} for item in listed(found.run, folder)]
    return {"root_uri": run_info(found)["artifact_uri"], "files": inside}


def listed(run: Run, folder: str) -> list[dict[str, Any]]:
    """What stands directly in a folder of the run: files with their bytes, and folders; none of a file."""
    found: dict[str, dict[str, Any]] = {}
    for path, size in store.below(run, folder).values_list("path", "size"):
        name, slash, _ = path[len(folder) :].lstrip("/").partition("/")
        if name:
            found[name] = {"path": name, "is_dir": bool(slash)} | ({} if slash else {"file_size": size})
    return list(found.values())
