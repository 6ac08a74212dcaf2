"""All URLs: the API under /api/v1/, health, and the pages."""

from django.urls import include, path

from webapp.api.api import urls as api_urls

urlpatterns = [
    path("api/2.0/mlflow/", include("webapp.mlflow.urls")),
    path("", include("webapp.trackio.urls")),
    *api_urls(),
    path("", include("webapp.pages.urls")),
]
