"""Sign-in with OpenID Connect: what the environment says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Configuration:
    """The provider and what its people get here."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str
    allowed_domains: tuple[str, ...]
    default_project: str
    default_role: str


def openid_settings(environment: Mapping[str, str]) -> Configuration | None:
    """HEADROOM_OIDC_ISSUER, _CLIENT_ID, _CLIENT_SECRET (or _CLIENT_SECRET_FILE), _NAME, _ALLOWED_DOMAINS,
    _DEFAULT_PROJECT, _DEFAULT_ROLE.

    None without an issuer or a client id. Raises OSError for a file that cannot be read.
    """

    def of(name: str, otherwise: str = "") -> str:
        return environment.get(f"HEADROOM_OIDC_{name}", "").strip() or otherwise

    if not of("ISSUER") or not of("CLIENT_ID"):
        return None
    file = of("CLIENT_SECRET_FILE")
    domains = (domain.strip().lower() for domain in of("ALLOWED_DOMAINS").split(","))
    return Configuration(
        issuer=of("ISSUER"),
        client_id=of("CLIENT_ID"),
        client_secret=Path(file).read_text().strip() if file else of("CLIENT_SECRET"),
        name=of("NAME", "OpenID"),
        allowed_domains=tuple(domain for domain in domains if domain),
        default_project=of("DEFAULT_PROJECT"),
        default_role=of("DEFAULT_ROLE", "viewer"),
    )
