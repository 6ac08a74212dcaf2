"""However somebody signs in, the session is noted; a change of the second factors is told, and ends the other sessions.

In the transaction of the change: django-allauth's own signals of it come after.

What `manage.py check` says of a provider that is half configured.
"""

import time
from collections.abc import Iterator
from typing import Any

from allauth.core import context
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_reset, authenticator_used
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.signals import user_logged_in
from django.core.checks import CheckMessage, Error, register
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.http import HttpRequest

from webapp.identity.accounts.log import record_account
from webapp.identity.accounts.models import Role, User
from webapp.identity.signin import forms, sessions
from webapp.identity.signin.middleware import KNOWN_KEY
from webapp.identity.signin.openid_settings import Configuration

Kind = Authenticator.Type
ADDED = {Kind.TOTP: "two_factor.enabled", Kind.WEBAUTHN: "passkey.added"}
REMOVED = {Kind.TOTP: "two_factor.disabled", Kind.WEBAUTHN: "passkey.removed"}


@receiver(user_logged_in)
def note_session(request: HttpRequest, user: User, **_: Any) -> None:
    sessions.note(request, user)


@receiver(post_save, sender=Authenticator)
def added(instance: Authenticator, created: bool, **_: Any) -> None:
    if created:
        if instance.type == Kind.TOTP:  # the code that proved it is used up
            instance.data["last_step"] = int(time.time()) // forms.STEP_S
            instance.save(update_fields=["data"])
        _changed(instance.user, ADDED.get(instance.type))


@receiver(post_delete, sender=Authenticator)
def removed(instance: Authenticator, **_: Any) -> None:
    _changed(instance.user, REMOVED.get(instance.type))


def _changed(user: User, verb: str | None) -> None:
    """Recovery codes come and go with the other kinds, and are not told of. Without a request: by an administrator."""
    if verb is None:
        return
    request = context.request
    record_account(verb, user, actor=request.user if request else None)
    if request:
        request.session.pop(KNOWN_KEY, None)
        sessions.end_others(user, keep=request.session.session_key)


@receiver(authenticator_reset)
def renewed(user: User, **_: Any) -> None:
    record_account("two_factor.codes_renewed", user, actor=user)


@receiver(authenticator_used)
def used(request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    if authenticator.type == Kind.RECOVERY_CODES:
        left = forms.codes_left(user)
        told = f"That recovery code is used up; {left} are left. Your account page makes new ones."
        messages.info(request, told)


@register()
def openid(**_: Any) -> Iterator[CheckMessage]:
    """The role of new people must be one; it would only be found out when the first of them signs in."""
    it: Configuration | None = settings.OIDC
    if it is not None and it.default_role not in Role.values:
        known = ", ".join(Role.values)
        yield Error(f"HEADROOM_OIDC_DEFAULT_ROLE must be one of {known}, not {it.default_role!r}.")
