"""The API as a whole: routers, errors, OpenAPI at /api/v1/openapi.json."""

from typing import Any

from django.urls import URLPattern, URLResolver, path, re_path
from ninja import NinjaAPI

from webapp.api import (
    alert_rules,
    alerts,
    automation,
    curves,
    imports,
    logs,
    predictions,
    problems,
    recipes,
    runs,
    status,
    studies,
)
from webapp.api import decisions as decision_log
from webapp.api.auth import NOBODY
from webapp.api.health import healthz
from webapp.api.parsing import StrictJson
from webapp.api.schemas import ErrorBody

DESCRIPTION = """RL runs, their compute-performance curves and the fitted ceilings.

Send `Authorization: Bearer TOKEN`. Every error is `{"error": {"code", "message", "field"?}}`; lists are
`{"items": [...], "next": cursor or null}`."""

ERROR_RESPONSE = {
    "description": "Any failure",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}},
}


class HeadroomApi(NinjaAPI):
    """Says in OpenAPI, too, that every failure has one form."""

    def get_openapi_schema(self, **options: Any) -> Any:
        schema = super().get_openapi_schema(**options)
        error = ErrorBody.model_json_schema(ref_template="#/components/schemas/{model}")
        schema["components"]["schemas"] |= error.pop("$defs") | {"ErrorBody": error}
        for operations in schema["paths"].values():
            for operation in operations.values():
                operation["responses"].setdefault("default", ERROR_RESPONSE)
        return schema


api = HeadroomApi(
    title="Headroom",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api",
    docs_url=None,  # its page would load scripts from a CDN
    parser=StrictJson(),
    auth=NOBODY,  # until an endpoint names the scope that opens it
)
problems.install(api)
api.add_router("/recipes", recipes.router)
api.add_router("/runs", runs.router)
api.add_router("/runs", logs.router)
api.add_router("/studies", studies.router)
api.add_router("/imports", imports.router)
api.add_router("/predictions", predictions.router)
api.add_router("/alerts", alerts.router)
api.add_router("/alerts", alert_rules.router)
api.add_router("/decisions", decision_log.router)
api.add_router("", automation.router)
api.add_router("", curves.router)
api.add_router("", status.router)


def urls() -> list[URLPattern | URLResolver]:
    """What `webapp.urls` includes: the API, its 404, and /healthz."""
    patterns, *_ = api.urls
    return [
        path("healthz", healthz, name="healthz"),
        path("api/v1/", (problems.in_our_form(patterns), "api", "api")),
        re_path(r"^api/(?P<rest>.*)$", problems.nothing_here),
    ]
