"""The OpenAPI document: what the endpoints say of themselves, with errors, descriptions and examples put in.

Examples are answers of a real server, kept in examples.json; tests/webapp/interfaces/api/test_openapi.py records and
checks them.
"""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ninja import Router
from pydantic import TypeAdapter

from webapp.interfaces.api.auth import HEAVY, WHOLE, BearerToken
from webapp.interfaces.api.curve_schemas import (
    ComparisonOut,
    CurveOut,
    FigureOut,
    FitOut,
    FitPage,
    ForecastRecordOut,
    LeaderboardOut,
    ManyCurvesOut,
    ManySeriesOut,
    MetricList,
    SeriesOut,
)
from webapp.interfaces.api.prediction_schemas import CalibrationOut, ForecastersOut
from webapp.interfaces.api.schemas import ErrorBody

Json = dict[str, Any]
EXAMPLES_FILE = Path(__file__).with_name("examples.json")
REF = "#/components/schemas/{model}"
# Answers that are not put through their schema when they are given (see curve_schemas).
DOCUMENTED: dict[str, Any] = {
    "curves_get_curve": CurveOut,
    "curves_get_curves": ManyCurvesOut,
    "curves_get_series": SeriesOut,
    "curves_get_many_series": ManySeriesOut,
    "curves_get_metrics": MetricList,
    "curves_get_figure": FigureOut,
    "curves_list_run_fits": FitPage,
    "curves_list_fits": FitPage,
    "curves_get_fit": FitOut,
    "curves_get_forecast_record": ForecastRecordOut,
    "curves_get_comparison": ComparisonOut,
    "curves_get_leaderboard": LeaderboardOut,
    "predictions_get_calibration": CalibrationOut,
    "predictions_get_forecasters": ForecastersOut,
}
BYTES = "application/octet-stream"
CSV, JSONL, PARQUET = "text/csv", "application/jsonl", "application/vnd.apache.parquet"
FILES = {
    "curves_get_curve": (CSV,),
    "curves_list_run_fits": (CSV,),
    "curves_list_fits": (CSV,),
    "curves_get_leaderboard": (CSV,),
    "predictions_list_predictions": (CSV,),
    "exports_export_run": (JSONL, CSV, PARQUET),
    "exports_export_project": (JSONL, CSV, PARQUET),
    "artifacts_get_artifact": (BYTES,),
}
TAGGED = {
    "runs_get_run", "runs_list_records", "curves_get_curve", "curves_get_curves", "curves_get_series",
    "curves_get_many_series", "curves_get_metrics",
    "curves_list_run_fits", "curves_list_fits", "curves_get_fit", "curves_get_leaderboard", "exports_export_run",
    "predictions_list_predictions", "predictions_get_prediction",
}  # fmt: skip
CONFLICTS = {
    "recipes_create_recipe", "runs_create_run", "runs_delete_run", "runs_cancel_run", "runs_resume_run",
    "runs_stop_run", "runs_extend_run", "runs_set_priority", "runs_launch_draft", "runs_finish", "runs_post_records",
    "runs_restore_run", "runs_change_run", "runs_act_on_runs", "runs_describe",
    "runs_state_meaning", "runs_preview_meaning", "imports_create_import", "imports_resume_import",
    "studies_create_study", "predictions_freeze_prediction", "predictions_withdraw_prediction",
    "predictions_add_review", "predictions_ask_reviewers", "predictions_add_comment", "alert_rules_create_rule",
    "alert_rules_change_rule", "alert_rules_delete_rule", "decisions_add_decision", "artifacts_put_artifact",
}  # fmt: skip
ASKS_FOR_THINGS = {  # by ids in the query or in the body
    "curves_get_curves", "curves_get_many_series", "curves_get_comparison", "curves_list_fits",
    "predictions_freeze_prediction", "decisions_add_decision",
}  # fmt: skip
NEED_ROOM = {  # on the disk
    "imports_create_import", "imports_preview_import", "imports_resume_import", "runs_create_run", "runs_resume_run",
    "runs_launch_draft", "runs_extend_run", "studies_create_study", "artifacts_put_artifact",
}  # fmt: skip
SAID = {
    400: "The body is no JSON, or the request cannot be read.",
    401: "There is no token, or it is unknown, revoked or past its end.",
    403: "The token's scope, or the role of its owner today, does not reach this far.",
    404: "There is no such thing in the token's project.",
    409: "It cannot be done as things stand now, or a repeated request came with another body.",
    413: "The body is too large.",
    422: "A value cannot be used, or a query parameter is not known; field names it.",
    429: "Too many requests of this kind; Retry-After says after how many seconds to come again.",
    500: "A mistake of the server's; it has been logged.",
    507: "The disk of the server has no room for it now.",
}
PARAMETERS = {
    "run_id": "Id of the run, as in its address.",
    "path": "Of a file within its run.",
    "slug": "Slug of the recipe.",
    "study_id": "Id of the study.",
    "prediction_id": "Id of the prediction.",
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


@cache
def examples() -> dict[str, Json]:
    """Operation -> {"request", "response"} as a real server took and gave them; lists are cut to their first items."""
    return json.loads(EXAMPLES_FILE.read_text()) if EXAMPLES_FILE.exists() else {}


def completed(schema: Json, routers: Iterable[tuple[str, Router]]) -> Json:
    """The document that ninja makes, with what is said here put in; `routers` know which scope opens what."""
    _take_in(schema, ErrorBody)
    scopes = _scopes(routers)
    for operations in schema["paths"].values():
        for method, operation in operations.items():
            name = operation["operationId"].removeprefix("webapp_api_")
            _describe_parameters(operation)
            _put_answers(schema, name, operation)
            _put_errors(name, method, operation)
            _put_scope(operation, scopes.get(name))
            _put_examples(operation, examples().get(name, {}))
    return schema


def _scopes(routers: Iterable[tuple[str, Router]]) -> dict[str, BearerToken]:
    """Operation -> what opens it."""
    found: dict[str, BearerToken] = {}
    for _, router in routers:
        for operation in (each for view in router.path_operations.values() for each in view.operations):
            function = operation.view_func
            name = f"{function.__module__.rpartition('.')[2]}_{function.__name__}"
            opened_by = next(
                (each for each in operation.auth_callbacks if isinstance(each, BearerToken)), None
            )
            if opened_by is not None:
                found[name] = opened_by
    return found


def _put_scope(operation: Json, opened_by: BearerToken | None) -> None:
    if opened_by is not None:
        also = ", or the run's own token" if opened_by.run_token else ""
        operation["x-scope"] = opened_by.scope.value
        operation["responses"][403]["description"] = (
            f"It needs the scope {opened_by.scope}{also}. {SAID[403]}"
        )


def _take_in(schema: Json, shape: Any) -> Json:
    """A reference to a shape, which the document has from now on."""
    found = TypeAdapter(shape).json_schema(ref_template=REF, mode="serialization")
    schema["components"]["schemas"] |= found.pop("$defs", {}) | {shape.__name__: found}
    return {"$ref": REF.format(model=shape.__name__)}


def _describe_parameters(operation: Json) -> None:
    for parameter in operation.get("parameters", ()):
        if not parameter.get("description") and parameter["name"] in PARAMETERS:
            parameter["description"] = PARAMETERS[parameter["name"]]


def _put_answers(schema: Json, name: str, operation: Json) -> None:
    answers = operation["responses"]
    if name in DOCUMENTED:
        answers[200]["content"] = {"application/json": {"schema": _take_in(schema, DOCUMENTED[name])}}
    if name in FILES:
        kept = {} if name.startswith(("exports_", "artifacts_")) else answers[200]["content"]
        answers[200]["content"] = kept | {each: {"schema": {"type": "string"}} for each in FILES[name]}
    if name in TAGGED:
        answers[200]["headers"] = ETAG_HEADER
        answers[304] = {"description": "Nothing is new since the ETag in If-None-Match."}


def _put_errors(name: str, method: str, operation: Json) -> None:
    """Each status with which an operation may refuse."""
    has_path = any(each["in"] == "path" for each in operation.get("parameters", ()))
    has_body = method in ("post", "put", "patch") and "requestBody" in operation
    happens = {401: True, 403: True, 404: has_path or name in ASKS_FOR_THINGS, 409: name in CONFLICTS}
    happens |= {400: has_body, 413: has_body, 422: True, 500: True, 507: name in NEED_ROOM}
    happens[429] = any(name.endswith(f"_{each}") for each in HEAVY | WHOLE)
    content = {"application/json": {"schema": {"$ref": REF.format(model="ErrorBody")}}}
    for status in sorted(happens):
        if happens[status]:
            operation["responses"][status] = {"description": SAID[status], "content": content}
    if happens[429]:
        waits = {"description": "Seconds to wait.", "schema": {"type": "integer"}}
        operation["responses"][429]["headers"] = {"Retry-After": waits}


def _put_examples(operation: Json, known: Json) -> None:
    if "request" in known:
        for content in operation.get("requestBody", {}).get("content", {}).values():  # JSON, or a form
            content["example"] = known["request"]
    status = known.get("status")
    for content_type, example in known.get("responses", {}).items():
        operation["responses"][status]["content"][content_type]["example"] = example
