"""Addresses and secrets of channels are stored encrypted: whoever reads the database alone cannot post to them."""

from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

from webapp.base.keys import fernet

PURPOSE = b"headroom alert channels"


class Unreadable(Exception):
    """What was sealed cannot be opened: the server's secret key is another one now."""


def seal(text: str) -> str:
    """The text encrypted and authenticated (Fernet)."""
    return _box(settings.SECRET_KEY).encrypt(text.encode()).decode()


def unseal(sealed: str) -> str:
    """What was sealed. Raises Unreadable."""
    try:
        return _box(settings.SECRET_KEY).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise Unreadable(
            "The stored address cannot be read: the server's secret key has changed. Enter it again."
        ) from None


@lru_cache(maxsize=4)
def _box(secret: str) -> Fernet:
    return fernet(secret, PURPOSE)
