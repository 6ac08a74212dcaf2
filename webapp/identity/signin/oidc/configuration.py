"""Which provider, out of the settings.

Why nobody is signed in by the provider.
"""

from dataclasses import dataclass
from typing import Any

from django.conf import settings

from webapp.identity.accounts.models import User


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


class ProviderFailed(Exception):
    """The provider cannot be reached or its words cannot be used. The text may be shown."""


class NotAccepted(Exception):
    """The answer is not one to a question of this session, or it does not say who this is. The text may be shown.

    `account` is the one that would have been opened, where it is known: for the audit log, not for the page.
    """

    def __init__(self, text: str, account: User | None = None) -> None:
        super().__init__(text)
        self.account = account
