"""Codes of an app and recovery codes: each is taken once, and wrong ones make the next try wait.

django-allauth stores them and knows what they are. Which were taken it keeps in the cache of one process, and lets five
wrong ones in five minutes through: both stand in the database here.
"""

import time
from secrets import compare_digest
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from allauth.mfa.utils import decrypt, is_mfa_enabled
from django.conf import settings
from django.db import transaction
from django.utils.crypto import salted_hmac

from webapp.identity.accounts.models import User

KINDS = [
    Authenticator.Type.TOTP,
    Authenticator.Type.WEBAUTHN,
]  # without one of them recovery codes are for nothing
LONGEST_WAIT_S = 15 * 60
STEP_S = 30


class TooSoon(Exception):
    """After wrong codes the next try must wait. The text may be shown."""


def has_second_factor(user: User) -> bool:
    """Whether signing in with a password as this person takes more than that."""
    return is_mfa_enabled(user, KINDS)


def codes_left(user: User) -> int:
    """How many recovery codes are unused."""
    found = Authenticator.objects.filter(user=user, type=Authenticator.Type.RECOVERY_CODES).first()
    return len(found.wrap().get_unused_codes()) if found else 0


def take(user: User, code: str) -> Authenticator | None:
    """Whose code this is; that one never takes it again. None for a code of nothing. Raises TooSoon.

    Wrong codes in a row make the next try wait 1, 2, 4, ... seconds, up to 15 minutes.
    """
    with transaction.atomic():
        mine = Authenticator.objects.select_for_update().filter(user=user).order_by("pk")
        able = list(mine.exclude(type=Authenticator.Type.WEBAUTHN))
        if not able:
            return None
        _refuse_too_soon(able[0].data)
        taken = next((one for one in able if _takes(one, code)), None)
        failures = 0 if taken else able[0].data.get("failures", 0) + 1
        able[0].data |= {"failures": failures, "failed_at": None if taken else time.time()}
        for changed in {able[0], taken} - {None}:
            changed.save(update_fields=["data"])
    return taken


def _refuse_too_soon(counted: dict[str, Any]) -> None:
    if counted.get("failed_at") is None:
        return
    wait = min(2 ** min(counted["failures"] - 1, 12), LONGEST_WAIT_S)
    left = counted["failed_at"] + wait - time.time()
    if left > 0:
        raise TooSoon(f"Too many wrong codes. Try again in {int(left) + 1} s.")


def _takes(one: Authenticator, code: str) -> bool:
    if one.type == Authenticator.Type.RECOVERY_CODES:
        codes = one.wrap()
        known_as = _digests(code) if "migrated_codes" in one.data else [code]
        found = any(codes.validate_code(each) for each in known_as)
        one.data = codes.instance.data
        return found
    step = _step_of(decrypt(one.data["secret"]), code, after=one.data.get("last_step", -1))
    one.data["last_step"] = step or one.data.get("last_step", -1)
    return step is not None


def _step_of(secret: str, code: str, after: int) -> int | None:
    """The oldest time step after `after` whose code this is, so that none is taken after a newer one."""
    steps = (step for step in sorted(yield_hotp_counters_from_time()) if step > after)
    return next(
        (step for step in steps if compare_digest(format_hotp_value(hotp_value(secret, step)), code)), None
    )


def _digests(code: str) -> list[str]:
    """What stands for a recovery code of version 0.1.0, which stored its keyed digest alone."""
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [
        salted_hmac("headroom recovery code", code, secret=str(key), algorithm="sha256").hexdigest()
        for key in keys
    ]
