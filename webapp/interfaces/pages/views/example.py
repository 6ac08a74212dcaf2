"""The example project that came with Headroom: opening it, and removing it for good."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from webapp.interfaces.imports.example import remove_example
from webapp.interfaces.pages.access import SESSION_KEY, example_project, signed_in


@never_cache
@require_GET
def open_example(request: HttpRequest) -> HttpResponse:
    """From now on the pages show it."""
    request.session[SESSION_KEY] = example_project(request).slug
    return redirect("leaderboard")


@require_POST
def remove(request: HttpRequest) -> HttpResponse:
    """For owners of its organisation."""
    example_project(request)
    remove_example(actor=signed_in(request))
    request.session.pop(SESSION_KEY, None)
    messages.success(request, "The example project is removed.")
    return redirect("overview")
