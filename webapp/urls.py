"""All URLs: the pages, the API under /api/v1/, what other trackers' clients speak, health, and metrics."""

from django.urls import include, path, re_path

from webapp.interfaces.api.api import urls as api_urls
from webapp.interfaces.mlflow import runs
from webapp.interfaces.mlflow.protocol import nothing_here
from webapp.interfaces.mlflow.urls import artifact_patterns
from webapp.interfaces.routes import EVERYBODY, TOKEN, Need, Pattern, check_declared, declare, route
from webapp.operation.observing.exposition import metrics

MLFLOW: list[Pattern] = [
    path("api/2.0/mlflow-artifacts/", include(artifact_patterns)),
    path("api/2.0/mlflow/", include("webapp.interfaces.mlflow.urls")),
    path("api/3.0/mlflow/traces", runs.start_trace),
    re_path(r"^api/\d\.\d/mlflow/", nothing_here),  # what its newer clients ask for: data sets
]
urlpatterns = check_declared(
    [
        *declare(
            MLFLOW, Need(TOKEN, TOKEN)
        ),  # first: its clients ask often, and each pattern before it is tried
        # Before the API, which answers everything under api/ that is no page.
        path("", include("webapp.interfaces.pages.urls")),
        # Asks by itself: for a token, or for networks (webapp.operation.observing.exposition).
        route("metrics", metrics, "metrics", Need(EVERYBODY)),
        path("", include("webapp.interfaces.trackio.urls")),
        *api_urls(),
    ]
)
