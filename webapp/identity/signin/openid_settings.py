"""Sign-in with OpenID Connect: what the environment says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def openid_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """HEADROOM_OIDC_ISSUER, _CLIENT_ID, _CLIENT_SECRET (or _CLIENT_SECRET_FILE), _NAME, _ALLOWED_DOMAINS,
    _DEFAULT_PROJECT, _DEFAULT_ROLE, as fields of `webapp.identity.signin.openid_provider.Configuration`.

    Empty without an issuer or a client id. Raises OSError for a file that cannot be read.
    """

    def of(name: str, otherwise: str = "") -> str:
        return environment.get(f"HEADROOM_OIDC_{name}", "").strip() or otherwise

    if not of("ISSUER") or not of("CLIENT_ID"):
        return {}
    file = of("CLIENT_SECRET_FILE")
    domains = (domain.strip().lower() for domain in of("ALLOWED_DOMAINS").split(","))
    return {
        "issuer": of("ISSUER"),
        "client_id": of("CLIENT_ID"),
        "client_secret": Path(file).read_text().strip() if file else of("CLIENT_SECRET"),
        "name": of("NAME", "OpenID"),
        "allowed_domains": tuple(domain for domain in domains if domain),
        "default_project": of("DEFAULT_PROJECT"),
        "default_role": of("DEFAULT_ROLE", "viewer"),
    }
