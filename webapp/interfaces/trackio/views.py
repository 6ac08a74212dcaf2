"""trackio's HTTP protocol (version 1), as its client 0.43 speaks it: TRACKIO_SERVER_URL and TRACKIO_WRITE_TOKEN.

`{"args", "kwargs"}` goes in, `{"data", "error"}` comes out. The client keeps what is refused in a buffer of its own and
sends it again with what follows.
"""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from webapp.base.errors import InvalidInput, ServiceError, Unauthorized, first_of
from webapp.base.requests import batch_of
from webapp.identity.accounts.models import ApiToken
from webapp.interfaces.api.auth import READ, WRITE, BearerToken
from webapp.interfaces.api.parsing import parse_json
from webapp.interfaces.files import download
from webapp.interfaces.imports.uploads import too_large_of
from webapp.interfaces.tracking.client_runs import MAX_GROUP
from webapp.interfaces.tracking.models import ClientRun
from webapp.interfaces.tracking.selectors import runs_of_client
from webapp.interfaces.trackio import artifacts, services
from webapp.record.runs.models import Record

log = logging.getLogger(__name__)
NO_TOKEN = "Send a token of Headroom with the scope write: TRACKIO_WRITE_TOKEN."
Handler = Callable[[ApiToken, Mapping[str, Any]], Any]


def answered(
    method: str, token_auth: BearerToken
) -> Callable[[Callable[..., HttpResponseBase]], Callable[..., HttpResponseBase]]:
    """A view of a request and its token; errors are answered as trackio's client knows them."""

    def wrap(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        @csrf_exempt
        @functools.wraps(view)
        def guarded(request: HttpRequest, **path: str) -> HttpResponseBase:
            try:
                if request.method != method:
                    return _problem(405, f"{request.method} is not possible here, only {method}.")
                return view(request, _authenticate(request, token_auth), **path)
            except ServiceError as error:
                return _problem(error.status, error.message)
            except RequestDataTooBig:
                return _problem(413, "The body is too large.")
            except Exception as error:
                log.error("unexpected error in trackio's protocol", exc_info=error)
                return _problem(500, "Something went wrong here; it has been logged.")

        return guarded

    return wrap


def tool(token_auth: BearerToken, *names: str) -> Callable[[Handler], Callable[..., HttpResponseBase]]:
    """A handler as a view. `names`: of its arguments, which may come by place or by name."""

    def wrap(handler: Handler) -> Callable[..., HttpResponseBase]:
        @answered("POST", token_auth)
        @functools.wraps(handler)
        def view(request: HttpRequest, token: ApiToken) -> HttpResponseBase:
            return JsonResponse({"data": handler(token, _arguments(request, names)), "error": None})

        return view

    return wrap


def _authenticate(request: HttpRequest, token_auth: BearerToken) -> ApiToken:
    raw = request.headers.get("x-trackio-write-token", "")
    if not raw.strip():
        raise Unauthorized(NO_TOKEN)
    return token_auth.authenticate(request, raw)


def _arguments(request: HttpRequest, names: tuple[str, ...]) -> dict[str, Any]:
    body = parse_json(batch_of(request) or b"{}", allow_inf_nan=True)
    args = body.get("args") or [] if isinstance(body, dict) else None
    kwargs = body.get("kwargs") or {} if isinstance(body, dict) else None
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise InvalidInput(None, 'The body must be {"args": [...], "kwargs": {...}}.')
    return dict(zip(names, args, strict=False)) | kwargs


def _problem(status: int, message: str) -> JsonResponse:
    """The client shows its user the line of the status, and nothing of the body."""
    line = "".join(c for c in message if " " <= c <= "~")[:300]
    return JsonResponse({"data": None, "error": message}, status=status, reason=line)


API_VERSION = 1
LEVELS = ("info", "warn", "error")


def version(request: HttpRequest) -> JsonResponse:
    """trackio's client wants api_version. MLflow's client reads no version here, and then asks for nothing new."""
    return JsonResponse({"server": "headroom", "api_version": API_VERSION})


def health(request: HttpRequest) -> HttpResponse:
    """As MLflow's server says it; /healthz says more."""
    return HttpResponse("OK", content_type="text/plain")


@tool(READ, "project")
def get_runs_for_project(token: ApiToken, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = _runs(token, given).order_by("run__created_at", "key")
    return [
        {
            "id": row.key,
            "name": row.name,
            "created_at": row.run.created_at.isoformat(),
            "status": row.run.state,
        }
        for row in found
    ]


def _runs(token: ApiToken, given: Mapping[str, Any]) -> Any:
    name = services.text(given, "kwargs", "project", MAX_GROUP)
    return runs_of_client(token.project, ClientRun.Client.TRACKIO).filter(group__name=name)


@tool(READ, "project", "run", "run_id")
def get_run_summary(token: ApiToken, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a client that goes on with a run asks: `last_step`. Of runs with one name the newest."""
    asked = {name: given.get(name) for name in ("project", "run", "run_id")}
    named = {"key": given["run_id"]} if given.get("run_id") else {"name": given.get("run") or ""}
    if not all(isinstance(value, str) for value in named.values()):
        raise InvalidInput("kwargs.run", "kwargs.run and kwargs.run_id must be text.")
    found = _runs(token, given).filter(**named).order_by("-run__created_at").first()
    count = Record.objects.filter(run=found.run).count() if found else 0
    if not found or not count:
        return asked | {"num_logs": 0, "metrics": [], "config": None, "last_step": None}
    names = list(found.client_metrics.order_by("key").values_list("key", flat=True))
    last = found.client_metrics.order_by("-step").values_list("step", flat=True).first()
    about = {"num_logs": count, "metrics": names, "config": found.params, "last_step": last}
    return {"project": found.group.name, "run": found.name, "run_id": found.key} | about


@tool(WRITE, "logs", "hf_token")
def bulk_log(token: ApiToken, given: Mapping[str, Any]) -> None:
    services.store_lines(token.project, token.user, _lines(given))


@tool(WRITE, "logs", "hf_token")
def bulk_log_system(token: ApiToken, given: Mapping[str, Any]) -> None:
    services.store_lines(token.project, token.user, _lines(given, is_system=True))


def _lines(given: Mapping[str, Any], *, is_system: bool = False) -> list[services.Line]:
    return [
        services.parse(entry, place, is_system=is_system) for place, entry in services.objects(given, "logs")
    ]


@tool(WRITE, "alerts", "hf_token")
def bulk_alert(token: ApiToken, given: Mapping[str, Any]) -> None:
    alerts = [_alert(entry, place) for place, entry in services.objects(given, "alerts")]
    services.store_alerts(token.project, token.user, alerts)


@answered("POST", WRITE)
def upload(request: HttpRequest, token: ApiToken) -> JsonResponse:
    """Files whose place is said by a later request; where each lies here, as the client then names it."""
    files = request.FILES.getlist("files")
    return JsonResponse({"paths": artifacts.receive(token.project, files, too_large_of(request))})


@tool(WRITE, "uploads", "hf_token")
def bulk_upload_media(token: ApiToken, given: Mapping[str, Any]) -> None:
    artifacts.keep_media(token.project, token.user, services.objects(given, "uploads"))


@tool(WRITE, "project", "digests", "hf_token")
def check_artifact_blobs(token: ApiToken, given: Mapping[str, Any]) -> dict[str, list[str]]:
    return {"present": artifacts.present(token.project, services.listed(given, "digests"))}


@tool(WRITE, "project", "uploads", "hf_token")
def bulk_upload_artifact_blob(token: ApiToken, given: Mapping[str, Any]) -> None:
    artifacts.keep_blobs(token.project, services.objects(given, "uploads"))


@tool(WRITE)
def artifact_log(token: ApiToken, given: Mapping[str, Any]) -> dict[str, Any]:
    return artifacts.log_version(token.project, token.user, given).record()


@tool(READ, "project", "name", "spec")
def get_artifact_manifest(token: ApiToken, given: Mapping[str, Any]) -> dict[str, Any] | None:
    asked = [
        services.text(given, "kwargs", name, MAX_GROUP, default="") for name in ("project", "name", "spec")
    ]
    found = artifacts.version(token.project, *asked)
    return found.record() if found else None


@tool(WRITE)
def log_artifact_use(token: ApiToken, given: Mapping[str, Any]) -> None:
    """Which run reads an artifact is not kept, and no training needs to stop for that."""


@answered("GET", READ)
def artifact_blob(request: HttpRequest, token: ApiToken, project: str, digest: str) -> HttpResponseBase:
    """A content by its digest, of whichever of the token's project."""
    found = artifacts.blobs_of(token.project).filter(sha256=digest)
    return download(first_of(found, f"No file has the digest {digest}."))


def _alert(entry: dict[str, Any], place: str) -> tuple[services.Line, dict[str, Any]]:
    line = services.parse(entry | {"metrics": {}, "log_id": entry.get("alert_id")}, place)
    level = entry.get("level")
    if level not in LEVELS:
        raise InvalidInput(f"{place}.level", f"{place}.level must be one of {', '.join(LEVELS)}.")
    body = entry.get("text")
    alert = {
        "level": level,
        "title": services.text(entry, place, "title", 1000),
        "text": body[:10_000] if isinstance(body, str) else None,
        "step": line.step,
        "time": entry.get("timestamp"),
    }
    return line, alert
