"""All URLs: the pages, the API under /api/v1/, and health."""

from django.urls import include, path

from webapp.api.api import urls as api_urls

urlpatterns = [
    path("", include("webapp.pages.urls")),  # first: the API answers everything under api/ that is no page
    *api_urls(),
]
