"""Forms of signing in and of one's own account. The services decide."""

from typing import Any

from django import forms
from django.contrib.auth.password_validation import validate_password

from webapp.identity.accounts.models import User
from webapp.identity.signin.forms import OwnPasswordForm, password_field


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


class ChangePasswordForm(OwnPasswordForm, TwiceForm):
    """The old password and a new one."""

    field_order = ["password", "new", "again"]

    def __init__(self, *args: Any, user: User) -> None:
        super().__init__(*args, user=user)
        self.fields["password"].label = "Present password"


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

    def __init__(self, *args: Any, user: User) -> None:
        names = ("first_name", "last_name", "email")
        super().__init__(*args, user=user, initial={name: getattr(user, name) for name in names})
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
