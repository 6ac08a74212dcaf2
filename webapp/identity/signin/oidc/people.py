"""From claims to an account: found by (issuer, subject), never by a mail address; linked by its owner; or made."""

import logging
import re
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from webapp.base.errors import Conflict
from webapp.identity.accounts.log import record_account
from webapp.identity.accounts.models import Project, User
from webapp.identity.accounts.services import put_member
from webapp.identity.signin.models import Identity
from webapp.identity.signin.oidc.provider import Configuration, NotAccepted

log = logging.getLogger(__name__)


def account_of(it: Configuration, claims: dict[str, Any]) -> User:
    """The account of this identity, made where it is new. Raises NotAccepted."""
    email = verified_email(claims)
    _refuse_foreign_domain(it, email)
    known = _known(it, claims)
    if known is None:
        theirs = User.objects.filter(email__iexact=email).first() if email else None
        if theirs is not None:
            raise NotAccepted(
                "There is an account with your mail address already. Sign in to it as before, and link "
                f"{it.name} on your account page.",
                theirs,
            )
        known = _make(it, claims, email)
    if not known.user.is_active:
        raise NotAccepted("This account is closed.", known.user)
    Identity.objects.filter(pk=known.pk).update(last_used_at=timezone.now(), label=label_of(claims))
    return known.user


def _known(it: Configuration, claims: dict[str, Any]) -> Identity | None:
    found = Identity.objects.select_related("user")
    return found.filter(issuer=it.issuer, subject=claims["sub"]).first()


def verified_email(claims: dict[str, Any]) -> str:
    """The mail address, if the provider vouches for it and it is one; else nothing: anybody can claim one."""
    email = claims.get("email")
    usable = isinstance(email, str) and re.fullmatch(r"[^@\s\0]+@[^@\s\0]+", email) and len(email) <= 254
    return str(email) if usable and claims.get("email_verified") is True else ""


def _refuse_foreign_domain(it: Configuration, email: str) -> None:
    if it.allowed_domains and email.rpartition("@")[2].lower() not in it.allowed_domains:
        raise NotAccepted(
            "Sign-in is for verified mail addresses of certain domains, and yours is none of them."
        )


def label_of(claims: dict[str, Any]) -> str:
    """What the owner knows the identity by."""
    named = claims.get("preferred_username")
    return (verified_email(claims) or (named if isinstance(named, str) else "") or claims["sub"])[
        :254
    ].replace("\0", "")


def _make(it: Configuration, claims: dict[str, Any], email: str) -> Identity:
    """An account without a password. Two sign-ins at once make one."""
    try:
        with transaction.atomic():
            user = _new_user(claims, email)
            made = Identity.objects.create(
                user=user, issuer=it.issuer, subject=claims["sub"], label=label_of(claims)
            )
            _join(it, user)
            record_account("account.made", user, actor=user, how=it.name)
        return made
    except IntegrityError as error:
        known = _known(it, claims)
        if known is None:
            raise NotAccepted("The account could not be made. Try again.") from error
        return known


def _join(it: Configuration, user: User) -> None:
    """What the operator gives to new people. A project that is not there keeps nobody out, but the log tells of it."""
    if not it.default_project:
        return
    project = Project.objects.filter(slug=it.default_project).first()
    if project is None:
        log.error("HEADROOM_OIDC_DEFAULT_PROJECT: there is no project %r", it.default_project)
        return
    put_member(project, user, it.default_role)


def _new_user(claims: dict[str, Any], email: str) -> User:
    user = User(
        username=_free_name(claims, email),
        email=email,
        first_name=_words(claims.get("given_name")),
        last_name=_words(claims.get("family_name")),
    )
    user.set_unusable_password()
    user.save()
    return user


def _words(value: Any) -> str:
    return value.replace("\0", "")[:150] if isinstance(value, str) else ""


def _free_name(claims: dict[str, Any], email: str) -> str:
    """The preferred name, in letters that a name may have; with a number where somebody has it."""
    wanted = claims.get("preferred_username")
    wanted = wanted if isinstance(wanted, str) and wanted else email.partition("@")[0]
    name = re.sub(r"[^\w.@+-]", "", wanted)[:140] or "member"
    taken = set(User.objects.filter(username__istartswith=name).values_list("username", flat=True))
    lower = {one.lower() for one in taken}
    return next(
        one for one in (name, *(f"{name}{n}" for n in range(2, len(lower) + 3))) if one.lower() not in lower
    )


@transaction.atomic
def link(it: Configuration, user: User, claims: dict[str, Any]) -> None:
    """Let this identity sign in as `user`. Raises Conflict where it is somebody else's, NotAccepted by domain."""
    _refuse_foreign_domain(it, verified_email(claims))
    made, is_new = Identity.objects.get_or_create(
        issuer=it.issuer, subject=claims["sub"], defaults={"user": user, "label": label_of(claims)}
    )
    if made.user_id != user.pk:
        raise Conflict("This identity signs in to another account. Unlink it there first.")
    if is_new:
        record_account("identity.linked", user, actor=user, provider=it.name)


@transaction.atomic
def unlink(user: User, identity: Identity) -> None:
    """The identity signs in no more. Raises Conflict where it is the only way in."""
    User.objects.select_for_update().get(pk=user.pk)  # two tabs
    others = Identity.objects.filter(user=user).exclude(pk=identity.pk).exists()
    if not user.has_usable_password() and not others:
        raise Conflict("This is your only way to sign in. Have a password set first.")
    if identity.delete()[0]:
        record_account("identity.unlinked", user, actor=user)
