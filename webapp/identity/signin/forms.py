"""Proofs of who somebody is, in django-allauth's forms. Wrong ones count as wrong passwords at sign-in do.

Codes of an app and recovery codes: each is taken once, and wrong ones make the next try wait.

django-allauth stores them and knows what they are. Which were taken it keeps in the cache of one process, and lets five
wrong ones in five minutes through: both stand in the database here.
"""

import re
import time
from secrets import compare_digest
from typing import Any

from allauth.core import context
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from allauth.mfa.utils import decrypt, is_mfa_enabled
from allauth.mfa.webauthn.forms import (
    AddWebAuthnForm,
    AuthenticateWebAuthnForm,
    LoginWebAuthnForm,
    ReauthenticateWebAuthnForm,
)
from django import forms
from django.conf import settings
from django.db import transaction
from django.http import HttpResponse
from django.utils.crypto import salted_hmac
from fido2.webauthn import AuthenticationResponse, RegistrationResponse

from webapp.identity.accounts.models import User
from webapp.identity.signin import passwords

KINDS = [
    Authenticator.Type.TOTP,
    Authenticator.Type.WEBAUTHN,
]  # without one of them recovery codes are for nothing
LONGEST_WAIT_S = 15 * 60
STEP_S = 30
TYPED = {"autocomplete": "one-time-code", "spellcheck": "false", "autocapitalize": "none"}
WRONG = "This code is wrong, or it was used already. Wait for the next one."


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
        if not (able := list(mine.exclude(type=Authenticator.Type.WEBAUTHN))):
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


def password_field(label: str, autocomplete: str, **more: Any) -> forms.CharField:
    """A password as it was typed, spaces and all."""
    widget = forms.PasswordInput(attrs={"autocomplete": autocomplete})
    return forms.CharField(label=label, strip=False, max_length=1000, widget=widget, **more)


class OwnPasswordForm(forms.Form):
    """Something that takes the signed-in person's password. Who has none (OpenID only) is not asked."""

    password = password_field("Your password", "current-password")

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        if not user.has_usable_password():
            del self.fields["password"]

    def clean_password(self) -> str:
        """Raises ValidationError."""
        raw = self.cleaned_data["password"]
        if raw and not passwords.is_own_password(context.request, self.user, raw):
            raise forms.ValidationError("This is not your password.")
        return raw


class CodeField(forms.CharField):
    """A code without what people put between: spaces and hyphens; lower case."""

    def __init__(self, **more: Any) -> None:
        super().__init__(label="Code", max_length=40, widget=forms.TextInput(attrs=TYPED), **more)

    def to_python(self, value: Any) -> str:
        """Raises ValidationError for what is no code at all."""
        code = re.sub(r"[\s-]", "", super().to_python(value) or "").lower()
        if not code.isascii():
            raise forms.ValidationError(WRONG)
        return code


class TakenOnce(forms.Form):
    """The code of a person's app, or a recovery code."""

    user: User
    code = CodeField(help_text="Six digits from your app, or one of your recovery codes.")

    def clean_code(self) -> str:
        """Raises ValidationError; ImmediateHttpResponse with 429 for who failed too often."""
        request, name = context.request, self.user.get_username()
        if passwords.is_locked(request, name):  # django-axes puts `AXES_LOCKOUT_CALLABLE` in its place
            raise ImmediateHttpResponse(HttpResponse(status=429))
        try:
            self.authenticator = take(self.user, self.cleaned_data["code"])
        except TooSoon as error:
            raise forms.ValidationError(str(error)) from error
        if self.authenticator is None:
            passwords.note_failure(request, name)
            raise forms.ValidationError(WRONG)
        return self.cleaned_data["code"]


class CodeForm(TakenOnce, AuthenticateForm):
    """At sign-in, after the first factor."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["code"].widget.attrs["autofocus"] = True


class ConfirmCodeForm(TakenOnce, ReauthenticateForm):
    """Both factors again, before one of them is changed."""

    password = password_field("Your password", "current-password")
    field_order = ["password", "code"]
    clean_password = OwnPasswordForm.clean_password

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.user.has_usable_password():
            del self.fields["password"]

    def clean_code(self) -> str:
        """A code beside a wrong password is not used up."""
        return "" if self.errors else super().clean_code()


class EnrolForm(ActivateTOTPForm):
    """The app's first code proves that it has the key."""

    code = CodeField()


class CredentialField(forms.JSONField):
    """What the browser says of a passkey: an answer of this kind (WebAuthn level 3, section 5.1)."""

    def __init__(self, kind: type[AuthenticationResponse] | type[RegistrationResponse]) -> None:
        super().__init__(widget=forms.HiddenInput)
        self.kind = kind

    def to_python(self, value: Any) -> Any:
        """Raises ValidationError."""
        said = super().to_python(value)
        try:
            self.kind.from_dict(said)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise forms.ValidationError("This was not accepted. Try again.") from error
        return said


class NewPasskeyForm(AddWebAuthnForm):
    """The browser is asked for one that checks who holds it, unless somebody says otherwise."""

    credential = CredentialField(RegistrationResponse)
    passwordless = forms.BooleanField(
        required=False, initial=True, label="Sign in with it alone",
        help_text="Without name and password. It then asks for a PIN, a finger or a face.",
    )  # fmt: skip


class Proof(forms.Form):
    """A proof by a passkey."""

    credential = CredentialField(AuthenticationResponse)


class SecondPasskeyForm(Proof, AuthenticateWebAuthnForm):
    """At sign-in, after the first factor."""


class ConfirmPasskeyForm(Proof, ReauthenticateWebAuthnForm):
    """Of who is signed in."""


class PasskeyForm(Proof, LoginWebAuthnForm):
    """A passkey in place of password and second factor: so it must have checked who holds it (PIN, finger, face).

    django-allauth asks for that in its question, but takes answers to the question of a lapsed second step as well.
    """

    def clean_credential(self) -> Authenticator:
        """Raises ValidationError."""
        proof = AuthenticationResponse.from_dict(self.cleaned_data["credential"]).response.authenticator_data
        authenticator = super().clean_credential()
        if not proof.is_user_verified() or not authenticator.user.is_active:
            raise forms.ValidationError("This passkey alone does not sign you in. Use your password first.")
        return authenticator
