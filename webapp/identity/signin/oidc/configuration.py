"""Which provider, out of the settings."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings


@dataclass(frozen=True)
class Configuration:
    """`settings.OIDC` (HEADROOM_OIDC_...): the provider and what its people get here."""

    issuer: str
    client_id: str
    client_secret: str
    name: str
    allowed_domains: tuple[str, ...] = ()
    default_project: str = ""
    default_role: str = "viewer"


def configuration() -> Configuration | None:
    """The provider in force; None where there is none."""
    stored: dict[str, Any] = settings.OIDC
    if not stored.get("issuer") or not stored.get("client_id"):
        return None
    return Configuration(**stored)
