"""The way in: after a password or a provider's word, django-allauth asks for the second factor where there is one.

In between the session knows who is half way in, under keys that nothing else reads: it opens no page.
"""

from allauth.account.utils import perform_login
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare

from webapp.identity.accounts.models import User

BEGUN = "half_signed_in"
BACKEND = "django.contrib.auth.backends.ModelBackend"


def enter(request: HttpRequest, user: User, *, next_url: str) -> HttpResponse:
    """The first factor was right: leads to `next_url`, or to the question for the second."""
    request.session.flush()  # nothing of who was here before, and a new key
    request.session[BEGUN] = {str(user.pk): user.get_session_auth_hash()}
    return perform_login(request, user, redirect_url=next_url)


def leave(request: HttpRequest) -> None:
    """Whoever is half way in begins anew, perhaps as somebody else or by passkey."""
    if BEGUN in request.session:
        request.session.flush()


def finish(request: HttpRequest, user: User) -> bool:
    """Signed in, under a new session key, with nothing of what the session held before.

    False, and nothing is left of the session, where the account was closed or has another password by now.
    """
    now = user.get_session_auth_hash()
    begun = request.session.get(BEGUN, {}).get(str(user.pk), now)
    if not user.is_active or not constant_time_compare(begun, now):
        request.session.flush()
        return False
    request.session.clear()
    login(request, user, backend=BACKEND)
    return True
