"""Encryption and keyed digests under the installation's SECRET_KEY: what a copy of the database alone does not open."""

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.crypto import salted_hmac

PURPOSE = b"headroom two-factor"


class CannotOpen(Exception):
    """It was sealed under another SECRET_KEY."""


def _fernet() -> MultiFernet:
    keys = (hashlib.sha256(PURPOSE + b"\0" + key.encode()).digest() for key in _secret_keys())
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in keys])


def _secret_keys() -> list[str]:
    """The key in force, then those before it."""
    return [str(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


def seal(raw: bytes) -> str:
    """`raw` encrypted and authenticated, as text."""
    return _fernet().encrypt(raw).decode()


def unseal(sealed: str) -> bytes:
    """What was sealed. Raises CannotOpen."""
    try:
        return _fernet().decrypt(sealed.encode())
    except InvalidToken as error:
        raise CannotOpen from error


def keyed_digest(text: str, secret: str | None = None) -> str:
    """HMAC-SHA-256 of a text, 64 hexadecimal digits."""
    return salted_hmac("headroom recovery code", text, secret=secret, algorithm="sha256").hexdigest()


def keyed_digests(text: str) -> list[str]:
    """The digests under the key in force and under the ones before it."""
    return [keyed_digest(text, key) for key in _secret_keys()]
