"""Batches of records go from bytes to typed records in one step: it is the API's busiest address."""

from typing import Any

from pydantic import ValidationError

from training.records import Record
from webapp.api.parsing import parse_json
from webapp.api.schemas import RecordBatch
from webapp.errors import InvalidInput


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
    """The batch's records. Raises InvalidInput: 400 where it is no JSON, 422 naming the first bad value."""
    try:
        return RecordBatch.model_validate_json(body).records
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
    if problems[0]["type"] == "json_invalid":
        parse_json(body)  # says what is wrong in our words
    raise InvalidInput.from_problems(problems)
