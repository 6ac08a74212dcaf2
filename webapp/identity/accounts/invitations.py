"""Invitations: a link makes whoever has it a member of one project, once.

The link holds 256 random bits and is stored as its SHA-256 only. Guessing one is hopeless at any rate of requests, so
wrong links are not counted; and a wrong one is refused before a password is hashed.

Sending an invitation by mail, where the installation can.
"""

import logging
import secrets
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone

from webapp.base.claims import unless_there
from webapp.base.errors import Conflict, Forbidden, InvalidInput, first_of
from webapp.identity.accounts.models import Invitation, Membership, Project, Role, User
from webapp.identity.accounts.permissions import role_in
from webapp.identity.accounts.services import checked_role, digest, lock, set_role
from webapp.identity.audit.services import record

TOKEN_BYTES = 32
DEFAULT_DAYS, MAX_DAYS = 7, 30
MOST_OPEN = 100  # of a project
MAX_USERNAME = 60
WHY = {
    "accepted": "This invitation has been used already; each makes one person a member.",
    "revoked": "This invitation was taken back.",
    "expired": "This invitation has expired.",
    "no_admin": "Who invited you is not an admin of this project any more, so the invitation is void.",
}
log = logging.getLogger(__name__)
TEXT = """{inviter} invites you to the project {project} of Headroom, as {role}.

{url}

The link works once, until {until} UTC. If you do not know {inviter}, ignore this mail.
"""


@transaction.atomic
def invite(
    project: Project, *, role: str, email: str = "", days: int = DEFAULT_DAYS, actor: User
) -> tuple[Invitation, str]:
    """A new invitation and its token, which is returned here and never again.

    Raises InvalidInput (role, email, days), Conflict where too many are open.
    """
    wanted, address = checked_role(role), _checked_email(email)
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInput("days", f"An invitation is open for 1 to {MAX_DAYS} days.")
    lock(project)
    if open_invitations(project).count() >= MOST_OPEN:
        raise Conflict(f"{MOST_OPEN} invitations are open; take some back first.")
    token = secrets.token_urlsafe(TOKEN_BYTES)
    invitation = Invitation.objects.create(
        project=project, role=wanted, email=address, digest=digest(token), invited_by=actor,
        expires_at=timezone.now() + timedelta(days=days),
    )  # fmt: skip
    _record("invitation.made", invitation, actor, role=wanted.value, days=days)
    return invitation, token


@transaction.atomic
def revoke_invitation(invitation: Invitation, *, actor: User) -> None:
    """From now on the link opens nothing. Safe to repeat.

    Raises Conflict where somebody has used it already.
    """
    own = Invitation.objects.filter(pk=invitation.pk, accepted_at=None)
    if own.filter(revoked_at=None).update(revoked_at=timezone.now()):
        _record("invitation.revoked", invitation, actor)
    elif not own.exists():
        raise Conflict("Somebody has accepted this invitation already; remove the member instead.")


def open_invitations(project: Project):
    """Those that can still be accepted, the newest first."""
    now = timezone.now()
    found = Invitation.objects.filter(project=project, accepted_at=None, revoked_at=None, expires_at__gt=now)
    return found.select_related("invited_by")


def find_invitation(token: str) -> Invitation:
    """The invitation of a link, whatever its state. Raises NotFound."""
    found = Invitation.objects.select_related("project__organisation", "invited_by")
    missing = "There is no such invitation. It may have been cut short when it was copied."
    return first_of(found.filter(digest=digest(token)), missing)


def why_refused(invitation: Invitation, now: datetime) -> str | None:
    """A sentence that says why it opens nothing; None where it does."""
    state = invitation.state_at(now)
    if state != "open":
        return WHY[state]
    inviter = invitation.invited_by
    is_admin = inviter is not None and role_in(inviter, invitation.project) == Role.ADMIN
    return None if is_admin else WHY["no_admin"]


def accept(token: str, *, user: User) -> Project:
    """The signed-in user becomes a member.

    Raises NotFound, Conflict where it is used, revoked or expired or the user is a member already, Forbidden where
    the inviter is no admin any more. Then nothing is changed.
    """
    invitation = find_invitation(token)
    with transaction.atomic():
        _join(invitation, user)
    return invitation.project


def accept_as_new(token: str, *, username: str, password: str) -> User:
    """A new account, member of the invitation's project and of nothing else.

    Raises InvalidInput (username, password), Conflict (username) for a taken name, and as `accept`. Then there is no
    new account either.
    """
    invitation = find_invitation(token)
    _refuse(invitation)  # before the costly hash; `_join` decides
    user = User(username=_checked_username(username), email=invitation.email)
    _check_password(password, user)
    user.set_password(password)
    with unless_there(_taken(user.username)):
        user.save()
        record(
            "account.made",
            actor=user,
            project=invitation.project,
            kind="account",
            key=user.pk,
            name=user.username,
        )
        _join(invitation, user)
    return user


def _join(invitation: Invitation, user: User) -> None:
    """Inside a transaction. The project's lock keeps the inviter's role as it is until the commit."""
    project = invitation.project
    lock(project)
    invitation.refresh_from_db()
    _refuse(invitation)
    if Membership.objects.filter(project=project, user=user).exists():
        raise Conflict(f"You are a member of {project} already; the invitation stays open for somebody else.")
    now = timezone.now()
    usable = Invitation.objects.filter(
        pk=invitation.pk, accepted_at=None, revoked_at=None, expires_at__gt=now
    )
    if not usable.update(accepted_at=now, accepted_by=user):
        raise Conflict(WHY["accepted"])
    set_role(project, user, Role(invitation.role))
    _record("invitation.accepted", invitation, user, role=invitation.role)
    record(
        "member.added", actor=invitation.invited_by, project=project, kind="member", key=user.pk, name=user.username,
        role=invitation.role, invitation=invitation.pk,
    )  # fmt: skip


def _refuse(invitation: Invitation) -> None:
    why = why_refused(invitation, timezone.now())
    if why == WHY["no_admin"]:
        raise Forbidden(why)
    if why is not None:
        raise Conflict(why)


def _checked_email(email: str) -> str:
    if text := email.strip():
        try:
            validate_email(text)
        except ValidationError:
            raise InvalidInput("email", "This is no mail address.") from None
    return text


def _checked_username(username: str) -> str:
    text = username.strip()
    if not 1 <= len(text) <= MAX_USERNAME:
        raise InvalidInput("username", f"A name has 1 to {MAX_USERNAME} characters.")
    try:
        User.username_validator(text)
    except ValidationError:
        raise InvalidInput("username", "A name has letters, digits and @ . + - _ only.") from None
    if User.objects.filter(username__iexact=text).exists():
        raise _taken(text)
    return text


def _check_password(password: str, user: User) -> None:
    if len(password) > 1000:
        raise InvalidInput("password", "A password has at most 1,000 characters.")
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidInput("password", " ".join(error.messages)) from None


def _taken(username: str) -> Conflict:
    return Conflict(
        f"There is an account {username} already; choose another name, or sign in.", field="username"
    )


def _record(verb: str, invitation: Invitation, actor: User, **detail: Any) -> None:
    record(
        verb, actor=actor, project=invitation.project, kind="invitation", key=invitation.pk,
        name=invitation.email or "a link", **detail,
    )  # fmt: skip


def send_invitation(invitation: Invitation, url: str) -> bool | None:
    """True: handed to the mail server; False: it was not taken; None: no mail is set up, or no address is known.

    A mail server that is away does not undo the invitation: its link can be sent in another way.
    """
    if not settings.EMAIL_CONFIGURED or not invitation.email:
        return None
    inviter = invitation.invited_by.get_username() if invitation.invited_by else "Somebody"
    until = f"{invitation.expires_at:%-d %B %Y, %H:%M}"
    text = TEXT.format(
        inviter=inviter, project=invitation.project, role=invitation.role, url=url, until=until
    )
    subject = " ".join(f"{inviter} invites you to {invitation.project}".split())
    try:
        return send_mail(subject, text, None, [invitation.email]) == 1
    except Exception as error:  # whatever the mail server or the network raises
        log.warning("an invitation could not be mailed: %s", type(error).__name__)
        return False
