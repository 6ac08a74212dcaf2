"""What happens between a request and a view of the pages."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import resolve_url

from webapp.base.requests import asked_by_script, without_nul
from webapp.interfaces.pages.route_rules import API

WORDS = "You have been signed out."


class WithoutNul:
    """No view of a page sees a NUL character: not in its address, which is not there then, in a query, or in a form.

    The API refuses them by itself, as do the protocols of other trackers.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any) -> None:
        if request.path.startswith(API):
            return
        if "\0" in request.path:
            raise Http404("No address of a page holds a NUL character.")
        request.GET = without_nul(request.GET)  # type: ignore[assignment]
        request.POST = without_nul(request.POST)  # type: ignore[assignment]


class SignedOut:
    """A script that asks for a region or for data gets a 401, where a person would be sent to the sign-in page.

    Otherwise the form for signing in would be swapped into the middle of the page that stands open.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if _leads_to_sign_in(response) and asked_by_script(request):
            return HttpResponse(WORDS, status=HTTPStatus.UNAUTHORIZED, content_type="text/plain")
        return response


def _leads_to_sign_in(response: HttpResponse) -> bool:
    """Only a page that needs somebody signed in: signing out redirects there without asking to come back."""
    sign_in = resolve_url(settings.LOGIN_URL)
    return response.status_code == HTTPStatus.FOUND and response["Location"].startswith(f"{sign_in}?")
