"""/api/docs: what the API takes and gives, for people. It is open to everybody, as the document that it shows is."""

from functools import cache

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.interfaces.api.api import api
from webapp.interfaces.pages.api_docs import Group, Shape, groups_of, shapes_of


def page(request: HttpRequest) -> HttpResponse:
    """Drawn on the server from the OpenAPI document; nothing on it depends on who looks."""
    groups, shapes = _content()
    return render(request, "docs/api.html", {"groups": groups, "shapes": shapes})


@cache
def _content() -> tuple[list[Group], list[Shape]]:
    document = api.get_openapi_schema()
    return groups_of(document), shapes_of(document)
