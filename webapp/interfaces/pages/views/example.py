"""The example project that came with Headroom: opening it, and removing it for good."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache

from webapp.interfaces.imports.example import remove_example
from webapp.interfaces.pages.access import SESSION_KEY, example_project, signed_in


@never_cache
def open_example(request: HttpRequest) -> HttpResponse:
    """From now on the pages show it: its studies first."""
    request.session[SESSION_KEY] = example_project(request).slug
    return redirect("studies")


def remove(request: HttpRequest) -> HttpResponse:
    """For owners of its organisation."""
    example_project(request)
    remove_example(actor=signed_in(request))
    request.session.pop(SESSION_KEY, None)
    messages.success(request, "The example project is removed.")
    return redirect("overview")
