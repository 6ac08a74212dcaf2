"""The second factor: every write. A code of the app or a recovery code; each works once."""

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.log import record_account
from webapp.identity.accounts.models import User
from webapp.identity.signin import codes, sealing
from webapp.identity.signin.models import RecoveryCode, TwoFactor

LONGEST_WAIT = timedelta(minutes=15)
WRONG = "This code is wrong, or it was used already. Wait for the next one."


class TooSoon(Exception):
    """After wrong codes the next try must wait; `seconds` says how long."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"Too many wrong codes. Try again in {seconds} s.")
        self.seconds = seconds


def has_two_factor(user: User) -> bool:
    """Whether signing in as this person takes a code."""
    return TwoFactor.objects.filter(user=user).exists()


@transaction.atomic
def enrol(user: User, *, key: bytes, code: str) -> list[str]:
    """Turn two-factor on with the key that the app was given; `code` proves that it was. Returns the recovery codes.

    Raises InvalidInput for a wrong code, Conflict where it is on already.
    """
    User.objects.select_for_update().get(pk=user.pk)  # two tabs
    if has_two_factor(user):
        raise Conflict("Two-factor sign-in is on already.")
    step = codes.matching_step(key, codes.normal(code), after=-1)
    if step is None:
        raise InvalidInput("code", "This is not the app's code of this moment. Is the device's clock right?")
    two_factor = TwoFactor.objects.create(user=user, sealed_key=sealing.seal(key), last_step=step)
    record_account("two_factor.enabled", user, actor=user)
    return _fresh_codes(two_factor)


def check(user: User, code: str) -> bool:
    """Whether the code opens the door now; a code that did never does again. Raises TooSoon.

    Wrong codes in a row make the next try wait 1, 2, 4, ... seconds, up to 15 minutes.
    """
    with transaction.atomic():
        two_factor = TwoFactor.objects.select_for_update().filter(user=user).first()
        if two_factor is None:
            return False
        _refuse_too_soon(two_factor)
        passed = _use(two_factor, codes.normal(code))
        two_factor.failures = 0 if passed else two_factor.failures + 1
        two_factor.failed_at = None if passed else timezone.now()
        two_factor.save(update_fields=["failures", "failed_at", "last_step"])
    return passed


def _refuse_too_soon(two_factor: TwoFactor) -> None:
    if two_factor.failed_at is None:
        return
    wait = min(timedelta(seconds=2 ** min(two_factor.failures - 1, 12)), LONGEST_WAIT)
    left = (two_factor.failed_at + wait - timezone.now()).total_seconds()
    if left > 0:
        raise TooSoon(int(left) + 1)


def _use(two_factor: TwoFactor, code: str) -> bool:
    if not is_app_code(code):
        found, _ = two_factor.codes.filter(digest__in=sealing.keyed_digests(code)).delete()
        return bool(found)
    try:
        key = sealing.unseal(two_factor.sealed_key)
    except sealing.CannotOpen:  # SECRET_KEY was changed: recovery is `manage.py reset_two_factor`
        return False
    step = codes.matching_step(key, code, after=two_factor.last_step)
    if step is not None:
        two_factor.last_step = step
    return step is not None


@transaction.atomic
def renew_recovery_codes(user: User) -> list[str]:
    """Ten new codes; the ones before stop working. Raises Conflict where two-factor is off."""
    two_factor = TwoFactor.objects.select_for_update().filter(user=user).first()
    if two_factor is None:
        raise Conflict("Two-factor sign-in is off.")
    record_account("two_factor.codes_renewed", user, actor=user)
    return _fresh_codes(two_factor)


def _fresh_codes(two_factor: TwoFactor) -> list[str]:
    fresh = codes.new_recovery_codes()
    two_factor.codes.all().delete()
    RecoveryCode.objects.bulk_create(
        RecoveryCode(two_factor=two_factor, digest=sealing.keyed_digest(codes.normal(code))) for code in fresh
    )
    return fresh


@transaction.atomic
def turn_off(user: User, *, actor: User | None) -> bool:
    """Turn two-factor off; `actor` None: by an administrator at the console. False where it was off."""
    found, _ = TwoFactor.objects.filter(user=user).delete()
    if found:
        record_account("two_factor.disabled", user, actor=actor)
    return bool(found)


def enabled_at(user: User) -> datetime | None:
    """Since when two-factor is on; None: it is off."""
    return TwoFactor.objects.filter(user=user).values_list("confirmed_at", flat=True).first()


def codes_left(user: User) -> int:
    """How many recovery codes are unused."""
    return RecoveryCode.objects.filter(two_factor__user=user).count()


def is_app_code(code: str) -> bool:
    """Whether a code has the form of the app's; others are taken for recovery codes."""
    return len(codes.normal(code)) == 6
