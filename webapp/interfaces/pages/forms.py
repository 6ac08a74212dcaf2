"""Forms: they hold values and errors for the pages. What is right or wrong is decided by the services.

Forms of signing in and of one's own account. The services decide.

Entries of the decision log on the page of a run, prediction or study: what is there, and the form for another.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from django import forms
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.password_validation import validate_password
from django.urls import reverse

from webapp.base.errors import ServiceError
from webapp.identity.accounts.models import Role, Scope, User
from webapp.identity.accounts.permissions import grants
from webapp.identity.accounts.services import PERMISSION_OF_SCOPE
from webapp.identity.signin.forms import OwnPasswordForm, password_field
from webapp.record.runs.bounds import MAX_RETRIES, MAX_SEED
from webapp.record.runs.launch_set import MAX_SEEDS
from webapp.record.runs.models import Run
from webapp.science.decisions.models import DecisionKind, Entry
from webapp.science.decisions.selectors import Object, about_of, decisions_of
from webapp.science.decisions.services import LONGEST, LONGEST_TARGET

# Hints follow what is being typed; a form's other fields say of which recipe.
HINTS = {"hx-trigger": "input changed delay:400ms", "hx-target": "#hints", "hx-swap": "outerHTML"}
RELOAD = {
    "hx-trigger": "change consume",
    "hx-target": "#launch",
    "hx-swap": "innerHTML",  # not that of the form it stands in
    "hx-include": "[name=recipe],[name=revision],[name=seed],[name=name],[name=priority],[name=retries]",
    "hx-push-url": "true",
}
RETRIES_WORDS = f"Automatic retries are a whole number from 0 to {MAX_RETRIES}, or empty."
SEEDS_WORDS = f"Seeds are 1 to {MAX_SEEDS} whole numbers from 0 to {MAX_SEED}, such as 0 or 0, 1, 2."
SCOPES = (
    (Scope.READ, "read: look at runs, curves and fits"),
    (Scope.WRITE, "write: also report records of runs"),
    (Scope.LAUNCH, "launch: also launch, stop and resume runs"),
)
TOKEN_DAYS = {"30": "30 days", "90": "90 days", "365": "1 year", "never": "until it is revoked"}
DEFAULT_TOKEN_DAYS = "90"


def new_key() -> str:
    """An idempotency key: a form that is sent twice launches once."""
    return uuid4().hex


class ServiceForm(forms.Form):
    """A form whose values a service may refuse."""

    data: Any

    def refuse(self, error: ServiceError) -> None:
        """Put a refusal beside its field, or on top where the form has no such field."""
        self.add_error(error.field if error.field in self.fields else None, error.message)

    @contextmanager
    def refusing(
        self, kinds: type[ServiceError] | tuple[type[ServiceError], ...] = ServiceError
    ) -> Iterator[None]:
        """What a service refuses within is shown by the form."""
        try:
            yield
        except kinds as error:
            self.refuse(error)

    def renew_key(self) -> None:
        """Sending this form again is a new request."""
        self.data = self.data.copy()
        self.data["idempotency_key"] = new_key()


class NamingForm(ServiceForm):
    """A form whose services begin a refusal with the field's name, which the page shows already."""

    pointer = ""  # to the place in a filter that cannot be read

    def refuse(self, error: ServiceError) -> None:
        said = error.field or ""
        name = said.removeprefix("options.").split(".")[0]
        message = error.message.removeprefix(f"{said}: ").removeprefix(f"{said} ")
        self.add_error(name if name in self.fields else None, message[:1].upper() + message[1:])
        self.pointer = getattr(error, "pointer", "")


class SignInForm(AuthenticationForm):
    """Django's, with a sentence of ours."""

    error_messages = AuthenticationForm.error_messages | {
        "invalid_login": "No account with this name and password.",
    }


class TokenForm(ServiceForm):
    """A new API token, of one of these projects (slug -> role), with what the role allows."""

    name = forms.CharField(
        max_length=80, required=False, label="Name", help_text="Such as trainer on node 3."
    )
    project = forms.ChoiceField(required=False)
    scope = forms.ChoiceField(label="May do", help_text="Each includes what is above it.")
    days = forms.TypedChoiceField(  # None: until it is revoked
        label="Valid for",
        required=False,
        choices=list(TOKEN_DAYS.items()),
        coerce=lambda text: None if text == "never" else int(text),
        empty_value=int(DEFAULT_TOKEN_DAYS),  # type: ignore[arg-type]  # typed for texts alone
    )

    def __init__(self, data: Any = None, *, projects: Mapping[str, tuple[str, Role]], current: str) -> None:
        super().__init__(data, initial={"project": current, "days": DEFAULT_TOKEN_DAYS})
        self.fields["project"].choices = [(slug, name) for slug, (name, _) in projects.items()]  # type: ignore[attr-defined]
        if len(projects) == 1:
            self.fields["project"].widget = forms.HiddenInput()
        roles = [role for _, role in projects.values()]
        self.fields["scope"].choices = [  # type: ignore[attr-defined]
            (scope, words)
            for scope, words in SCOPES
            if any(grants(role, PERMISSION_OF_SCOPE[scope]) for role in roles)
        ]


class ShareForm(ServiceForm):
    """A new link to a chart."""

    title = forms.CharField(max_length=160)
    days = forms.TypedChoiceField(
        label="Open",
        required=False,
        coerce=int,
        empty_value=None,
        choices=[
            ("", "until somebody closes it"),
            (7, "for 7 days"),
            (30, "for 30 days"),
            (365, "for a year"),
        ],
    )


class LaunchForm(ServiceForm):
    """What a launch asks for first; choices and defaults come from the chosen recipe."""

    recipe = forms.ChoiceField()
    revision = forms.TypedChoiceField(coerce=int)
    task = forms.ChoiceField()
    model = forms.CharField(
        max_length=200,
        help_text="In HEADROOM_HOME/models, a path of the cluster, or org/name of the Hugging Face hub.",
        widget=forms.TextInput(attrs={"list": "models", "autocomplete": "off", "spellcheck": "false"}),
    )
    seed = forms.CharField(
        label="Seeds",
        max_length=60,
        help_text=f"A run each, up to {MAX_SEEDS}: 0, 1, 2.",
        widget=forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"}),
    )
    budget_hours = forms.FloatField(
        label="Compute budget, device-hours",
        widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
    )
    task_options = forms.CharField(
        required=False,
        label="Options of the task",
        help_text="YAML; the rest as the task has it.",
        widget=forms.Textarea(attrs={"rows": 5, "spellcheck": "false", "wrap": "off"}),
        strip=False,
    )
    name = forms.CharField(max_length=120, required=False, help_text="Empty: the recipe's.")
    priority = forms.TypedChoiceField(
        coerce=int,
        required=False,
        label="Priority",
        choices=Run.Priority.choices,
        empty_value=Run.Priority.NORMAL,  # type: ignore[arg-type]  # typed for texts alone
        help_text="High is for admins.",
    )
    retries = forms.IntegerField(
        required=False,
        label="Automatic retries",
        min_value=0,
        max_value=MAX_RETRIES,
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), RETRIES_WORDS),
        widget=forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"}),
    )
    message = forms.CharField(
        max_length=300,
        required=False,
        label="What the new revision changes, and why",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    idempotency_key = forms.CharField(widget=forms.HiddenInput, max_length=190)

    def __init__(
        self, data: Any = None, *, choices: dict[str, list], devices: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(data, **kwargs)
        for name, values in choices.items():
            self.fields[name].choices = values  # type: ignore[attr-defined]
        for name in ("recipe", "revision"):  # another recipe has other defaults: the form comes anew
            self.fields[name].widget.attrs |= RELOAD | {"hx-get": reverse("launch")}
        self.fields[
            "retries"
        ].help_text = (
            f"From the newest checkpoint, when a machine or a process died. Empty: {settings.RETRIES}."
        )
        held, minutes = f"{devices} device{'' if devices == 1 else 's'}", f"{60 / devices:.3g} minutes"
        self.fields["budget_hours"].help_text = f"On {held} one device-hour is {minutes} of training."

    def clean_seed(self) -> list[int]:
        """The seeds as numbers, in their order."""
        words = self.cleaned_data["seed"].replace(",", " ").split()
        are_numbers = all(word.isdecimal() and word.isascii() and int(word) <= MAX_SEED for word in words)
        if not are_numbers or not 1 <= len(words) <= MAX_SEEDS:
            raise forms.ValidationError(SEEDS_WORDS)
        seeds = [int(word) for word in words]
        if len(set(seeds)) < len(seeds):
            raise forms.ValidationError("Each seed is trained once: these repeat one.")
        return seeds


class RevisionForm(forms.Form):
    """A configuration as YAML (JSON is YAML) and why it differs."""

    config = forms.CharField(
        label="Configuration",
        help_text="YAML or JSON, complete.",
        widget=forms.Textarea(attrs={"rows": 28, "spellcheck": "false", "wrap": "off"}),
        strip=False,
    )
    message = forms.CharField(max_length=300, label="What changes, and why")

    def __init__(self, data: Any = None, *, slug: str, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.fields["config"].widget.attrs |= HINTS | {"hx-post": reverse("revision-hints", args=[slug])}


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


MOST_DECISIONS = 20  # newest entries that the page of their object shows


class DecisionForm(ServiceForm):
    """What was decided and why."""

    kind = forms.ChoiceField(label="Decision", choices=DecisionKind.choices, widget=forms.RadioSelect)
    to = forms.CharField(
        required=False,
        label="Switch to",
        help_text="A run, a recipe, or what else.",
        max_length=LONGEST_TARGET,
    )
    reason = forms.CharField(
        label="Why",
        widget=forms.Textarea(attrs={"rows": 4, "maxlength": LONGEST}),
        help_text="What you saw, and what would have changed your mind. It can't be edited later.",
    )
    about = forms.CharField(widget=forms.HiddenInput)
    object_id = forms.CharField(widget=forms.HiddenInput)
    key = forms.CharField(widget=forms.HiddenInput, max_length=64)

    def __init__(self, data: Any = None, **initial: Any) -> None:
        super().__init__(data, initial={"key": new_key(), "kind": DecisionKind.CONTINUE} | initial)

    def asked(self) -> dict[str, str]:
        """The fields as `services.decide` takes them; what a switch would go to is left out of other kinds."""
        values = {name: self.cleaned_data[name] for name in ("kind", "reason", "key", "to")}
        return values if values["kind"] == DecisionKind.SWITCH else values | {"to": ""}


def decision_panel(found: Object) -> dict[str, Any]:
    """For `decisions/_panel.html`."""
    about = about_of(found)
    entries = decisions_of(found.project, about=about, object_id=found.pk)[:MOST_DECISIONS]
    return {"decisions": entries, "decision_form": DecisionForm(about=about, object_id=found.pk)}


def address_of(entry: Entry) -> str:
    """The page of its object, where the entry is shown."""
    page = reverse(entry.about, args=[entry.object_id])
    return f"{page}?tab=decisions#tabs" if entry.about == "run" else f"{page}#decisions"
