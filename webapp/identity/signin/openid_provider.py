"""The provider's own words: its addresses (discovery) and its keys, kept for ten minutes in each process.

Which provider, out of the settings.

Why nobody is signed in by the provider.

Checking an ID token (OpenID Connect Core 1.0, section 3.1.3.7): pure, given the provider's keys.
"""

import logging
import re
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from django.conf import settings
from django.core.cache import cache
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from webapp.base import outbound
from webapp.identity.accounts.models import User
from webapp.identity.signin.openid_settings import Configuration

log = logging.getLogger(__name__)
KEPT_S = 600
KEYS_AGAIN_AFTER_S = 30  # a token with an unknown key makes us look again, but not at every attempt
# Signatures with the provider's public keys only: neither `none` nor those with a shared secret (HS...).
ALGORITHMS = [
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
]
SKEW_S = 60  # how far the clocks may be apart
OLDEST_S = 600  # a token is read right after it was made


def configuration() -> Configuration | None:
    """The provider in force; None where there is none."""
    return settings.OIDC


class ProviderFailed(Exception):
    """The provider cannot be reached or its words cannot be used. The text may be shown."""


class NotAccepted(Exception):
    """The answer is not one to a question of this session, or it does not say who this is. The text may be shown.

    `account` is the one that would have been opened, where it is known: for the audit log, not for the page.
    """

    def __init__(self, text: str, account: User | None = None) -> None:
        super().__init__(text)
        self.account = account


@dataclass(frozen=True)
class Provider:
    """Addresses out of the discovery document (OpenID Connect Discovery 1.0, section 3)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    token_auth: str  # client_secret_basic or client_secret_post
    names_itself: bool  # RFC 9207: its answers carry `iss`


def provider(issuer: str) -> Provider:
    """The provider with this issuer. Raises ProviderFailed."""
    return cast(Provider, cache.get_or_set(f"oidc:{issuer}", partial(_discover, issuer), KEPT_S))


def _discover(issuer: str) -> Provider:
    found = fetch_json("GET", issuer.rstrip("/") + "/.well-known/openid-configuration")
    if not isinstance(found, dict) or found.get("issuer") != issuer:
        raise ProviderFailed("The provider calls itself by another name than the one that is configured.")
    try:
        ways = found.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        made = Provider(
            issuer=issuer,
            authorization_endpoint=found["authorization_endpoint"],
            token_endpoint=found["token_endpoint"],
            jwks_uri=found["jwks_uri"],
            userinfo_endpoint=found.get("userinfo_endpoint"),
            token_auth="client_secret_basic" if "client_secret_basic" in ways else "client_secret_post",
            names_itself=found.get("authorization_response_iss_parameter_supported") is True,
        )
        for url in (made.authorization_endpoint, made.token_endpoint, made.jwks_uri):
            outbound.check_url(url)
    except (KeyError, TypeError, AttributeError, outbound.Refused) as error:
        raise ProviderFailed("The provider's description of itself cannot be used.") from error
    return made


def keys(found: Provider, kid: str | None) -> KeySet:
    """The provider's public keys; fetched anew where `kid` is not among those known. Raises ProviderFailed."""
    at, recently = f"oidc-keys:{found.jwks_uri}", f"oidc-keys-fetched:{found.jwks_uri}"
    stored = cache.get(at)
    if stored is None or (not _has(stored, kid) and not cache.get(recently)):
        stored = fetch_json("GET", found.jwks_uri)
        cache.set(at, stored, KEPT_S)
        cache.set(recently, True, KEYS_AGAIN_AFTER_S)
    try:
        # Public keys for signatures only: a symmetric one in a public document is nobody's secret.
        public = [
            key
            for key in stored["keys"]
            if key.get("kty") in ("RSA", "EC", "OKP") and key.get("use", "sig") == "sig"
        ]
        return KeySet.import_key_set({"keys": public})
    except (KeyError, TypeError, AttributeError, ValueError, JoseError) as error:
        raise ProviderFailed("The provider's keys cannot be read.") from error


def _has(stored: Any, kid: str | None) -> bool:
    found = stored.get("keys", []) if isinstance(stored, dict) else []
    return kid is None or any(isinstance(key, dict) and key.get("kid") == kid for key in found)


def fetch_json(method: str, url: str, **options: Any) -> Any:
    """A JSON answer with status 200 from the provider. Raises ProviderFailed."""
    try:
        answer = outbound.request(method, url, **options)
        if answer.status != 200:
            log.warning("OpenID: %s answered with status %s: %r", url, answer.status, answer.body[:200])
            raise ProviderFailed(f"The provider answered with status {answer.status}.")
        return answer.json()
    except (outbound.Refused, outbound.Failed) as error:
        log.warning("OpenID: %s: %s", url, error)
        raise ProviderFailed(str(error)) from error


def header_of(token: str) -> dict[str, Any]:
    """The header, unchecked: it only says which key to look for. Raises NotAccepted."""
    try:
        return dict(jws.extract_compact(token.encode()).headers())
    except (JoseError, ValueError, UnicodeError) as error:
        raise NotAccepted("The provider's token cannot be read.") from error


def checked(token: str, keys: KeySet, it: Configuration, nonce: str) -> dict[str, Any]:
    """The claims of a token that passes every check. Raises NotAccepted."""
    now = time.time()
    try:
        claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise NotAccepted("The signature of the provider's token is not good.") from error
    for passed, words in (
        (claims.get("iss") == it.issuer, "was made by another provider"),
        (_is_for(claims, it.client_id), "was made for another application"),
        (_is_number(claims.get("exp")) and claims["exp"] > now - SKEW_S, "has expired"),
        (_is_number(claims.get("iat")) and now - OLDEST_S <= claims["iat"] <= now + SKEW_S, "is not of now"),
        (_not_before(claims, now), "is not of now"),
        (claims.get("nonce") == nonce, "answers another question"),
        (_is_subject(claims.get("sub")), "names nobody"),
    ):
        if not passed:
            raise NotAccepted(f"The provider's token {words}.")
    return claims


def _is_for(claims: dict[str, Any], client_id: str) -> bool:
    """`aud` names us, nobody whom we do not trust besides, and `azp`, if it is there, is us."""
    audience = claims.get("aud")
    if audience != client_id and audience != [client_id]:
        return False
    return claims.get("azp", client_id) == client_id


def _not_before(claims: dict[str, Any], now: float) -> bool:
    return "nbf" not in claims or (_is_number(claims["nbf"]) and claims["nbf"] <= now + SKEW_S)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_subject(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[\x20-\x7e]{1,255}", value) is not None
