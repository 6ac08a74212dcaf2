"""Pages as MLflow's clients turn them: a token that says where the next one begins."""

import base64
import binascii
from typing import Any

from django.db.models import QuerySet

from webapp.base.errors import InvalidInput


def page(found: QuerySet[Any], token: str, most: int) -> tuple[list[Any], dict[str, str]]:
    """`most` rows from where the token says, and `next_page_token` where there are more. Raises InvalidInput."""
    first = _first(token)
    rows = list(found[first : first + most + 1])
    if len(rows) <= most:
        return rows, {}
    following = base64.urlsafe_b64encode(str(first + most).encode()).decode()
    return rows[:most], {"next_page_token": following}


def _first(token: str) -> int:
    if not token:
        return 0
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    if not text.isdigit() or len(text) > 9:
        raise InvalidInput("page_token", "page_token is none that this server gave.")
    return int(text)
