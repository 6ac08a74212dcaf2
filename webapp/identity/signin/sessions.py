"""Where somebody is signed in: noted, listed, ended. A session ends 14 days after its sign-in, used or not.

A browser's own words as words for people: which browser, on which system.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.utils import timezone

from webapp.identity.accounts.models import User
from webapp.identity.audit.services import client_address
from webapp.identity.signin.models import SignedIn

LIFETIME = timedelta(days=14)
SEEN_EVERY = timedelta(minutes=5)
SEEN_KEY = "seen_at"
BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
)
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def note(request: HttpRequest, user: User) -> None:
    """Note the session that `user` is signed in with now, and end it `LIFETIME` from now if it does not end before."""
    session = request.session
    if "_session_expiry" not in session:
        session.set_expiry(timezone.now() + LIFETIME)
    session[SEEN_KEY] = timezone.now().isoformat()
    session.save()
    SignedIn.objects.update_or_create(
        session_id=session.session_key,
        defaults={
            "user": user,
            "agent": request.META.get("HTTP_USER_AGENT", "")[:300].replace("\0", ""),
            "address": client_address(request),
        },
    )


def touch(request: HttpRequest) -> None:
    """Note that the session is in use, every five minutes at most: other requests cost no query."""
    seen, now = request.session.get(SEEN_KEY), timezone.now()
    if seen is not None and now - datetime.fromisoformat(seen) < SEEN_EVERY:
        return
    if seen is None:  # from before sessions were noted
        with suppress(IntegrityError), transaction.atomic():  # it ended, or another request of it was quicker
            note(request, request.user)  # type: ignore[arg-type]
        return
    request.session[SEEN_KEY] = now.isoformat()
    SignedIn.objects.filter(session_id=request.session.session_key).update(
        seen_at=now, address=client_address(request)
    )


def sessions_of(user: User) -> list[SignedIn]:
    """Living sessions, the one used last first."""
    living = SignedIn.objects.filter(user=user, session__expire_date__gt=timezone.now())
    return list(living.order_by("-seen_at", "-pk"))


def end(signed_in: Iterable[SignedIn]) -> int:
    """End these sessions: their cookies open nothing from now on. How many were ended. Safe to repeat."""
    keys = [one.session_id for one in signed_in]
    return Session.objects.filter(pk__in=keys).delete()[1].get("sessions.Session", 0)


def end_others(user: User, keep: str | None) -> int:
    """End all of somebody's sessions but `keep` (None: all)."""
    return end(SignedIn.objects.filter(user=user).exclude(session_id=keep or ""))


def device_words(agent: str) -> str:
    """ "Firefox on Linux"; what is not known is left out."""
    browser = next((name for mark, name in BROWSERS if mark in agent), None)
    system = next((name for mark, name in SYSTEMS if mark in agent), None)
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or "Unknown device"
