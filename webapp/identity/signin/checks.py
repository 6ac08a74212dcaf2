"""What `manage.py check` says of a provider that is half configured."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from webapp.identity.accounts.models import Role


@register()
def openid(**_: Any) -> list[CheckMessage]:
    """The role of new people must be one; it would only be found out when the first of them signs in."""
    role = settings.OIDC.get("default_role", Role.VIEWER)
    if role in Role.values:
        return []
    return [Error(f"HEADROOM_OIDC_DEFAULT_ROLE must be one of {', '.join(Role.values)}, not {role!r}.")]
