"""Every failure leaves the API as {"error": {"code", "message", "field"?}}."""

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    JsonResponse,
    StreamingHttpResponse,
    UnreadablePostError,
)  # fmt: skip
from django.http.multipartparser import MultiPartParserError
from django.urls import Resolver404, URLPattern, URLResolver, resolve
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError, ValidationErrorContext

from webapp.base.errors import InvalidInput, ServiceError, found_in
from webapp.base.requests import TooMany
from webapp.interfaces.api import paging

log = logging.getLogger(__name__)
NO_TOKEN = "Send a token: Authorization: Bearer TOKEN."
CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    429: "too_many_requests",
}
UNION_TAGS = frozenset({"launch", "tracked"})  # pydantic puts the chosen member of a union into the path


def problem(status: int, code: str, message: str, field: str | None = None) -> JsonResponse:
    """An error response."""
    error = {"code": code, "message": message}
    if field:
        error["field"] = field
    response = JsonResponse({"error": error}, status=status)
    if status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response


def of_service_error(error: ServiceError) -> JsonResponse:
    response = problem(error.status, error.code, error.message, error.field)
    if isinstance(error, TooMany):
        response["Retry-After"] = str(error.wait)
    return response


def install(api: NinjaAPI) -> None:
    """Answer every exception in our form."""
    handlers: dict[type[Exception], Callable[[Any], HttpResponse]] = {
        ServiceError: of_service_error,
        paging.NotModified: lambda error: HttpResponse(status=304),
        ValidationError: _of_validation_error,
        HttpError: _of_http_error,
        Http404: lambda error: problem(404, "not_found", "There is nothing at this address."),
        MultiPartParserError: lambda error: problem(400, "bad_request", f"The form cannot be read: {error}"),
        UnreadablePostError: lambda error: problem(400, "bad_request", "The body has not arrived whole."),
        BadRequest: lambda error: problem(400, "bad_request", f"The body cannot be read: {error}"),
        SuspiciousOperation: lambda error: problem(
            400, "bad_request", f"The request cannot be read: {error}"
        ),
        RequestDataTooBig: lambda error: problem(413, "too_large", "The body is too large."),
        Exception: _of_bug,
    }
    for kind, answer in handlers.items():
        api.add_exception_handler(kind, _without_request(answer))


def _without_request(answer: Callable[[Any], HttpResponse]) -> Callable[[HttpRequest, Any], HttpResponse]:
    return lambda request, error: answer(error)


def of_contexts(contexts: list[ValidationErrorContext]) -> ValidationError:
    """What ninja makes of the problems of a request, without listing all of thousands."""
    problems: list[dict[str, Any]] = []
    for context in contexts:
        source = context.model.__ninja_param_source__
        flat = context.model.__ninja_flatten_map_reverse__
        for each in found_in(context.pydantic_validation_error)[0]:
            problems.append(each | {"loc": (source, *flat.get(each["loc"], each["loc"]))})
    found = ValidationError(problems)
    found.count = sum(each.pydantic_validation_error.error_count() for each in contexts)  # type: ignore[attr-defined]
    return found


def _of_validation_error(error: ValidationError) -> JsonResponse:
    """The first problems; ninja's path starts with where the value came from (body, query, ...)."""
    problems = [each | {"loc": _path(each["loc"])} for each in map(dict, error.errors)]
    count = getattr(error, "count", len(problems))
    return of_service_error(InvalidInput.from_problems(problems, count=count))


def _path(place: Sequence[Any]) -> list[Any]:
    source, *path = place
    if path[:1] == [source]:  # our handlers name their one parameter after its source
        path = [part for part in path[1:] if part not in UNION_TAGS]
    return path


def _of_http_error(error: HttpError) -> JsonResponse:
    """Ninja wraps what the body parser raises."""
    if isinstance(error.__cause__, ServiceError):
        return of_service_error(error.__cause__)
    message = NO_TOKEN if error.status_code == 401 else str(error)
    return problem(error.status_code, CODES.get(error.status_code, "error"), message)


def _of_bug(error: Exception) -> JsonResponse:
    log.error("unexpected error in the API", exc_info=error)
    return problem(500, "internal", "Something went wrong here; it has been logged.")


def nothing_here(request: HttpRequest) -> HttpResponse:
    """For every address under the API that does not exist. With a slash at its end it is the address without."""
    try:
        match = resolve(request.path_info.rstrip("/"))
    except Resolver404:
        match = None
    if match is None or match.namespace != "api":
        return problem(404, "not_found", "There is nothing at this address.")
    request.resolver_match = match
    return match.func(request, *match.args, **match.kwargs)


nothing_here.csrf_exempt = True  # type: ignore[attr-defined]


def in_our_form(patterns: list[URLPattern | URLResolver]) -> list[URLPattern | URLResolver]:
    """The same patterns, whose views say in our form which methods they know and what is not there."""
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            pattern.callback = _in_our_form(pattern.callback)
    return patterns


def _in_our_form(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    @functools.wraps(view)
    def answer(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        try:
            response = (
                _of_head(view, request, kwargs) if request.method == "HEAD" else view(request, **kwargs)
            )
        except Http404:  # ninja's view of the root
            return nothing_here(request)
        if not isinstance(response, HttpResponseNotAllowed):
            paging.mark(request, response)
            return response
        return _of_other_method(request, set(response["Allow"].split(", ")))

    return answer


def _of_head(view: Callable[..., HttpResponse], request: HttpRequest, kwargs: dict[str, Any]) -> HttpResponse:
    """What GET answers, of which the server sends no body; a stream is not even begun."""
    request.method = "GET"
    try:
        response = view(request, **kwargs)
    finally:
        request.method = "HEAD"
    if isinstance(response, StreamingHttpResponse):
        response.streaming_content = ()
    return response


def _of_other_method(request: HttpRequest, known: set[str]) -> HttpResponse:
    """OPTIONS is told which methods an address knows, without a token; the others are refused."""
    allowed = ", ".join(sorted(known | {"OPTIONS"} | ({"HEAD"} if "GET" in known else set())))
    if request.method == "OPTIONS":
        return HttpResponse(status=204, headers={"Allow": allowed})
    response = problem(405, "method_not_allowed", f"{request.method} is not possible here, only {allowed}.")
    response["Allow"] = allowed
    return response
