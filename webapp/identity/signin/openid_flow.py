"""The walk to the provider and back: what is asked is kept in the session, and an answer is taken once.

From claims to an account: found by (issuer, subject), never by a mail address; linked by its owner; or made.
"""

import base64
import hashlib
import logging
import re
import secrets
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote, urlencode

from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from webapp.base.errors import Conflict
from webapp.identity.accounts.log import record_account
from webapp.identity.accounts.models import Project, User
from webapp.identity.accounts.services import put_member
from webapp.identity.signin.models import Identity
from webapp.identity.signin.openid_provider import (
    NotAccepted,
    Provider,
    ProviderFailed,
    checked,
    fetch_json,
    header_of,
    keys,
    provider,
)
from webapp.identity.signin.openid_settings import Configuration

ASKED = "oidc_asked"
ASKED_FOR_S = 600
MOST_ASKED = 5  # tabs
SCOPE = "openid email profile"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SignInRequest:
    """A question that is under way. `links`: it is to link this account (its id), not to sign in."""

    issuer: str
    nonce: str
    verifier: str
    next: str
    links: int | None
    since: float


def ask(request: HttpRequest, it: Configuration, *, next_url: str, links: int | None) -> str:
    """The provider's address to lead the browser to. Raises ProviderFailed."""
    found = provider(it.issuer)
    state = secrets.token_urlsafe(32)
    asked = SignInRequest(
        issuer=it.issuer,
        nonce=secrets.token_urlsafe(32),
        verifier=secrets.token_urlsafe(48),
        next=next_url,
        links=links,
        since=timezone.now().timestamp(),
    )
    waiting = {**request.session.get(ASKED, {}), state: asdict(asked)}
    request.session[ASKED] = dict(list(waiting.items())[-MOST_ASKED:])
    challenge = base64.urlsafe_b64encode(hashlib.sha256(asked.verifier.encode()).digest()).rstrip(b"=")
    query = {
        "response_type": "code",
        "client_id": it.client_id,
        "redirect_uri": redirect_uri(request),
        "scope": SCOPE,
        "state": state,
        "nonce": asked.nonce,
        "code_challenge": challenge.decode(),
        "code_challenge_method": "S256",
    }
    joint = "&" if "?" in found.authorization_endpoint else "?"
    return found.authorization_endpoint + joint + urlencode(query)


def redirect_uri(request: HttpRequest) -> str:
    """Where the provider sends people back to."""
    return request.build_absolute_uri(reverse("openid-callback"))


def answer(request: HttpRequest, it: Configuration) -> tuple[SignInRequest, dict[str, Any]]:
    """The question that this request answers, and the checked claims. Raises NotAccepted, ProviderFailed.

    The question is taken out of the session first: whatever comes of it, no second answer to it is read.
    """
    asked = _take(request, request.GET.get("state", ""))
    if asked.issuer != it.issuer:
        raise NotAccepted("The provider was changed meanwhile. Begin again.")
    found = provider(it.issuer)
    told = request.GET.get("iss")
    if (found.names_itself and told is None) or (told is not None and told != it.issuer):
        raise NotAccepted("The answer is another provider's.")
    if "error" in request.GET:
        raise NotAccepted("The provider did not sign you in.")
    if not (code := request.GET.get("code")):
        raise NotAccepted("The provider's answer holds no code.")
    tokens = _exchange(request, it, found, code, asked)
    if not isinstance(token := tokens.get("id_token"), str):
        raise NotAccepted("The provider's answer holds no token.")
    claims = checked(token, keys(found, header_of(token).get("kid")), it, asked.nonce)
    return asked, _with_userinfo(found, claims, tokens.get("access_token"))


def _take(request: HttpRequest, state: str) -> SignInRequest:
    waiting = dict(request.session.get(ASKED, {}))
    stored = waiting.pop(state, None)
    request.session[ASKED] = waiting
    if stored is None or timezone.now().timestamp() - stored["since"] > ASKED_FOR_S:
        raise NotAccepted("This answer belongs to no sign-in that was begun here. Begin again.")
    return SignInRequest(**stored)


def _exchange(
    request: HttpRequest, it: Configuration, found: Provider, code: str, asked: SignInRequest
) -> dict[str, Any]:
    """The code for tokens (OpenID Connect Core 1.0, section 3.1.3)."""
    data = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri(request),
        "code_verifier": asked.verifier,
    }
    headers = {"Accept": "application/json"}
    if found.token_auth == "client_secret_basic" and it.client_secret:
        pair = f"{quote(it.client_id, safe='')}:{quote(it.client_secret, safe='')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    else:
        data |= {"client_id": it.client_id} | (
            {"client_secret": it.client_secret} if it.client_secret else {}
        )
    tokens = fetch_json("POST", found.token_endpoint, data=data, headers=headers)
    if not isinstance(tokens, dict):
        raise ProviderFailed("The provider's answer cannot be read.")
    return tokens


def _with_userinfo(found: Provider, claims: dict[str, Any], access_token: Any) -> dict[str, Any]:
    """Name and mail address are in the token, or else told by the userinfo endpoint, of the same subject."""
    if "email" in claims or not found.userinfo_endpoint or not isinstance(access_token, str):
        return claims
    told = fetch_json("GET", found.userinfo_endpoint, headers={"Authorization": f"Bearer {access_token}"})
    if not isinstance(told, dict) or told.get("sub") != claims["sub"]:
        raise NotAccepted("The provider told of somebody else.")
    names = ("email", "email_verified", "preferred_username", "given_name", "family_name", "name")
    return {name: told[name] for name in names if name in told} | claims


def account_of(it: Configuration, claims: dict[str, Any]) -> User:
    """The account of this identity, made where it is new. Raises NotAccepted."""
    email = verified_email(claims)
    _refuse_foreign_domain(it, email)
    if (known := _known(it, claims)) is None:
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
        if (known := _known(it, claims)) is None:
            raise NotAccepted("The account could not be made. Try again.") from error
        return known


def _join(it: Configuration, user: User) -> None:
    """What the operator gives to new people. A project that is not there keeps nobody out, but the log tells of it."""
    if not it.default_project:
        return
    if (project := Project.objects.filter(slug=it.default_project).first()) is None:
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
