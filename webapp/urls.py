"""All URLs: the API under /api/v1/, health, and the pages."""

from django.urls import include, path

urlpatterns = [
    path("", include("webapp.pages.urls")),
]
