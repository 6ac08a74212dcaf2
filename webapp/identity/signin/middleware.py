"""What each request of somebody signed in passes: the note that the session is in use, and the rule of two factors."""

from collections.abc import Callable
from http import HTTPStatus

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import Resolver404, resolve

from webapp.base.requests import asked_by_script
from webapp.identity.signin import sessions
from webapp.identity.signin.forms import has_second_factor

WORDS = "Turn on two-factor sign-in first."
KNOWN_KEY = "has_second_factor"
# Open before there is a second factor: turning it on, signing out, and what the page itself loads.
WITHOUT_TWO_FACTOR = {
    "mfa_activate_totp",
    "mfa_add_webauthn",
    "account_reauthenticate",
    "sign-out",
    "sign-in",
    "mfa_authenticate",
    "mfa_login_webauthn",
    "alive",
    "set-password",
    "healthz",
    "healthz-of",
    "metrics",
    "shared",  # this and what follows: whoever has the link
    "shared-picture",
    "embed",
    "shared-report",
}


class SignedInRules:
    """Notes when a session was last seen, and leads to the second factor where the installation requires one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated:
            sessions.touch(request)
            if _waits_for_two_factor(request):
                if asked_by_script(request):
                    return HttpResponse(WORDS, status=HTTPStatus.FORBIDDEN, content_type="text/plain")
                return redirect("mfa_activate_totp")
        return self.get_response(request)


def _waits_for_two_factor(request: HttpRequest) -> bool:
    """Whether the installation requires a second factor that this person has not, and the address is not open yet."""
    if not settings.REQUIRE_TWO_FACTOR or request.session.get(KNOWN_KEY) == request.user.pk:
        return False
    if has_second_factor(request.user):  # type: ignore[arg-type]
        request.session[KNOWN_KEY] = request.user.pk
        return False
    try:
        return resolve(request.path_info).url_name not in WITHOUT_TWO_FACTOR
    except Resolver404:
        return True
