"""All URLs: the pages, the API under /api/v1/, what other trackers' clients speak, health, and metrics."""

from django.urls import include, path

from webapp.interfaces.api.api import urls as api_urls
from webapp.interfaces.mlflow.urls import artifact_patterns
from webapp.operation.observing.exposition import metrics

urlpatterns = [
    path(
        "", include("webapp.interfaces.pages.urls")
    ),  # first: the API answers everything under api/ that is no page
    path("metrics", metrics, name="metrics"),
    path("api/2.0/mlflow-artifacts/", include(artifact_patterns)),
    path("api/2.0/mlflow/", include("webapp.interfaces.mlflow.urls")),
    path("", include("webapp.interfaces.trackio.urls")),
    *api_urls(),
]
