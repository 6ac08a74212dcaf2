"""The walk to the provider and back: what is asked is kept in the session, and an answer is taken once."""

import base64
import hashlib
import secrets
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote, urlencode

from django.http import HttpRequest
from django.utils import timezone

from webapp.identity.signin.oidc.claims import Expected, checked, header_of
from webapp.identity.signin.oidc.provider import (
    Configuration,
    NotAccepted,
    Provider,
    ProviderFailed,
    fetch_json,
    keys,
    provider,
)

ASKED = "oidc_asked"
ASKED_FOR_S = 600
MOST_ASKED = 5  # tabs
SCOPE = "openid email profile"


@dataclass(frozen=True)
class Asked:
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
    state, asked = secrets.token_urlsafe(32), _new_question(it, next_url, links)
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


def _new_question(it: Configuration, next_url: str, links: int | None) -> Asked:
    return Asked(
        issuer=it.issuer,
        nonce=secrets.token_urlsafe(32),
        verifier=secrets.token_urlsafe(48),
        next=next_url,
        links=links,
        since=timezone.now().timestamp(),
    )


def redirect_uri(request: HttpRequest) -> str:
    """Where the provider sends people back to."""
    from django.urls import reverse

    return request.build_absolute_uri(reverse("openid-callback"))


def answer(request: HttpRequest, it: Configuration) -> tuple[Asked, dict[str, Any]]:
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
    code = request.GET.get("code")
    if not code:
        raise NotAccepted("The provider's answer holds no code.")
    tokens = _exchange(request, it, found, code, asked)
    claims = _claims(found, it, tokens.get("id_token"), asked)
    return asked, _with_userinfo(found, claims, tokens.get("access_token"))


def _take(request: HttpRequest, state: str) -> Asked:
    waiting = dict(request.session.get(ASKED, {}))
    stored = waiting.pop(state, None)
    request.session[ASKED] = waiting
    if stored is None or timezone.now().timestamp() - stored["since"] > ASKED_FOR_S:
        raise NotAccepted("This answer belongs to no sign-in that was begun here. Begin again.")
    return Asked(**stored)


def _exchange(
    request: HttpRequest, it: Configuration, found: Provider, code: str, asked: Asked
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


def _claims(found: Provider, it: Configuration, token: Any, asked: Asked) -> dict[str, Any]:
    if not isinstance(token, str):
        raise NotAccepted("The provider's answer holds no token.")
    kid = header_of(token).get("kid")
    return checked(token, keys(found, kid), Expected(it.issuer, it.client_id, asked.nonce))


def _with_userinfo(found: Provider, claims: dict[str, Any], access_token: Any) -> dict[str, Any]:
    """Name and mail address are in the token, or else told by the userinfo endpoint, of the same subject."""
    if "email" in claims or not found.userinfo_endpoint or not isinstance(access_token, str):
        return claims
    told = fetch_json("GET", found.userinfo_endpoint, headers={"Authorization": f"Bearer {access_token}"})
    if not isinstance(told, dict) or told.get("sub") != claims["sub"]:
        raise NotAccepted("The provider told of somebody else.")
    names = ("email", "email_verified", "preferred_username", "given_name", "family_name", "name")
    return {name: told[name] for name in names if name in told} | claims
