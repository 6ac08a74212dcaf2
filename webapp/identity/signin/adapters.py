"""What django-allauth asks of this installation: how to sign in, how a proof is renewed, how secrets are stored.

The way in: after a password or a provider's word, django-allauth asks for the second factor where there is one.

In between the session knows who is half way in, under keys that nothing else reads: it opens no page.
"""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.utils import perform_login
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import generate_totp_secret
from cryptography.fernet import InvalidToken
from django.contrib import messages
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.crypto import constant_time_compare

from webapp.base.sealing import box
from webapp.identity.accounts.models import User

BEGUN = "half_signed_in"
BACKEND = "django.contrib.auth.backends.ModelBackend"
PURPOSE = b"headroom second factors"


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


class AccountAdapter(DefaultAccountAdapter):
    """Signing in, and proving anew who one is."""

    def login(self, request: HttpRequest, user: User) -> None:
        """After all factors. Back to the start where the account changed since the first one."""
        if not finish(request, user):
            messages.info(request, "Sign in again: the account changed meanwhile.")
            raise ImmediateHttpResponse(redirect("sign-in"))

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """Who has a second factor proves that: a stolen session and a password are not enough."""
        ways = super().get_reauthentication_methods(user)
        return [way for way in ways if way["id"] != "reauthenticate"] or ways


class MfaAdapter(DefaultMFAAdapter):
    """Keys of apps and seeds of recovery codes are encrypted under SECRET_KEY; the keys before it open them, too."""

    error_messages = DefaultMFAAdapter.error_messages | {
        "incorrect_code": "This was not accepted. Try again.",
    }

    def encrypt(self, text: str) -> str:
        return box(PURPOSE).encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Under a key that is gone: a secret that nobody has, so that no code fits (`manage.py reset_two_factor`)."""
        try:
            return box(PURPOSE).decrypt(encrypted_text.encode()).decode()
        except InvalidToken:
            return generate_totp_secret()

    def generate_authenticator_name(self, user: Any, type: Any) -> str:
        return f"Passkey {Authenticator.objects.filter(user=user, type=type).count() + 1}"

    def get_totp_label(self, user: Any) -> str:
        return f"{self.get_totp_issuer()}:{user.get_username()}"
