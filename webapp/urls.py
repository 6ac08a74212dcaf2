"""All URLs: the API under /api/v1/, health, and the pages."""

from django.urls import include, path

from webapp.api.api import urls as api_urls
from webapp.pages.views import api_docs

urlpatterns = [
    path(
        "api/docs", api_docs.page, name="api-docs"
    ),  # before the API, which answers everything else under api/
    *api_urls(),
    path("", include("webapp.pages.urls")),
]
