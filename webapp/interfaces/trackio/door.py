"""What every endpoint of trackio's protocol has in common: `{"args", "kwargs"}` in, `{"data", "error"}` out.

The client keeps what is refused in a buffer of its own and sends it again with what follows.
"""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from webapp.base.bodies import batch_of
from webapp.base.errors import InvalidInput, ServiceError, Unauthorized
from webapp.identity.accounts.models import ApiToken, Scope
from webapp.interfaces.api.auth import READ, WRITE
from webapp.interfaces.api.parsing import parse_json

log = logging.getLogger(__name__)
NO_TOKEN = "Send a token of Headroom with the scope write: TRACKIO_WRITE_TOKEN."
Handler = Callable[[ApiToken, Mapping[str, Any]], Any]


def answered(
    method: str, scope: Scope
) -> Callable[[Callable[..., HttpResponseBase]], Callable[..., HttpResponseBase]]:
    """A view of a request and its token; errors are answered as trackio's client knows them."""

    def wrap(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        @csrf_exempt
        @functools.wraps(view)
        def guarded(request: HttpRequest, **path: str) -> HttpResponseBase:
            try:
                if request.method != method:
                    return _problem(405, f"{request.method} is not possible here, only {method}.")
                return view(request, _authenticate(request, scope), **path)
            except ServiceError as error:
                return _problem(error.status, error.message)
            except RequestDataTooBig:
                return _problem(413, "The body is too large.")
            except Exception as error:
                log.error("unexpected error in trackio's protocol", exc_info=error)
                return _problem(500, "Something went wrong here; it has been logged.")

        return guarded

    return wrap


def tool(scope: Scope, *names: str) -> Callable[[Handler], Callable[..., HttpResponseBase]]:
    """A handler as a view. `names`: of its arguments, which may come by place or by name."""

    def wrap(handler: Handler) -> Callable[..., HttpResponseBase]:
        @answered("POST", scope)
        @functools.wraps(handler)
        def view(request: HttpRequest, token: ApiToken) -> HttpResponseBase:
            return JsonResponse({"data": handler(token, _arguments(request, names)), "error": None})

        return view

    return wrap


def _authenticate(request: HttpRequest, scope: Scope) -> ApiToken:
    raw = request.headers.get("x-trackio-write-token", "")
    if not raw.strip():
        raise Unauthorized(NO_TOKEN)
    return cast(ApiToken, (WRITE if scope == Scope.WRITE else READ).authenticate(request, raw))


def _arguments(request: HttpRequest, names: tuple[str, ...]) -> dict[str, Any]:
    body = parse_json(batch_of(request) or b"{}", allow_inf_nan=True)
    args = body.get("args") or [] if isinstance(body, dict) else None
    kwargs = body.get("kwargs") or {} if isinstance(body, dict) else None
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise InvalidInput(None, 'The body must be {"args": [...], "kwargs": {...}}.')
    return dict(zip(names, args, strict=False)) | kwargs


def _problem(status: int, message: str) -> JsonResponse:
    return JsonResponse({"data": None, "error": message}, status=status)
