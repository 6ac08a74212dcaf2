"""Context that every page needs."""

from django.http import HttpRequest


def navigation(request: HttpRequest) -> dict:
    return {}
