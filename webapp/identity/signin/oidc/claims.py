"""Checking an ID token (OpenID Connect Core 1.0, section 3.1.3.7): pure, given the provider's keys."""

import re
import time
from dataclasses import dataclass
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from webapp.identity.signin.oidc.provider import NotAccepted

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


@dataclass(frozen=True)
class Expected:
    """What the token must say."""

    issuer: str
    client_id: str
    nonce: str


def header_of(token: str) -> dict[str, Any]:
    """The header, unchecked: it only says which key to look for. Raises NotAccepted."""
    from joserfc import jws

    try:
        return dict(jws.extract_compact(token.encode()).headers())
    except (JoseError, ValueError, UnicodeError) as error:
        raise NotAccepted("The provider's token cannot be read.") from error


def checked(token: str, keys: KeySet, expected: Expected, now: float | None = None) -> dict[str, Any]:
    """The claims of a token that passes every check. Raises NotAccepted."""
    now = time.time() if now is None else now
    try:
        claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise NotAccepted("The signature of the provider's token is not good.") from error
    for passed, words in (
        (claims.get("iss") == expected.issuer, "was made by another provider"),
        (_is_for(claims, expected.client_id), "was made for another application"),
        (_is_number(claims.get("exp")) and claims["exp"] > now - SKEW_S, "has expired"),
        (_is_number(claims.get("iat")) and now - OLDEST_S <= claims["iat"] <= now + SKEW_S, "is not of now"),
        (_not_before(claims, now), "is not of now"),
        (claims.get("nonce") == expected.nonce, "answers another question"),
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
