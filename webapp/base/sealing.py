"""Encryption under the installation's secret texts: what a copy of the database alone does not open.

Fernet (AES-128-CBC with HMAC-SHA256) under keys that HKDF-SHA256 (RFC 5869) makes of a text, another for each purpose.
"""

import base64
from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

ADDRESSES = (
    b"headroom alert channels"  # of channels and of the places that are imported from, with their secrets
)


class Unreadable(Exception):
    """What was sealed cannot be opened: the server's secret key is another one now."""


def box(purpose: bytes, texts: Sequence[str] = ()) -> MultiFernet:
    """Encrypts under the first of the texts, decrypts what was encrypted under any: without texts, SECRET_KEY and
    SECRET_KEY_FALLBACKS."""
    texts = texts or [str(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]
    return MultiFernet([_fernet(text, purpose) for text in texts])


def _fernet(text: str, purpose: bytes) -> Fernet:
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(text.encode())
    return Fernet(base64.urlsafe_b64encode(key))


def seal(text: str) -> str:
    """An address or its secret, encrypted and authenticated."""
    return box(ADDRESSES).encrypt(text.encode()).decode()


def unseal(sealed: str) -> str:
    """What was sealed. Raises Unreadable."""
    try:
        return box(ADDRESSES).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise Unreadable(
            "The stored address cannot be read: the server's secret key has changed. Enter it again."
        ) from None
