"""Keys for encryption out of the installation's secret texts: one derivation, and another key for each purpose."""

import base64

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


def fernet(text: str, purpose: bytes) -> Fernet:
    """Fernet (AES-128-CBC with HMAC-SHA256) under the key that HKDF-SHA256 (RFC 5869) makes of a text for a purpose."""
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(text.encode())
    return Fernet(base64.urlsafe_b64encode(key))
