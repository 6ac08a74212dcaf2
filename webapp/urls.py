"""All URLs: the API under /api/v1/, health, and the pages."""

from django.urls import include, path

from webapp.api.api import urls as api_urls

urlpatterns = [
    *api_urls(),
    path("", include("webapp.pages.urls")),
]
