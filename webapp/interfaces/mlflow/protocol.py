"""What every endpoint of MLflow's protocol has in common: the token, the body, and errors in MLflow's form.

`{"error_code", "message"}` with the names and statuses that MLflow's client knows. It repeats a request by itself after
408, 429 and 5xx, so those are left for what a repetition can mend.

Pages as MLflow's clients turn them: a token that says where the next one begins.

What requests of MLflow's protocol may hold: MLflow's own limits, and a sentence that names the field.
"""

import base64
import binascii
import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.core.exceptions import RequestDataTooBig
from django.db.models import Model, QuerySet
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from webapp.base.errors import Conflict, Forbidden, InvalidInput, NotFound, ServiceError, Unauthorized
from webapp.base.formats import whole_in
from webapp.base.requests import TooMany, batch_of
from webapp.identity.accounts.models import ApiToken, Project, User
from webapp.interfaces.api.auth import BearerToken
from webapp.interfaces.api.parsing import parse_json
from webapp.interfaces.tracking.translate import MAX_TIME, Value, to_value

MAX_BODY = 1_000_000  # bytes
MAX_METRICS, MAX_PARAMS, MAX_TAGS, MAX_ENTITIES = 1000, 100, 100, 1000
MAX_KEY, MAX_PARAM, MAX_TAG, MAX_GROUP_TAG = 250, 6000, 8000, 20_000
MOST_LISTED = 50_000  # experiments or runs of a page
INT64 = 2**63  # of steps, too
log = logging.getLogger(__name__)
NO_TOKEN = (
    "Send a token of Headroom: MLFLOW_TRACKING_TOKEN, which the client sends as Authorization: Bearer TOKEN."
)


def text(body: Mapping[str, Any], *names: str, default: str | None = None) -> str:
    """The first of these fields that is there. Raises InvalidInput where none is (and there is no default)."""
    for name in names:
        value = body.get(name)
        if value is not None and value != "":
            if not isinstance(value, str):
                raise InvalidInput(name, f"{name} must be text.")
            return value
    if default is None:
        raise InvalidInput(names[0], f"Missing value for required parameter '{names[0]}'.")
    return default


def whole(
    body: Mapping[str, Any], name: str, *, default: int | None, least: int = 0, most: int = INT64 - 1
) -> int:
    """A whole number; protobuf's JSON may write it as text. Raises InvalidInput."""
    value = body.get(name)
    if value is None and default is not None:
        return default
    try:
        number = int(value) if isinstance(value, str) else value
        if isinstance(number, float) and number == int(number):
            number = int(number)
    except (ValueError, OverflowError):
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise InvalidInput(name, f"{name} must be a whole number from {least} to {most}.")
    return number


def items(body: Mapping[str, Any], name: str, most: int) -> list[Mapping[str, Any]]:
    """A list of objects. Raises InvalidInput."""
    found = body.get(name) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InvalidInput(name, f"{name} must be a list of objects.")
    if len(found) > most:
        raise InvalidInput(name, f"{name} may have at most {most} items in a request, not {len(found)}.")
    return found


def metric(body: Mapping[str, Any], path: str = "") -> Value:
    """One value. Raises InvalidInput."""
    name = key(body, path)
    value = to_value(body.get("value"))
    if value is None:
        raise InvalidInput(f"{path}value", f"{path}value of the metric {name!r} must be a number.")
    placed = {f"{path}{field}": body.get(field) for field in ("step", "timestamp")}
    return Value(
        name,
        value,
        whole(placed, f"{path}step", default=0, least=-INT64),
        whole(placed, f"{path}timestamp", default=None, most=MAX_TIME),
    )


def key(body: Mapping[str, Any], path: str = "") -> str:
    """The name of a metric, param or tag. Raises InvalidInput."""
    name = body.get("key")
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidInput(f"{path}key", f"{path}key must be a name of printable characters.")
    if len(name) > MAX_KEY:
        raise InvalidInput(
            f"{path}key", f"{path}key may have at most {MAX_KEY} characters, not {len(name):,}."
        )
    return name


def pair(body: Mapping[str, Any], most: int, path: str = "") -> tuple[str, str]:
    """Key and value of a param or tag. Raises InvalidInput."""
    name, value = key(body, path), body.get("value", "")
    if not isinstance(value, str):
        raise InvalidInput(f"{path}value", f"{path}value of {name!r} must be text.")
    if len(value) > most:
        raise InvalidInput(
            f"{path}value",
            f"{path}value of {name!r} may have at most {most} characters, not {len(value):,}.",
        )
    return name, value


def pairs(body: Mapping[str, Any], name: str, count: int, most: int) -> dict[str, str]:
    """A list of params or tags as one dictionary. Raises InvalidInput, also for a key with two values."""
    found: dict[str, str] = {}
    for i, item in enumerate(items(body, name, count)):
        given, value = pair(item, most, f"{name}[{i}].")
        if found.setdefault(given, value) != value:
            raise InvalidInput(
                f"{name}[{i}].key", f"{name}[{i}].key: {given!r} has two values in this request."
            )
    return found


def batch(body: Mapping[str, Any]) -> tuple[list[Value], dict[str, str], dict[str, str]]:
    """Metrics, params and tags of a log-batch. Raises InvalidInput."""
    found = items(body, "metrics", MAX_METRICS)
    params = pairs(body, "params", MAX_PARAMS, MAX_PARAM)
    tags = pairs(body, "tags", MAX_TAGS, MAX_TAG)
    if len(found) + len(params) + len(tags) > MAX_ENTITIES:
        raise InvalidInput(
            "metrics", f"metrics, params and tags together may have at most {MAX_ENTITIES} items."
        )
    return [metric(item, f"metrics[{i}].") for i, item in enumerate(found)], params, tags


class NotKept(ServiceError):
    """Headroom has no such thing; to ask again changes nothing."""

    status, code = 501, "not_implemented"


CODES: dict[type[ServiceError], tuple[int, str]] = {
    NotFound: (404, "RESOURCE_DOES_NOT_EXIST"),
    Unauthorized: (401, "UNAUTHENTICATED"),
    Forbidden: (403, "PERMISSION_DENIED"),
    TooMany: (429, "REQUEST_LIMIT_EXCEEDED"),
    NotKept: (501, "NOT_IMPLEMENTED"),
}


@dataclass(frozen=True)
class Call:
    """A request whose token was checked: what it says, for which project."""

    token: ApiToken
    body: dict[str, Any]
    path: Mapping[str, str] = field(default_factory=dict)

    @property
    def project(self) -> Project:
        return self.token.project

    @property
    def user(self) -> User | None:
        return self.token.user


Row = TypeVar("Row", bound=Model)
Handler = Callable[[Call], Mapping[str, Any] | None]


def in_mlflows_form(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """The view, whose errors are answered as MLflow's client knows them."""

    @csrf_exempt
    @functools.wraps(view)
    def answered(request: HttpRequest, **path: str) -> HttpResponseBase:
        try:
            return view(request, **path)
        except ServiceError as error:
            return of_service_error(error)
        except Exception as error:
            log.error("unexpected error in MLflow's protocol", exc_info=error)
            return problem(500, "INTERNAL_ERROR", "Something went wrong here; it has been logged.")

    return answered


def endpoint(
    method: str, token_auth: BearerToken, *, most: int = MAX_BODY
) -> Callable[[Handler], Callable[..., HttpResponseBase]]:
    """A handler as a view: `most` bytes of body; GET parameters stand for the body of a GET. None is answered as {}."""

    def wrap(handler: Handler) -> Callable[..., HttpResponseBase]:
        @in_mlflows_form
        @functools.wraps(handler)
        def view(request: HttpRequest, **path: str) -> HttpResponseBase:
            if request.method != method:
                return problem(405, "BAD_REQUEST", f"{request.method} is not possible here, only {method}.")
            token = authenticate(request, token_auth)
            body = _query(request) if method == "GET" else _body(request, most)
            return JsonResponse(dict(handler(Call(token, body, path)) or {}))

        return view

    return wrap


def authenticate(request: HttpRequest, token_auth: BearerToken) -> ApiToken:
    """Raises Unauthorized, Forbidden."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise Unauthorized(NO_TOKEN)
    return token_auth.authenticate(request, token)


def _query(request: HttpRequest) -> dict[str, Any]:
    """One value a name; of several a list. `authenticate` has refused NUL characters."""
    return {name: values[0] if len(values) == 1 else values for name, values in request.GET.lists()}


def _body(request: HttpRequest, most: int) -> dict[str, Any]:
    try:
        given = batch_of(request, most)
    except (RequestDataTooBig, ValueError):
        raise InvalidInput(None, f"The body may have at most {most:,} bytes.") from None
    body = parse_json(given or b"{}", allow_inf_nan=True)
    if not isinstance(body, dict):
        raise InvalidInput(None, "The body must be a JSON object.")
    return body


def of_service_error(error: ServiceError) -> JsonResponse:
    """MLflow's name and status of what a service refuses."""
    if isinstance(error, Conflict) and error.field in ("name", "new_name"):
        return problem(400, "RESOURCE_ALREADY_EXISTS", error.message)
    codes = (code for kind, code in CODES.items() if isinstance(error, kind))
    response = problem(*next(codes, (400, "INVALID_PARAMETER_VALUE")), error.message)
    if isinstance(error, TooMany):
        response["Retry-After"] = str(error.wait)
    return response


def problem(status: int, code: str, message: str) -> JsonResponse:
    response = JsonResponse({"error_code": code, "message": message}, status=status)
    if status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response


@csrf_exempt
def nothing_here(request: HttpRequest, rest: str = "") -> JsonResponse:
    """For the parts of MLflow's API that Headroom does not speak."""
    return problem(
        404, "ENDPOINT_NOT_FOUND", f"Headroom does not speak this part of MLflow's API: {request.path}."
    )


def in_view(found: QuerySet[Row], view: str) -> QuerySet[Row]:
    """Without those that the client has deleted, only those, or ALL."""
    return found if view == "ALL" else found.filter(deleted_at__isnull=view != "DELETED_ONLY")


def page(found: QuerySet[Any], token: str, most: int) -> tuple[list[Any], dict[str, str]]:
    """`most` rows from where the token says, and `next_page_token` where there are more. Raises InvalidInput."""
    first = _first(token)
    rows = list(found[first : first + most + 1])
    if len(rows) <= most:
        return rows, {}
    following = base64.urlsafe_b64encode(str(first + most).encode()).decode()
    return rows[:most], {"next_page_token": following}


def _first(token: str) -> int:
    if not token:
        return 0
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    if (first := whole_in(text)) is None:
        raise InvalidInput("page_token", "page_token is none that this server gave.")
    return first
