"""A passkey in software (WebAuthn level 3, ES256, attestation none), by the standard and not by the server's library.

What a browser's script would send, as JSON; `get` can be told to lie.
"""

import base64
import hashlib
import json
import secrets
import struct
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def cbor(value: Any) -> bytes:
    """Ints, bytes, texts and maps below 65536, as RFC 8949 has them."""
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    return _head(5, len(value)) + b"".join(cbor(key) + cbor(one) for key, one in value.items())


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    if number < 256:
        return bytes([major << 5 | 24, number])
    return bytes([major << 5 | 25]) + struct.pack(">H", number)


class SoftwareAuthenticator:
    """One discoverable credential for one origin."""

    def __init__(self, origin: str) -> None:
        self.origin, self.rp_id = origin, origin.partition("://")[2].partition(":")[0]
        self.key, self.id = ec.generate_private_key(ec.SECP256R1()), secrets.token_bytes(16)
        self.user_handle = b""

    def create(self, options: dict[str, Any]) -> dict[str, Any]:
        """The answer to `navigator.credentials.create`."""
        self.user_handle = unb64(options["user"]["id"])
        point = self.key.public_key().public_numbers()
        public = {1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32), -3: point.y.to_bytes(32)}
        attested = bytes(16) + struct.pack(">H", len(self.id)) + self.id + cbor(public)
        data = self._data(self.rp_id, PRESENT | VERIFIED | ATTESTED) + attested
        response = {
            "clientDataJSON": b64(self._client("webauthn.create", options["challenge"], self.origin)),
            "attestationObject": b64(cbor({"fmt": "none", "attStmt": {}, "authData": data})),
        }
        return self._credential(response) | {"clientExtensionResults": {"credProps": {"rk": True}}}

    def get(
        self, options: dict[str, Any], *, verified: bool = True, origin: str | None = None, rp_id: str | None = None,
        challenge: str | None = None, kind: str = "webauthn.get", signature: bytes | None = None,
        user_handle: bytes | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The answer to `navigator.credentials.get`."""
        data = self._data(rp_id or self.rp_id, PRESENT | (VERIFIED if verified else 0))
        client = self._client(kind, challenge or options["challenge"], origin or self.origin)
        signed = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(SHA256()))
        return self._credential({
            "clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(signature or signed),
            "userHandle": b64(user_handle or self.user_handle),
        })  # fmt: skip

    def _data(self, rp_id: str, flags: int) -> bytes:
        return hashlib.sha256(rp_id.encode()).digest() + bytes([flags]) + struct.pack(">I", 0)

    def _client(self, kind: str, challenge: str, origin: str) -> bytes:
        return json.dumps(
            {"type": kind, "challenge": challenge, "origin": origin, "crossOrigin": False}
        ).encode()

    def _credential(self, response: dict[str, str]) -> dict[str, Any]:
        name = b64(self.id)
        return {
            "type": "public-key",
            "id": name,
            "rawId": name,
            "response": response,
            "clientExtensionResults": {},
        }
