"""An authenticator app as RFC 6238 has it (SHA-1, 30 s, six digits), written apart from what the server uses."""

import base64
import hmac
import secrets
import struct
import time

STEP_S = 30


def new_secret() -> str:
    return base64.b32encode(secrets.token_bytes(20)).decode()


def code_at(secret: str, now: float | None = None) -> str:
    """The code of a moment (now)."""
    counter = int(time.time() if now is None else now) // STEP_S
    digest = hmac.digest(base64.b32decode(secret), struct.pack(">Q", counter), "sha1")
    at = digest[-1] & 15
    return f"{(int.from_bytes(digest[at : at + 4]) & 0x7FFFFFFF) % 10**6:06d}"


class App:
    """Shows the code of now, and, as time goes by, of later steps."""

    def __init__(self, secret: str | None = None) -> None:
        self.secret, self.steps = secret or new_secret(), 0
        self.recovery: list[str] = []

    def code(self) -> str:
        return code_at(self.secret, time.time() + self.steps * STEP_S)

    def next(self) -> str:
        """The code of the next step; the server takes one step ahead of its clock."""
        self.steps += 1
        return self.code()


def enrolled(user) -> App:
    """An app of this person, as the page would have enrolled it now; `recovery` are the recovery codes."""
    from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
    from allauth.mfa.totp.internal.auth import TOTP

    app = App()
    TOTP.activate(user, app.secret)
    app.recovery = RecoveryCodes.activate(user).generate_codes()
    return app
