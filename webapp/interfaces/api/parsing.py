"""JSON bodies: parsed strictly (no NaN, no lone surrogates, no NUL), with errors in our form."""

from typing import Any

from django.http import HttpRequest
from ninja.parser import Parser
from pydantic_core import from_json

from webapp.base.bodies import check_items
from webapp.base.errors import InvalidInput


class StrictJson(Parser):
    """Reads request bodies for ninja."""

    def parse_body(self, request: HttpRequest) -> Any:
        return parse_json(request.body)


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
