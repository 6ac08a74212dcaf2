"""What each request of somebody signed in passes: the note that the session is in use, and the rule of two factors."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from webapp.pages.middleware import asked_by_script
from webapp.signin import sessions
from webapp.signin.two_factor import has_two_factor

KNOWN_KEY = "has_two_factor"
# Open before there is a second factor: turning it on, signing out, and what the page itself loads.
WITHOUT_TWO_FACTOR = {"two-factor", "sign-out", "sign-in", "sign-in-code", "alive", "set-password"}


class SignedInRules:
    """Notes when a session was last seen, and leads to the second factor where the installation requires one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated:
            sessions.touch(request)
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: object) -> HttpResponse | None:
        match = request.resolver_match
        if not settings.REQUIRE_TWO_FACTOR or match is None or match.url_name in WITHOUT_TWO_FACTOR:
            return None
        if not request.user.is_authenticated or request.session.get(KNOWN_KEY) == request.user.pk:
            return None
        if has_two_factor(request.user):
            request.session[KNOWN_KEY] = request.user.pk
            return None
        if asked_by_script(request):
            return HttpResponse("Turn on two-factor sign-in first.", status=403, content_type="text/plain")
        return redirect("two-factor")
