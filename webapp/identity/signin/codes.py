"""Six-digit codes of an authenticator app (TOTP, RFC 6238: SHA-1, 30 s, 6 digits) and recovery codes: no database."""

import base64
import re
import secrets
import time
from urllib.parse import quote, urlencode

import segno
from django_otp.oath import TOTP

STEP_S = 30
TOLERANCE = 1  # steps to either side: clocks differ, and typing takes time
RECOVERY_CODES = 10
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without letters that look like others
ISSUER = "Headroom"


def new_key() -> bytes:
    """20 random bytes, as RFC 4226 recommends."""
    return secrets.token_bytes(20)


def key_text(key: bytes) -> str:
    """The key as apps take it when it is typed: base32 in groups of four."""
    text = base64.b32encode(key).decode().rstrip("=").lower()
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


def key_uri(key: bytes, username: str) -> str:
    """The `otpauth:` address that apps read from a picture."""
    label = quote(f"{ISSUER}:{username}")
    return f"otpauth://totp/{label}?" + urlencode(
        {"secret": base64.b32encode(key).decode().rstrip("="), "issuer": ISSUER}
    )


def picture(uri: str) -> str:
    """A QR code as a `data:` address of an SVG, dark on white whatever the theme: cameras want that."""
    return segno.make(uri, error="m").svg_data_uri(scale=5, border=4, dark="#000", light="#fff")


def matching_step(key: bytes, code: str, after: int, now: float | None = None) -> int | None:
    """The time step whose code this is, newer than `after`; None for a wrong code or one that was used."""
    if not re.fullmatch(r"\d{6}", code, re.ASCII):
        return None
    totp = TOTP(key, STEP_S)
    totp.time = time.time() if now is None else now
    # From the oldest step on, so that each code can be used once and none after a newer one.
    if totp.verify(int(code), tolerance=TOLERANCE, min_t=after + 1):
        return int(totp.t())
    return None


def code_at(key: bytes, now: float | None = None) -> str:
    """The code of a moment (now): what an app shows."""
    totp = TOTP(key, STEP_S)
    totp.time = time.time() if now is None else now
    return f"{totp.token():06d}"


def new_recovery_codes() -> list[str]:
    """Ten codes of 16 letters: 79 random bits each, more than can be searched."""
    return [
        "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(4))
        for _ in range(RECOVERY_CODES)
    ]


def normal(code: str) -> str:
    """A code as typed, without what people put between: spaces and hyphens; lower case."""
    return re.sub(r"[\s-]", "", code).lower()
