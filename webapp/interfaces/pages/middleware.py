"""What happens between a request and a view of the pages."""

from collections.abc import Callable
from http import HTTPStatus

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url

from webapp.base.requests import asked_by_script

WORDS = "You have been signed out."


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
