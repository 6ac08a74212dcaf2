"""Forms of signing in and of one's own account. The services decide."""

from typing import Any

from django import forms
from django.contrib.auth.password_validation import validate_password
from django.http import HttpRequest

from webapp.identity.accounts.models import User
from webapp.identity.signin.passwords import is_own_password

CODE = {"autocomplete": "one-time-code", "spellcheck": "false", "autocapitalize": "none"}
NOT_YOURS = "This is not your password."


def password_field(label: str, autocomplete: str, **more: Any) -> forms.CharField:
    """A password as it was typed, spaces and all."""
    return forms.CharField(
        label=label,
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput(attrs={"autocomplete": autocomplete}),
        **more,
    )


class CodeForm(forms.Form):
    """The second factor."""

    code = forms.CharField(
        max_length=40,
        help_text="Six digits from your app, or one of your recovery codes.",
        widget=forms.TextInput(attrs=CODE | {"autofocus": True}),
    )


class ForgottenForm(forms.Form):
    """Where to mail a link to."""

    email = forms.EmailField(
        max_length=254, label="Mail address", widget=forms.EmailInput(attrs={"autocomplete": "email"})
    )


class TwiceForm(forms.Form):
    """A password, twice, for `self.user`."""

    user: User
    new = password_field(
        "New password",
        "new-password",
        help_text="At least 10 characters, and not one of the common ones.",
    )
    again = password_field("New password, once more", "new-password")

    def clean_new(self) -> str:
        """Raises ValidationError with the validators' words."""
        validate_password(self.cleaned_data["new"], self.user)
        return self.cleaned_data["new"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if "new" in cleaned and "again" in cleaned and cleaned["new"] != cleaned["again"]:
            self.add_error("again", "The two are not the same.")
        return cleaned


class NewPasswordForm(TwiceForm):
    """The new password of who came by a link."""

    def __init__(self, user: User, data: Any = None) -> None:
        super().__init__(data)
        self.user = user


class OwnPasswordForm(forms.Form):
    """Something that takes the signed-in person's password. Who has none (OpenID only) is not asked."""

    password = password_field("Your password", "current-password")

    def __init__(self, request: HttpRequest, user: User, data: Any = None, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.request, self.user = request, user
        if not user.has_usable_password():
            del self.fields["password"]

    def clean_password(self) -> str:
        raw = self.cleaned_data["password"]
        if raw and not is_own_password(self.request, self.user, raw):
            raise forms.ValidationError(NOT_YOURS)
        return raw


class ChangePasswordForm(OwnPasswordForm, TwiceForm):
    """The old password and a new one."""

    field_order = ["password", "new", "again"]

    def __init__(self, request: HttpRequest, user: User, data: Any = None) -> None:
        super().__init__(request, user, data)
        self.fields["password"].label = "Present password"


class EnrolForm(OwnPasswordForm):
    """The app's first code proves that it has the key."""

    code = forms.CharField(
        max_length=10, label="Code of the app", widget=forms.TextInput(attrs=CODE | {"inputmode": "numeric"})
    )
    field_order = ["code", "password"]


class SecondFactorForm(OwnPasswordForm):
    """Both factors again, before one of them is changed."""

    code = forms.CharField(
        max_length=40,
        label="Code",
        help_text="Of the app, or a recovery code.",
        widget=forms.TextInput(attrs=CODE),
    )
    field_order = ["password", "code"]


class ProfileForm(OwnPasswordForm):
    """Name and mail address; another address takes the password: it is where links for a new password go."""

    first_name = forms.CharField(
        max_length=150, required=False, widget=forms.TextInput(attrs={"autocomplete": "given-name"})
    )
    last_name = forms.CharField(
        max_length=150, required=False, widget=forms.TextInput(attrs={"autocomplete": "family-name"})
    )
    email = forms.EmailField(
        max_length=254,
        required=False,
        label="Mail address",
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
    )
    field_order = ["first_name", "last_name", "email", "password"]

    def __init__(self, request: HttpRequest, user: User, data: Any = None) -> None:
        names = ("first_name", "last_name", "email")
        super().__init__(request, user, data, initial={name: getattr(user, name) for name in names})
        if "password" in self.fields:
            self.fields["password"].required = False
            self.fields["password"].help_text = "Only for another mail address."

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        changes = cleaned.get("email", self.user.email) != self.user.email
        if (
            changes
            and "password" in self.fields
            and not cleaned.get("password")
            and not self.has_error("password")
        ):
            self.add_error("password", "Another mail address takes your password.")
        return cleaned
