"""However somebody signs in, the session is noted; a change of the second factors ends the others and is told."""

import time
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.signals import (
    authenticator_added,
    authenticator_removed,
    authenticator_reset,
    authenticator_used,
)
from django.contrib import messages
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest

from webapp.identity.accounts.log import record_account
from webapp.identity.accounts.models import User
from webapp.identity.signin import second_factor, sessions
from webapp.identity.signin.middleware import KNOWN_KEY

Kind = Authenticator.Type
ADDED = {Kind.TOTP: "two_factor.enabled", Kind.WEBAUTHN: "passkey.added"}
REMOVED = {Kind.TOTP: "two_factor.disabled", Kind.WEBAUTHN: "passkey.removed"}


@receiver(user_logged_in)
def note_session(request: HttpRequest, user: User, **_: Any) -> None:
    sessions.note(request, user)


@receiver(authenticator_added)
def added(request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    if authenticator.type == Kind.TOTP:  # the code that proved it is used up
        authenticator.data["last_step"] = int(time.time()) // second_factor.STEP_S
        authenticator.save(update_fields=["data"])
    _changed(request, user, ADDED.get(authenticator.type))


@receiver(authenticator_removed)
def removed(request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    request.session.pop(KNOWN_KEY, None)
    _changed(request, user, REMOVED.get(authenticator.type))


def _changed(request: HttpRequest, user: User, verb: str | None) -> None:
    """Recovery codes come and go with the other kinds, and are not told of."""
    if verb is not None:
        record_account(verb, user, actor=user)
        sessions.end_others(user, keep=request.session.session_key)


@receiver(authenticator_reset)
def renewed(user: User, **_: Any) -> None:
    record_account("two_factor.codes_renewed", user, actor=user)


@receiver(authenticator_used)
def used(request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    if authenticator.type == Kind.RECOVERY_CODES:
        left = second_factor.codes_left(user)
        told = f"That recovery code is used up; {left} are left. Your account page makes new ones."
        messages.info(request, told)
