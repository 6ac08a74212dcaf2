"""Which addresses are limited: searches, what costs the server much, and what is open to everybody.

Limits are a lot for a person and little for a program that runs wild. Who is signed in is counted by account, everybody
else by address; `HEADROOM_TRUSTED_PROXIES` must be right for that.
"""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from webapp.base.limits import Limit, TooMany, spend
from webapp.base.requests import asked_by_script
from webapp.identity.audit.addresses import client_address

SEARCH = Limit(120, 60)
HEAVY = Limit(60, 60)
READ_BY_LINK = Limit(300, 60)  # an office behind one address reads a link together
LIMITS: dict[str, Limit] = {
    **dict.fromkeys(("runs-complete", "compare-search", "palette"), SEARCH),
    **dict.fromkeys(
        (
            "alert-check", "prediction-proposal", "study-preview", "preview-report", "report-block", "compare-odds",
            "compare-crossings", "leaderboard-evidence", "launch-check", "revision-hints",
        ),
        SEARCH,
    ),
    **dict.fromkeys(
        (
            "report-html", "audit-csv", "audit-jsonl", "predictions-csv",
            "leaderboard-csv", "study-csv", "run-records-csv", "run-records-jsonl", "run-records-parquet", "runs-csv",
            "runs-json", "alert-test-channel", "alert-test-rule",
        ),
        HEAVY,
    ),
    **dict.fromkeys(("shared", "embed", "shared-report", "api-docs"), READ_BY_LINK),
    "shared-picture": HEAVY,
    "invitation": HEAVY,
    **dict.fromkeys(("openid-begin", "openid-callback", "mfa_login_webauthn"), HEAVY),
}  # fmt: skip
POSTS: dict[str, Limit] = {  # looking at the form costs nothing
    "forgot-password": Limit(20, 600),
    **dict.fromkeys(("new-import", "import-resume"), HEAVY),
}


class Limits:
    """Answers 429 with the seconds to wait, before the view is asked."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        match = request.resolver_match
        name = (match.url_name or "") if match and not match.namespaces else ""
        limit = LIMITS.get(name) or (POSTS.get(name) if request.method == "POST" else None)
        if limit is None:
            return None
        try:
            spend(name, _who(request), limit)
        except TooMany as error:
            return _refusal(request, error)
        return None


def _who(request: HttpRequest) -> str:
    if request.user.is_authenticated:
        return f"user-{request.user.pk}"
    return f"address-{client_address(request)}"


def _refusal(request: HttpRequest, error: TooMany) -> HttpResponse:
    headers = {"Retry-After": str(error.wait)}
    if asked_by_script(request):
        return HttpResponse(error.message, status=error.status, content_type="text/plain", headers=headers)
    context = {"title": "Too many requests", "sentence": error.message}
    return HttpResponse(render_to_string("shares/gone.html", context), status=error.status, headers=headers)
