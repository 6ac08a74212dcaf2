"""The API as a whole: routers, errors, OpenAPI at /api/v1/openapi.json."""

from typing import Any

from django.urls import URLPattern, URLResolver, path, re_path
from ninja import NinjaAPI

from webapp.api import (
    alert_rules,
    alerts,
    automation,
    curves,
    exports,
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
from webapp.api.openapi import completed
from webapp.api.parsing import StrictJson

DESCRIPTION = """RL runs, their compute-performance curves and the fitted ceilings.

Send `Authorization: Bearer TOKEN`. Every error is `{"error": {"code", "message", "field"?}}`; lists are
`{"items": [...], "next": cursor or null}`."""


class HeadroomApi(NinjaAPI):
    """Says in OpenAPI, too, how each endpoint may refuse, with examples."""

    def get_openapi_schema(self, **options: Any) -> Any:
        return completed(super().get_openapi_schema(**options))


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
api.add_router("/predictions", predictions.router)
api.add_router("/alerts", alerts.router)
api.add_router("/alerts", alert_rules.router)
api.add_router("/decisions", decision_log.router)
api.add_router("", automation.router)
api.add_router("", curves.router)
api.add_router("", exports.router)
api.add_router("", status.router)


def urls() -> list[URLPattern | URLResolver]:
    """What `webapp.urls` includes: the API, its 404, and /healthz."""
    patterns, *_ = api.urls
    return [
        path("healthz", healthz, name="healthz"),
        path("api/v1/", (problems.in_our_form(patterns), "api", "api")),
        re_path(r"^api/(?P<rest>.*)$", problems.nothing_here),
    ]
