"""The form of a new study: what was typed, and the request that it means.

What a study would be, for its form: the choices that can be taken back, and each variant with its difference.
"""

import re
from typing import Any

from django import forms
from django.http import QueryDict
from django.urls import reverse

from training.recipe import Recipe, RecipeError, apply_overrides
from webapp.base.errors import InvalidInput, ServiceError
from webapp.interfaces.pages.configuration import Change, differences
from webapp.interfaces.pages.forms import ServiceForm
from webapp.science.studies.axes import CHOICES, NAMED_AXES, Alternative, change_of
from webapp.science.studies.models import StudyKind
from webapp.science.studies.planning import SAYS_NOTHING, Plan, StudyRequest, Variant, what_it_trains

MAX_SEEDS = 50
RELOAD = {"hx-trigger": "change consume", "hx-target": "#study-form", "hx-include": "closest form"}
ANY_SETTING = "setting"
Payload = dict[str, Any]


class StudyForm(ServiceForm):
    """A new study; choices and defaults come from the chosen base."""

    kind = forms.ChoiceField(choices=StudyKind.choices, widget=forms.HiddenInput)
    name = forms.CharField(max_length=120)
    recipe = forms.ChoiceField(label="Base recipe")
    revision = forms.TypedChoiceField(coerce=int, label="Base revision")
    task = forms.ChoiceField()
    model = forms.CharField(
        max_length=200,
        help_text="",
        widget=forms.TextInput(attrs={"list": "models", "autocomplete": "off", "spellcheck": "false"}),
    )
    seeds = forms.CharField(
        max_length=400,
        help_text="With commas. Two or three show how far seeds differ.",
    )
    budget_hours = forms.FloatField(
        label="Compute budget of each run, device-hours",
        widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
    )
    settings = forms.CharField(
        label="Any other setting",
        required=False,
        max_length=4000,
        help_text="One change a line, as path = value, such as optimizer.lr = 1e-6.",
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
    )
    axis = forms.ChoiceField(
        required=False,
        choices=[(key, axis.title) for key, axis in NAMED_AXES.items()] + [(ANY_SETTING, "Any setting")],
    )
    path = forms.CharField(
        label="Path of the setting",
        required=False,
        max_length=120,
        help_text="For “Any setting”, such as rollout.temperature.",
        widget=forms.TextInput(attrs={"list": "paths", "autocomplete": "off", "spellcheck": "false"}),
    )
    values = forms.CharField(
        label="Values besides the base's own",
        required=False,
        max_length=1000,
        help_text="With commas between them.",
    )
    idempotency_key = forms.CharField(widget=forms.HiddenInput, max_length=200)

    data: QueryDict

    def __init__(self, data: Any = None, *, choices: dict[str, list], **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        for name, values in choices.items():
            self.fields[name].choices = values  # type: ignore[attr-defined]
        for name in ("recipe", "revision"):  # another base has other alternatives: the form comes anew
            self.fields[name].widget.attrs |= RELOAD | {"hx-get": reverse("new-study")}

    @property
    def is_axis(self) -> bool:
        """Whether values of one axis are asked for, rather than choices to take back."""
        return str(self["kind"].value()) == StudyKind.AXIS

    def clean_seeds(self) -> tuple[int, ...]:
        """Whole numbers out of "0, 1, 2"."""
        try:
            return numbers_in(self.cleaned_data["seeds"])
        except InvalidInput as error:
            raise forms.ValidationError(error.message) from None

    def changes(self) -> list[tuple[str, str]]:
        """(field, change) of all that is asked for: ticked choices and typed settings, or the values of the axis."""
        if not self.is_axis:
            ticked = [("change", token) for token in self.data.getlist("change")]
            lines = str(self.cleaned_data.get("settings") or "").splitlines()
            return ticked + [("settings", line.strip()) for line in lines if line.strip()]
        axis = self.cleaned_data.get("axis") or ANY_SETTING
        key = str(self.cleaned_data.get("path") or "").strip() if axis == ANY_SETTING else axis
        values = re.split(r",(?![^\[]*\])", str(self.cleaned_data.get("values") or ""))
        return [("values", f"{key}={value.strip()}") for value in values if value.strip()]

    def request(self) -> StudyRequest:
        """The request. Raises InvalidInput where the axis has no path."""
        data = self.cleaned_data
        if self.is_axis and data.get("axis") == ANY_SETTING and not str(data.get("path") or "").strip():
            raise InvalidInput("path", "Say which setting: its path, such as optimizer.lr.")
        return StudyRequest(
            name=data.get("name") or "",
            kind=data["kind"],
            recipe=data["recipe"],
            revision=data["revision"],
            changes=tuple(token for _, token in self.changes()),
            seeds=tuple(data["seeds"]),
            task=data["task"],
            model=data["model"],
            budget_hours=data["budget_hours"],
        )

    def refuse(self, error: ServiceError) -> None:
        """Put an objection to a change beside the field that asked for it."""
        name, _, index = (error.field or "").partition(".")
        if name == "changes":
            fields = [field for field, _ in self.changes()]
            name = fields[int(index)] if index.isdigit() and int(index) < len(fields) else "settings"
            if not index and self.is_axis:
                name = "values"
        self.add_error(name if name in self.fields else None, error.message)


def numbers_in(text: str) -> tuple[int, ...]:
    """Whole numbers with commas or blanks between them. Raises InvalidInput (field seeds)."""
    pieces = [piece for piece in re.split(r"[,\s]+", text.strip()) if piece]
    if not pieces or len(pieces) > MAX_SEEDS:
        raise InvalidInput("seeds", f"Give 1 to {MAX_SEEDS} whole numbers with commas.")
    for piece in pieces:
        if not re.fullmatch(r"\d{1,10}", piece):
            raise InvalidInput("seeds", f"{piece[:20]!r} is no whole number from 0 to 2147483647.")
    return tuple(int(piece) for piece in pieces)


def choices_for(base: Recipe, ticked: set[str] | None) -> list[Payload]:
    """Choices with their alternatives for this base; the paper's own are ticked unless `ticked` says which are."""
    return [
        {
            "choice": choice,
            "alternatives": [_offer(base, choice.key, one, ticked) for one in choice.alternatives],
        }
        for choice in CHOICES.values()
    ]


def _offer(base: Recipe, key: str, one: Alternative, ticked: set[str] | None) -> Payload:
    token = f"{key}={one.value}"
    reason, changes = "", []
    try:
        varied = apply_overrides(base, change_of(token, base).overrides)
        changes = _differences(base, varied)
        reason = "" if changes else "as in the base"
    except RecipeError as error:
        reason = f"cannot run with this base: {error.reason}"
    except InvalidInput as error:
        reason = error.message
    chosen = bool(one.recipe) if ticked is None else token in ticked
    return {
        "token": token,
        "label": one.label,
        "papers": bool(one.recipe),
        "reason": reason,
        "detail": ", ".join(f"{c.path} {c.after if c.after is not None else 'unset'}" for c in changes),
        "checked": chosen and not reason,
    }


def preview_rows(plan: Plan) -> list[Payload]:
    """Each variant with its differences from the base."""
    base = plan.variants[0]
    return [
        {"label": variant.label, "variant": variant, "changes": _of_variant(base, variant)}
        for variant in plan.variants
    ]


def _of_variant(base: Variant, variant: Variant) -> list[Change]:
    found = _differences(base.config, variant.config)
    if variant.model != base.model:
        found.append(Change("model", base.model, variant.model))
    return found


def _differences(before: Recipe, after: Recipe) -> list[Change]:
    names = {name: getattr(before, name) for name in SAYS_NOTHING}
    return differences(what_it_trains(before) | names, what_it_trains(after) | names)
