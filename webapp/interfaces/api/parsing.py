"""What is asked, taken strictly: JSON bodies (no NaN, no lone surrogates, no NUL) and names of query parameters, with
errors in our form.

Batches of records go from bytes to typed records in one step: it is the API's busiest address.

That step ends at the first record that is wrong; only then the records are looked at one by one, for what to say.

Answers as JSON: every time in one form (`webapp.base.formats`).
"""

import functools
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja.parser import Parser
from ninja.renderers import JSONRenderer
from ninja.responses import NinjaJSONEncoder
from pydantic import ValidationError
from pydantic_core import from_json

from training.records import Record
from webapp.base.errors import MOST_NAMED, MOST_OF_PATH, InvalidInput, found_in
from webapp.base.formats import utc
from webapp.base.requests import check_items
from webapp.interfaces.api.schemas import RecordBatch
from webapp.record.runs.filtering.parsing import nearest
from webapp.record.runs.ingest import MAX_RECORDS

MAX_VALUES = 100_000  # metrics of a batch, together: some 2 s in the store
_SCHEMA = RecordBatch.model_json_schema()


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


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """A JSON schema without references, so that it can stand inside the OpenAPI document."""
    if isinstance(schema, list):
        return [_inlined(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions)
    return {key: _inlined(value, definitions) for key, value in schema.items() if key != "$defs"}


BATCH_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": _inlined(_SCHEMA, _SCHEMA.get("$defs", {}))}},
    }
}


def parse_batch(body: bytes) -> list[Record]:
    """The batch's records. Raises InvalidInput: 413 where it holds too much, 400 where it is no JSON, 422 naming the
    bad values."""
    check_items(body)
    try:
        return _few_values(RecordBatch.model_validate_json(body).records)
    except ValidationError as error:
        problems, count = found_in(error)
    if problems and problems[0]["type"] == "json_invalid":
        parse_json(body)  # says what is wrong in our words
    if problems and problems[0]["loc"][:1] == ("records",) and len(problems[0]["loc"]) > 1:
        problems, count = _of_each(from_json(body)["records"])
    raise InvalidInput.from_problems(problems, count=count)


def _few_values(records: list[Record]) -> list[Record]:
    """They are stored within one request. Raises InvalidInput (records)."""
    count = sum(len(record.metrics) for record in records)
    if count > MAX_VALUES:
        raise InvalidInput(
            "records", f"records must have at most {MAX_VALUES:,} metrics together, not {count:,}."
        )
    return records


def _of_each(records: list[Any]) -> tuple[list[dict[str, Any]], int]:
    """The first problems of a list in which a record is wrong, and how many there are in all. Raises InvalidInput where
    it is too long."""
    if len(records) > MAX_RECORDS:
        raise InvalidInput(
            "records", f"records must have at most {MAX_RECORDS:,} items, not {len(records):,}."
        )
    problems: list[dict[str, Any]] = []
    count = 0
    for i, record in enumerate(records):
        try:
            Record.model_validate(record)
        except ValidationError as error:
            found, more = found_in(error)
            count += more
            room = MOST_NAMED - len(problems)
            problems += [each | {"loc": ("records", i, *each["loc"])} for each in found[:room]]
    return problems, count


class _Encoder(NinjaJSONEncoder):
    def default(self, o: Any) -> Any:
        return utc(o) if isinstance(o, datetime) else super().default(o)


class Json(JSONRenderer):
    """Writes the answers of ninja."""

    encoder_class = _Encoder


def unchecked(payload: dict[str, Any]) -> HttpResponse:
    """An answer that is not put through the schema it is documented with: to check 100,000 numbers takes longer than to
    find them. The tests hold it to the schema."""
    text = Json().render(HttpRequest(), payload, response_status=200)
    return HttpResponse(text, content_type="application/json; charset=utf-8")
