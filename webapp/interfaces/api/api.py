"""The API as a whole: routers, errors, OpenAPI at /api/v1/openapi.json."""

from typing import Any

from django.urls import URLPattern, URLResolver, path, re_path
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.errors import ValidationError, ValidationErrorContext
from ninja.operation import Operation

from webapp.interfaces.api import (
    alert_rules,
    artifacts,
    automation,
    curves,
    evaluations,
    exports,
    health,
    imports,
    predictions,
    problems,
    recipes,
    runs,
    samples,
    studies,
)
from webapp.interfaces.api import decisions as decision_log
from webapp.interfaces.api.auth import NOBODY
from webapp.interfaces.api.openapi import completed, id_of, tokens_of
from webapp.interfaces.api.parsing import Json, StrictJson, only_known_parameters
from webapp.interfaces.routes import EVERYBODY, TOKEN, Need, declare, route

DESCRIPTION = """RL runs, their compute-performance curves and the fitted ceilings.

Send `Authorization: Bearer TOKEN`. Every error is `{"error": {"code", "message", "field"?}}`; lists are
`{"items": [...], "next": cursor or null}`."""


ROUTERS = (
    ("/recipes", recipes.router),
    ("/runs", runs.router),
    ("/runs", artifacts.router),
    ("/runs", samples.router),
    ("/runs", evaluations.router),
    ("/studies", studies.router),
    ("/imports", imports.router),
    ("/predictions", predictions.router),
    ("/alerts", alert_rules.router),
    ("/decisions", decision_log.router),
    ("", automation.router),
    ("", curves.router),
    ("", exports.router),
    ("", health.router),
)
OPENED_BY = tokens_of(ROUTERS)


class HeadroomApi(NinjaAPI):
    """Says in OpenAPI, too, which scope opens each endpoint and how it may refuse, with examples."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._documents: dict[str, Any] = {}

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext]
    ) -> ValidationError:
        return problems.of_contexts(error_contexts)

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return id_of(operation)

    def get_openapi_schema(self, *, path_prefix: str | None = None, **options: Any) -> Any:
        """Made once a process for each prefix: nothing of it changes while the server runs."""
        key = f"{path_prefix} {options}"
        if key not in self._documents:
            made = super().get_openapi_schema(path_prefix=path_prefix, **options)
            self._documents[key] = completed(made, OPENED_BY)
        return self._documents[key]


api = HeadroomApi(
    title="Headroom",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api",
    docs_url=None,  # its page would load scripts from a CDN; /api/docs is ours
    docs_decorator=require_safe,  # of openapi.json
    parser=StrictJson(),
    renderer=Json(),
    auth=NOBODY,  # until an endpoint names the scope that opens it
)
problems.install(api)
api.add_decorator(only_known_parameters)
for prefix, router in ROUTERS:
    api.add_router(prefix, router)


def urls() -> list[URLPattern | URLResolver]:
    """What `webapp.urls` includes: the API, its 404, and /healthz."""
    patterns, *_ = api.urls
    api_patterns: list[URLPattern | URLResolver] = [
        path("api/v1/", (problems.in_our_form(patterns), "api", "api")),
        re_path(r"^api/", problems.nothing_here),
    ]
    return [
        route("healthz", health.healthz, "healthz", Need(EVERYBODY)),
        route("healthz/<slug:question>", health.healthz_of, "healthz-of", Need(EVERYBODY)),
        *declare(api_patterns, Need(TOKEN, TOKEN)),
    ]
