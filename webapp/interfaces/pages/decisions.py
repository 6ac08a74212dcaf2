"""Entries of the decision log on the page of a run, prediction or study: what is there, and the form for another."""

from typing import Any

from django import forms
from django.urls import reverse

from webapp.interfaces.pages.forms import new_key
from webapp.science.decisions.models import DecisionKind, Entry
from webapp.science.decisions.selectors import Object, about_of, decisions_of
from webapp.science.decisions.services import LONGEST, LONGEST_TARGET

MOST = 20  # newest entries that the page of their object shows


class DecisionForm(forms.Form):
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
        super().__init__(
            data, initial={"key": new_key(), "kind": DecisionKind.CONTINUE} | initial, label_suffix=""
        )

    def asked(self) -> dict[str, str]:
        """The fields as `services.decide` takes them; what a switch would go to is left out of other kinds."""
        values = {name: self.cleaned_data[name] for name in ("kind", "reason", "key", "to")}
        return values if values["kind"] == DecisionKind.SWITCH else values | {"to": ""}


def panel(found: Object) -> dict[str, Any]:
    """For `decisions/_panel.html`."""
    about = about_of(found)
    entries = decisions_of(found.project, about=about, object_id=found.pk)[:MOST]
    return {"decisions": entries, "decision_form": DecisionForm(about=about, object_id=found.pk)}


def address_of(entry: Entry) -> str:
    """The page of its object, where the entry is shown."""
    page = reverse(entry.about, args=[entry.object_id])
    return f"{page}?tab=decisions#tabs" if entry.about == "run" else f"{page}#decisions"
