"""Forms: they hold values and errors for the pages. What is right or wrong is decided by the services."""

from typing import Any
from uuid import uuid4

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.urls import reverse

from webapp.accounts.models import Scope

# Hints follow what is being typed; a form's other fields say of which recipe.
HINTS = {"hx-trigger": "input changed delay:400ms", "hx-target": "#hints", "hx-swap": "outerHTML"}
RELOAD = {"hx-trigger": "change", "hx-target": "#launch", "hx-include": "closest form"}


def new_key() -> str:
    """An idempotency key: a form that is sent twice launches once."""
    return uuid4().hex


class SignInForm(AuthenticationForm):
    """Django's, with a sentence of ours."""

    error_messages = AuthenticationForm.error_messages | {
        "invalid_login": "No account with this name and password.",
    }


class TokenForm(forms.Form):
    """A new API token."""

    scope = forms.ChoiceField(
        choices=[
            (Scope.READ, "read: look at runs, curves and fits"),
            (Scope.WRITE, "write: also report records of runs"),
            (Scope.LAUNCH, "launch: also launch, stop and resume runs"),
        ],
        label="May do",
        help_text="Each includes what is above it. Give the least that will do.",
    )


class ShareForm(forms.Form):
    """A new link to a chart."""

    title = forms.CharField(max_length=160, help_text="What the page and its preview are called.")
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
        help_text="Any member of the project can close it before, on the page of shared links.",
    )


class LaunchForm(forms.Form):
    """What a launch asks for; choices and defaults come from the chosen recipe."""

    recipe = forms.ChoiceField(help_text="What is trained how; its key settings are beside the form.")
    revision = forms.TypedChoiceField(coerce=int, help_text="A revision never changes once it is stored.")
    task = forms.ChoiceField(help_text="Prompts plus a verifier, with a held-out split for evaluation.")
    model = forms.CharField(
        max_length=200,
        help_text="A folder in HEADROOM_HOME/models, a path that the cluster sees, or org/name of the Hugging Face "
        "hub: downloaded when the run starts, if it is not here yet.",
        widget=forms.TextInput(attrs={"list": "models", "autocomplete": "off", "spellcheck": "false"}),
    )
    seed = forms.IntegerField(help_text="Runs with several seeds show how sure a ceiling is.")
    budget_hours = forms.FloatField(
        label="Compute budget, device-hours",
        widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
    )
    name = forms.CharField(
        max_length=120, required=False, help_text="Optional; made of recipe and seed if empty."
    )
    idempotency_key = forms.CharField(widget=forms.HiddenInput, max_length=200)

    def __init__(
        self, data: Any = None, *, choices: dict[str, list], devices: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(data, label_suffix="", **kwargs)
        for name, values in choices.items():
            self.fields[name].choices = values  # type: ignore[attr-defined]
        for name in ("recipe", "revision"):  # another recipe has other defaults: the form comes anew
            self.fields[name].widget.attrs |= RELOAD | {"hx-get": reverse("launch")}
        hints = {"hx-get": reverse("launch-hints"), "hx-include": "closest form"}
        self.fields["model"].widget.attrs |= HINTS | hints
        self.fields["budget_hours"].help_text = (
            f"Devices allocated times hours; evaluation is not counted. This recipe holds {devices} "
            f"device{'' if devices == 1 else 's'}, so one device-hour is {60 / devices:.3g} minutes of training."
        )

    def renew_key(self) -> None:
        """Sending this form again is a new launch."""
        self.data = {**{name: self.data[name] for name in self.data}, "idempotency_key": new_key()}


class RevisionForm(forms.Form):
    """A configuration as YAML (JSON is YAML) and why it differs."""

    config = forms.CharField(
        label="Configuration",
        help_text="YAML or JSON, complete. Unknown keys are refused, so that a misspelt one never passes silently.",
        widget=forms.Textarea(attrs={"rows": 28, "spellcheck": "false", "wrap": "off"}),
        strip=False,
    )
    message = forms.CharField(max_length=300, label="What changes, and why", help_text="One line.")

    def __init__(self, data: Any = None, *, slug: str, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.fields["config"].widget.attrs |= HINTS | {"hx-post": reverse("revision-hints", args=[slug])}


def add_service_error(form: forms.Form, field: str | None, message: str) -> None:
    """Put a service's error beside its field, or on top where the form has no such field."""
    form.add_error(field if field in form.fields else None, message)
