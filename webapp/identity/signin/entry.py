"""The way in: after a password or a provider's word comes the code, if the account has a second factor.

In between the session knows who is half way in, under keys that nothing else reads: it opens no page.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth import login
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from webapp.identity.accounts.models import User
from webapp.identity.signin.two_factor import has_two_factor

HALF_WAY = "half_signed_in"
HALF_WAY_FOR = timedelta(minutes=5)
BACKEND = "django.contrib.auth.backends.ModelBackend"


@dataclass(frozen=True)
class HalfWay:
    """Who gave the first factor, and where to go when the second came."""

    user: User
    next: str


def enter(request: HttpRequest, user: User, *, next_url: str) -> bool:
    """The first factor was right. True: signed in; False: the code is asked for next."""
    if not has_two_factor(user):
        finish(request, user)
        return True
    request.session.flush()  # nothing of who was here before, and a new key
    request.session[HALF_WAY] = {
        "user": user.pk,
        "since": timezone.now().isoformat(),
        "password": user.get_session_auth_hash(),
        "next": next_url,
    }
    return False


def half_way(request: HttpRequest) -> HalfWay | None:
    """Who is half way in; None after five minutes, or when the password changed meanwhile."""
    stored = request.session.get(HALF_WAY)
    if stored is None:
        return None
    user = User.objects.filter(pk=stored["user"], is_active=True).first()
    late = timezone.now() - datetime.fromisoformat(stored["since"]) > HALF_WAY_FOR
    if user is None or late or not constant_time_compare(stored["password"], user.get_session_auth_hash()):
        request.session.flush()
        return None
    return HalfWay(user, stored["next"])


def finish(request: HttpRequest, user: User) -> None:
    """Signed in, under a new session key. What the session held before is dropped, also the half-way state."""
    request.session.clear()
    login(request, user, backend=BACKEND)
