"""Addresses that are keys: whoever reads a log must not be able to use what it shows.

Shared links, invitations, links for a new password, and the codes that OpenID providers send back.
"""

import logging
import re

HIDDEN = "[hidden]"
_KEYS = re.compile(
    r"(?P<kept>/(?:s|r|embed|invitations)/)[\w-]{8,}"
    r"|(?P<mail>/password/)(?!forgotten)[\w-]+/[\w-]+"
    r"|(?P<query>[?&](?:code|state|token|key)=)[^&\s\"\']+"
)


def redacted(text: str) -> str:
    """The text without the keys in its addresses."""
    return _KEYS.sub(_hidden, text)


def _hidden(match: re.Match[str]) -> str:
    kept = match["kept"] or match["mail"] or match["query"]
    return f"{kept}{HIDDEN}"


class Redacting(logging.Filter):
    """Of a handler: what it writes has no keys."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if (hidden := redacted(text)) != text:
            record.msg, record.args = hidden, ()
        return True
