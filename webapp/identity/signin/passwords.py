"""Passwords: changed by their owner, or anew through a link that works once (by mail, or from an administrator).

How often a wrong password or code may be tried: django-axes counts, and here are its limits.

Per person and address AXES_FAILURE_LIMIT; per person from all addresses together and per address for all people
together the wider ones below: a spread attack meets them, a colleague with a bad memory locks out nobody else.
"""

import logging
import threading
from datetime import timedelta
from typing import Any
from urllib.parse import urljoin

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from axes.helpers import get_client_ip_address, get_client_username
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth import authenticate, update_session_auth_hash
from django.contrib.auth.signals import user_login_failed
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Q, Sum
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from webapp.identity.accounts.log import record_account
from webapp.identity.accounts.models import User
from webapp.identity.signin import sessions
from webapp.identity.signin.models import PasswordMail

log = logging.getLogger(__name__)
MAIL_AGAIN_AFTER = timedelta(minutes=5)
PROFILE = ("first_name", "last_name", "email")


def mail_configured() -> bool:
    """Whether this installation can send mail: otherwise an administrator makes the link."""
    return bool(settings.EMAIL_CONFIGURED)


def is_own_password(request: HttpRequest, user: User, raw: str) -> bool:
    """Whether this is the signed-in person's password. Wrong ones count as at sign-in, so nobody guesses here."""
    return authenticate(request, username=user.get_username(), password=raw) == user


@transaction.atomic
def change_profile(user: User, *, first_name: str, last_name: str, email: str) -> None:
    """Name and mail address. Safe to repeat."""
    wanted = {"first_name": first_name, "last_name": last_name, "email": email}
    changed = [name for name in PROFILE if getattr(user, name) != wanted[name]]
    for name in changed:
        setattr(user, name, wanted[name])
    if changed:
        user.save(update_fields=changed)
        record_account("account.changed", user, actor=user, changed=changed)


@transaction.atomic
def change_password(request: HttpRequest, user: User, raw: str) -> None:
    """The new password; this session goes on under a new key, all others end."""
    user.set_password(raw)
    user.save(update_fields=["password"])
    update_session_auth_hash(request, user)
    sessions.note(request, user)
    sessions.end_others(user, keep=request.session.session_key)
    record_account("password.changed", user, actor=user)


@transaction.atomic
def set_by_link(user: User, raw: str) -> None:
    """The new password of who came by a link; all sessions end, and the link is used up: it depended on the old one."""
    user.set_password(raw)
    user.save(update_fields=["password"])
    sessions.end_others(user, keep=None)
    record_account("password.reset", user, actor=user)


def link_path(user: User) -> str:
    """Path of a page where the password is set anew: once, within `settings.PASSWORD_RESET_TIMEOUT`."""
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    return reverse("set-password", args=[uid, default_token_generator.make_token(user)])


def pages_url() -> str:
    """Where people reach the pages, by the settings alone: what a request says of itself may be made up."""
    origins = [origin for origin in settings.CSRF_TRUSTED_ORIGINS if "*" not in origin]
    return origins[0] if origins else settings.HEADROOM_URL or f"http://{settings.ALLOWED_HOSTS[0]}"


def mail_links(email: str) -> threading.Thread:
    """Mail a link to each active account with this address, at most every five minutes. Returns at once.

    The work is done by the thread that is returned, so that an answer takes as long for an address that nobody has.
    """
    thread = threading.Thread(target=_mail_links, args=(email,), daemon=True)
    thread.start()
    return thread


def _mail_links(email: str) -> None:
    from django.db import connection

    try:
        for user in User.objects.filter(email__iexact=email, is_active=True):
            # Who signs in by OpenID only gets no password by mail.
            if user.has_usable_password() and _may_mail(user):
                _mail(user, urljoin(pages_url(), link_path(user)))
    except OSError:  # SMTPException is one
        log.exception("a mail with a link for a new password could not be sent")
    finally:
        connection.close()


def _may_mail(user: User) -> bool:
    """Whether the last mail is long enough ago; notes this one."""
    now = timezone.now()
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)
        last = PasswordMail.objects.filter(user=user).first()
        if last and now - last.sent_at < MAIL_AGAIN_AFTER:
            return False
        PasswordMail.objects.update_or_create(user=user, defaults={"sent_at": now})
    return True


def _mail(user: User, url: str) -> None:
    hours = settings.PASSWORD_RESET_TIMEOUT // 3600
    send_mail(
        "A new password for Headroom",
        f"Somebody, probably you, asked for a new password of the account {user.get_username()}.\n\n{url}\n\n"
        f"The link works once, within {hours} hours. If it was not you, nothing need be done.\n",
        None,
        [user.email],
    )


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
