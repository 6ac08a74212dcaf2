"""The OpenAPI document: what the endpoints say of themselves, with errors, descriptions and examples put in.

Examples are answers of a real server, kept in examples.json; tests/webapp/interfaces/api/test_openapi.py records and
checks them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from ninja import Router
from ninja.operation import Operation

from webapp.interfaces.api.auth import BearerToken
from webapp.interfaces.api.schemas import ErrorBody

Json = dict[str, Any]
EXAMPLES_FILE = Path(__file__).with_name("examples.json")
REF = "#/components/schemas/{model}"
BYTES = "application/octet-stream"
CSV, JSONL, PARQUET = "text/csv", "application/jsonl", "application/vnd.apache.parquet"
SAID = {
    400: "The body is no JSON, or the request cannot be read.",
    401: "There is no token, or it is unknown, revoked or past its end.",
    403: "The token's scope, or the role of its owner today, does not reach this far.",
    404: "There is no such thing in the token's project.",
    409: "It cannot be done as things stand now, or a repeated request came with another body.",
    413: "The body is too large.",
    414: "The address is longer than 4,094 characters.",
    422: "A value cannot be used, or a query parameter is not known; field names it.",
    429: "Too many requests of this kind; Retry-After says after how many seconds to come again.",
    500: "A mistake of the server's; it has been logged.",
    507: "The disk of the server has no room for it now.",
}
PARAMETERS = {
    "run_id": "Id of the run, as in its address.",
    "path": "Of a file within its run.",
    "step": "Updates made.",
    "attempt": "Of the run; the newest, if nothing is said.",
    "prompt_id": "Of a prompt, the same at every step.",
    "reward_min": "Least reward.",
    "reward_max": "Greatest reward.",
    "tokens_min": "Least length of the response.",
    "tokens_max": "Greatest length of the response.",
    "difficulty_min": "Least difficulty, on the task's own scale.",
    "difficulty_max": "Greatest difficulty, on the task's own scale.",
    "slug": "Slug of the recipe.",
    "study_id": "Id of the study.",
    "prediction_id": "Id of the prediction.",
    "evaluation_id": "Id of the benchmark.",
    "decision_id": "Id of the decision.",
    "rule_id": "Id of the rule.",
    "import_id": "Id of the import.",
    "fit_id": "Id of the stored fit.",
    "limit": "Items a page.",
    "recipe": "Slug of a recipe.",
    "run": "Id of a run.",
    "task": "Name of a task, whole.",
    "model": "Name of a model, whole.",
    "metric": "Name of a series.",
    "x": "The horizontal axis: cumulative training compute, or the step.",
    "format": "How it is written.",
    "points": "Points at most.",
    "cutoff": "Fit no points past it, in units of x.",
    "lo": "Fit no points before it, in units of x.",
    "level": "Of the intervals.",
    "reference": "Slug of a published curve.",
    "view": "The rate itself, its share of the gain, or its slope.",
    "by": "Each run alone, or runs of one recipe, task and model together.",
    "published": "With the published curves.",
    "person": "Username.",
    "kind": "What was decided.",
    "Idempotency-Key": "Any text of up to 200 characters; the same key and body make the same thing once.",
}
ETAG_HEADER = {
    "ETag": {
        "description": "Send it as If-None-Match: 304 without a body where nothing is new.",
        "schema": {"type": "string"},
    }
}


def answers(*refusals: int, files: Sequence[str] = (), etag: bool = False) -> Json:
    """What an operation answers beside its response, for `openapi_extra`: refusals of its own, files, an ETag."""
    responses: dict[int, Json] = {status: {} for status in refusals}
    responses[200] = {"content": {each: {"schema": {"type": "string"}} for each in files}} if files else {}
    if etag:
        responses[200]["headers"] = ETAG_HEADER
        responses[304] = {"description": "Nothing is new since the ETag in If-None-Match."}
    return {"responses": {status: said for status, said in responses.items() if said or status != 200}}


@cache
def examples() -> dict[str, Json]:
    """Operation -> {"request", "response"} as a real server took and gave them; lists are cut to their first items."""
    return json.loads(EXAMPLES_FILE.read_text()) if EXAMPLES_FILE.exists() else {}


def completed(schema: Json, opened_by: Mapping[str, BearerToken]) -> Json:
    """The document that ninja makes, with what is said here put in; `opened_by`: as of `tokens_of`."""
    error = ErrorBody.model_json_schema(ref_template=REF, mode="serialization")
    schema["components"]["schemas"] |= error.pop("$defs", {}) | {"ErrorBody": error}
    for operations in schema["paths"].values():
        for method, operation in operations.items():
            name = operation["operationId"].removeprefix("webapp_api_")
            _describe_parameters(operation)
            _put_errors(method, operation, opened_by[name])
            _put_examples(operation, examples().get(name, {}))
    return schema


def tokens_of(routers: Iterable[tuple[str, Router]]) -> dict[str, BearerToken]:
    """Operation -> what opens it. Raises ImproperlyConfigured where one does not say it."""
    found: dict[str, BearerToken] = {}
    for _, router in routers:
        for operation in (each for view in router.path_operations.values() for each in view.operations):
            function, auth = operation.view_func, operation.auth_callbacks
            if len(auth) != 1 or not isinstance(auth[0], BearerToken):
                raise ImproperlyConfigured(
                    f"{function.__qualname__} does not say which token opens it: auth=…"
                )
            found[id_of(operation).removeprefix("webapp_api_")] = auth[0]
    return found


def id_of(operation: Operation) -> str:
    """The same wherever the code lies: generated clients name their functions by it."""
    function = operation.view_func
    return (
        operation.operation_id or f"webapp_api_{function.__module__.rpartition('.')[2]}_{function.__name__}"
    )


def _describe_parameters(operation: Json) -> None:
    for parameter in operation.get("parameters", ()):
        if not parameter.get("description") and parameter["name"] in PARAMETERS:
            parameter["description"] = PARAMETERS[parameter["name"]]


def _put_errors(method: str, operation: Json, opened_by: BearerToken) -> None:
    """Each status with which an operation may refuse, and the scope that it needs."""
    places = {each["in"] for each in operation.get("parameters", ())}
    has_body = method in ("post", "put", "patch") and "requestBody" in operation
    happens = {401, 403, 422, 500} | (SAID.keys() & operation["responses"].keys())
    happens |= ({404} if "path" in places else set()) | ({400, 413} if has_body else set())
    happens |= {414} if places & {"path", "query"} else set()
    happens |= {429} if opened_by.limit else set()
    content = {"application/json": {"schema": {"$ref": REF.format(model="ErrorBody")}}}
    refusals = {status: {"description": SAID[status], "content": content} for status in happens}
    operation["responses"] = dict(sorted((operation["responses"] | refusals).items()))
    if opened_by.limit:
        waits = {"description": "Seconds to wait.", "schema": {"type": "integer"}}
        operation["responses"][429]["headers"] = {"Retry-After": waits}
    also = ", or the run's own token" if opened_by.run_token else ""
    operation["x-scope"] = opened_by.scope.value
    operation["responses"][403]["description"] = f"It needs the scope {opened_by.scope}{also}. {SAID[403]}"


def _put_examples(operation: Json, known: Json) -> None:
    if "request" in known:
        for content in operation.get("requestBody", {}).get("content", {}).values():  # JSON, or a form
            content["example"] = known["request"]
    status = known.get("status")
    for content_type, example in known.get("responses", {}).items():
        operation["responses"][status]["content"][content_type]["example"] = example
