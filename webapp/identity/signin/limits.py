"""How often a wrong password or code may be tried: django-axes counts, and here are its limits.

Per person and address AXES_FAILURE_LIMIT; per person from all addresses together and per address for all people
together the wider ones below: a spread attack meets them, a colleague with a bad memory locks out nobody else.
"""

from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from axes.helpers import get_client_ip_address, get_client_username
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.signals import user_login_failed
from django.db.models import Q, Sum
from django.http import HttpRequest


class Limits(AxesDatabaseHandler):
    """django-axes' own table of failures, with the two wider limits."""

    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        locked = super().is_locked(request, credentials) or self._is_widely_locked(request, credentials)
        if locked:  # django-axes' own mark looks at its one limit only
            request.axes_locked_out = True  # type: ignore[attr-defined]
        return locked

    def _is_widely_locked(self, request: HttpRequest, credentials: dict[str, Any] | None) -> bool:
        user = Q(username=get_client_username(request, credentials))
        address = Q(ip_address=get_client_ip_address(request))
        recent = AccessAttempt.objects.filter(
            user | address, attempt_time__gte=get_cool_off_threshold(request)
        )
        found = recent.aggregate(
            user=Sum("failures_since_start", filter=user), address=Sum("failures_since_start", filter=address)
        )
        return (found["user"] or 0) >= settings.SIGN_IN_FAILURES_PER_USER or (
            found["address"] or 0
        ) >= settings.SIGN_IN_FAILURES_PER_ADDRESS


def is_locked(request: HttpRequest, username: str) -> bool:
    """Whether this person may not try from here now; the answer to the request is then the page with 429."""
    if AxesProxyHandler.is_allowed(request, {"username": username}):
        return False
    request.axes_credentials = {"username": username}  # type: ignore[attr-defined]
    return True


def note_failure(request: HttpRequest, username: str) -> None:
    """Count a wrong code like a wrong password."""
    user_login_failed.send(sender=__name__, credentials={"username": username}, request=request)
