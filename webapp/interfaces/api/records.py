"""Batches of records go from bytes to typed records in one step: it is the API's busiest address.

That step ends at the first record that is wrong; only then the records are looked at one by one, for what to say.
"""

from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from training.records import Record
from webapp.base.errors import MOST_NAMED, InvalidInput, found_in
from webapp.base.requests import check_items
from webapp.interfaces.api.parsing import parse_json
from webapp.interfaces.api.schemas import RecordBatch
from webapp.record.runs.ingest import MAX_RECORDS

MAX_VALUES = 100_000  # metrics of a batch, together: some 2 s in the store


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """A JSON schema without references, so that it can stand inside the OpenAPI document."""
    if isinstance(schema, list):
        return [_inlined(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions)
    return {key: _inlined(value, definitions) for key, value in schema.items() if key != "$defs"}


_SCHEMA = RecordBatch.model_json_schema()
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
        raise InvalidInput("records", f"records must have at most {MAX_RECORDS} items, not {len(records):,}.")
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
