"""What is asked, taken strictly: JSON bodies (no NaN, no lone surrogates, no NUL) and names of query parameters, with
errors in our form."""

import functools
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from ninja.parser import Parser
from pydantic_core import from_json

from webapp.base.errors import MOST_OF_PATH, InvalidInput
from webapp.base.requests import check_items
from webapp.record.runs.filtering.parsing import nearest


class StrictJson(Parser):
    """Reads request bodies for ninja."""

    def parse_body(self, request: HttpRequest) -> Any:
        return parse_json(request.body)


def only_known_parameters(view: Callable[..., Any]) -> Callable[..., Any]:
    """The view of an operation, which raises InvalidInput for a query parameter that the operation does not have."""
    models = view._ninja_operation.models  # type: ignore[attr-defined]
    of_query = (model.__ninja_flatten_map__ for model in models if model.__ninja_param_source__ == "query")
    known = sorted(name for flat in of_query for name in flat)
    takes = f"this address takes {', '.join(known) or 'none'}"

    @functools.wraps(view)
    def answer(request: HttpRequest, **values: Any) -> Any:
        unknown = next((name[:MOST_OF_PATH] for name in request.GET if name not in known), None)
        if unknown is not None:
            hint = nearest(unknown, known) or f"{takes}."
            raise InvalidInput(
                unknown, f"{unknown or 'The empty name'} is not a known query parameter; {hint}"
            )
        return view(request, **values)

    return answer


def parse_json(body: bytes, *, allow_inf_nan: bool = False) -> Any:
    """Raises InvalidInput: 413 where the body holds too many values, 400 where it is no JSON that can be stored."""
    check_items(body)
    try:
        data = from_json(body, allow_inf_nan=allow_inf_nan)
    except ValueError as error:
        raise InvalidInput(None, f"The body is not valid JSON: {error}.", status=400) from error
    if b"\\u0000" in body and _has_nul(data):
        raise InvalidInput(None, "The body holds a NUL character, which cannot be stored.", status=400)
    return data


def _has_nul(data: Any) -> bool:
    if isinstance(data, str):
        return "\0" in data
    if isinstance(data, dict):
        return any(_has_nul(key) or _has_nul(value) for key, value in data.items())
    return isinstance(data, list) and any(_has_nul(item) for item in data)
