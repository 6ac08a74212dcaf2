"""Examples for the page that shows every component. All of its figures are invented, and the page says so."""

from datetime import timedelta
from typing import Any

from django import forms
from django.utils import timezone

from webapp.base import tokens
from webapp.interfaces.pages import marks
from webapp.record.runs.models import State
from webapp.science.curves.answers import ceiling

LEVEL = 0.9
SCALE = (0.4, 0.8)
CLIMB = (0.21, 0.24, 0.31, 0.39, 0.46, 0.5, 0.53, 0.55, 0.565, 0.57, 0.58, 0.583, 0.59)
TYPE_SCALE = (
    ("h1", "20 px, one a page"),
    ("h2", "13 px, of a section"),
    ("body", "14 px, tabular digits"),
    ("small", "12 px, beside and below"),
    ("mono", "12 px, names of settings, hashes"),
)
SPACES = ("s1", "s2", "s3", "s4", "s5", "s6")


class ExampleForm(forms.Form):
    """One field of each kind, one of them wrong."""

    name = forms.CharField(help_text="What the page and its lists call it.", initial="ScaleRL, seed 2")
    recipe = forms.ChoiceField(choices=[("scalerl", "ScaleRL"), ("grpo", "GRPO")])
    budget = forms.FloatField(
        min_value=0, label="Compute budget, device-hours", help_text="Evaluation is not counted."
    )
    notes = forms.CharField(widget=forms.Textarea(attrs={"rows": 3}), required=False, initial="lr: 3.0e-4")


def examples() -> dict[str, Any]:
    """Context of `docs/components.html`."""
    return {
        "states": list(State),
        "series": [(index, f"Series {index + 1}") for index in range(marks.SERIES)],
        "ceilings": ceilings(),
        "scale": SCALE,
        "climb": CLIMB,
        "form": example_form(),
        "palette": palette(),
        "spaces": SPACES,
        "type_scale": TYPE_SCALE,
        "multiple": small_multiple(),
        "levels": ["warning", "critical"],
        "earlier": timezone.now() - timedelta(hours=3),
        "chart": chart(),
    }


def ceilings() -> list[dict[str, Any]]:
    """Identified narrowly and widely, known from below only, and not at all."""
    return [
        {"words": "identified", "ceiling": ceiling("ok", (0.596, 0.627), 0.61, LEVEL)},
        {"words": "identified, a wide interval", "ceiling": ceiling("ok", (0.52, 0.71), 0.58, LEVEL)},
        {
            "words": "not identified: at least",
            "ceiling": ceiling("not_identified", (0.52, None), None, LEVEL),
        },
        {"words": "no fit", "ceiling": ceiling("failed", None, None, LEVEL)},
    ]


def example_form() -> ExampleForm:
    """Sent with a budget below 0."""
    values = {name: field.initial or "" for name, field in ExampleForm.base_fields.items()}
    return ExampleForm(values | {"recipe": "scalerl", "budget": "-3"})


def palette() -> list[dict[str, str]]:
    """Every colour token with its two values; the page draws it with the class `token-NAME`."""
    light, dark = tokens.colours("light"), tokens.colours("dark")
    return [{"name": name, "light": light[name], "dark": dark[name]} for name in light]


def small_multiple() -> dict[str, Any]:
    """A diagnostic that crosses its limit."""
    values = [0.02, 0.025, 0.03, 0.028, 0.04, 0.06, 0.09, 0.11]
    steps = list(range(len(values)))
    return {
        "steps": steps,
        "values": values,
        "limits": [marks.Limit(0.08, upwards=True, level="warning")],
        "alarming": [(6, 0.09), (7, 0.11)],
    }


def chart() -> dict[str, Any]:
    """Numbers of the example chart: the language of all charts in one."""
    hours = [0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0]
    rates = [0.28, 0.33, 0.4, 0.465, 0.52, 0.556, 0.575, 0.589, 0.596]
    fit = [0.282, 0.332, 0.4, 0.468, 0.52, 0.555, 0.576, 0.588, 0.594]
    spread = [0.006, 0.005, 0.005, 0.005, 0.005, 0.006, 0.009, 0.013, 0.018]
    return {
        "x": hours,
        "y": rates,
        "fit": fit,
        "lo": [round(y - half, 3) for y, half in zip(fit, spread, strict=True)],
        "hi": [round(y + half, 3) for y, half in zip(fit, spread, strict=True)],
        "cutoff": 2.8,
    }
