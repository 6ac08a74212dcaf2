"""What every endpoint of MLflow's protocol has in common: the token, the body, and errors in MLflow's form.

`{"error_code", "message"}` with the names and statuses that MLflow's client knows. It repeats a request by itself after
408, 429 and 5xx, so those are left for what a repetition can mend.

Pages as MLflow's clients turn them: a token that says where the next one begins.
"""

import base64
import binascii
import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from django.core.exceptions import RequestDataTooBig
from django.db.models import QuerySet
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from webapp.base.errors import Conflict, Forbidden, InvalidInput, NotFound, ServiceError, Unauthorized
from webapp.base.limits import TooMany
from webapp.base.requests import batch_of
from webapp.identity.accounts.models import ApiToken, Project, Scope, User
from webapp.interfaces.api.auth import READ, WRITE, BearerToken
from webapp.interfaces.api.parsing import parse_json
from webapp.interfaces.mlflow.checks import MAX_BODY

log = logging.getLogger(__name__)
NO_TOKEN = (
    "Send a token of Headroom: MLFLOW_TRACKING_TOKEN, which the client sends as Authorization: Bearer TOKEN."
)
DOORS: dict[Scope, BearerToken] = {Scope.READ: READ, Scope.WRITE: WRITE}


class NotKept(ServiceError):
    """Headroom has no such thing; to ask again changes nothing."""

    status, code = 501, "not_implemented"


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


Handler = Callable[[Call], Mapping[str, Any]]


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
    method: str, scope: Scope, *, most: int = MAX_BODY
) -> Callable[[Handler], Callable[..., HttpResponseBase]]:
    """A handler as a view: `most` bytes of body; GET parameters stand for the body of a GET."""

    def wrap(handler: Handler) -> Callable[..., HttpResponseBase]:
        @in_mlflows_form
        @functools.wraps(handler)
        def view(request: HttpRequest, **path: str) -> HttpResponseBase:
            if request.method != method:
                return problem(405, "BAD_REQUEST", f"{request.method} is not possible here, only {method}.")
            token = authenticate(request, DOORS[scope])
            body = _query(request) if method == "GET" else _body(request, most)
            return JsonResponse(dict(handler(Call(token, body, path))))

        return view

    return wrap


def authenticate(request: HttpRequest, door: BearerToken) -> ApiToken:
    """Raises Unauthorized, Forbidden."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise Unauthorized(NO_TOKEN)
    return cast(ApiToken, door.authenticate(request, token))


def _query(request: HttpRequest) -> dict[str, Any]:
    """One value a name; of several a list. `authenticate` has refused NUL characters."""
    return {name: values[0] if len(values) == 1 else values for name, values in request.GET.lists()}


def _body(request: HttpRequest, most: int) -> dict[str, Any]:
    too_large = InvalidInput(None, f"The body may have at most {most:,} bytes.")
    try:
        given = batch_of(request, most)
    except (RequestDataTooBig, ValueError):
        raise too_large from None
    body = parse_json(given or b"{}", allow_inf_nan=True)
    if not isinstance(body, dict):
        raise InvalidInput(None, "The body must be a JSON object.")
    return body


def of_service_error(error: ServiceError) -> JsonResponse:
    """MLflow's name and status of what a service refuses."""
    if isinstance(error, NotFound):
        return problem(404, "RESOURCE_DOES_NOT_EXIST", error.message)
    if isinstance(error, Unauthorized):
        return problem(401, "UNAUTHENTICATED", error.message)
    if isinstance(error, Forbidden):
        return problem(403, "PERMISSION_DENIED", error.message)
    if isinstance(error, Conflict) and error.field in ("name", "new_name"):
        return problem(400, "RESOURCE_ALREADY_EXISTS", error.message)
    if isinstance(error, TooMany):
        response = problem(429, "REQUEST_LIMIT_EXCEEDED", error.message)
        response["Retry-After"] = str(error.wait)
        return response
    if isinstance(error, NotKept):
        return problem(501, "NOT_IMPLEMENTED", error.message)
    return problem(400, "INVALID_PARAMETER_VALUE", error.message)


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
    if not text.isdigit() or len(text) > 9:
        raise InvalidInput("page_token", "page_token is none that this server gave.")
    return int(text)
