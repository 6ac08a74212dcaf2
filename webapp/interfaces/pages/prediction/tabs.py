"""The analyses that a reviewer asks for: window sensitivity, forms side by side, the record of author and recipe."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from webapp.interfaces.pages.marks import shared_scale
from webapp.interfaces.pages.prediction.records import record_rows
from webapp.science.curves.axes import AXES
from webapp.science.curves.fitting import curve_of
from webapp.science.curves.run.forms_table import forms_payload
from webapp.science.curves.run.window_table import window_payload
from webapp.science.predictions.frozen_curve import known_of
from webapp.science.predictions.models import Prediction

Context = dict[str, Any]


@dataclass(frozen=True)
class Tab:
    """`heavy`: it takes many fits, so the page is there first."""

    title: str
    heavy: bool
    context: Callable[[Prediction], Context]


def _window(prediction: Prediction) -> Context:
    """Other windows on what was known when it was frozen, whatever has come since."""
    known = known_of(prediction, curve_of(prediction.run, prediction.x, prediction.metric))
    found = window_payload(known.curve, known.question, AXES[prediction.x])
    return {
        "windows": found,
        "scale": shared_scale([row["ceiling"] for row in found["rows"]]),
        "intact": known.intact,
    }


def _forms(prediction: Prediction) -> Context:
    """The other forms on the frozen points; the error after the cutoff once something came."""
    curve = curve_of(prediction.run, prediction.x, prediction.metric)
    known = known_of(prediction, curve)
    axis = AXES[prediction.x]
    found = forms_payload(curve, replace(known.question, form="sigmoid"), axis, prediction.target)
    scale = shared_scale([row["ceiling"] for row in found["rows"]])
    return {"forms": found, "axis": axis, "scale": scale, "intact": known.intact}


def _record(prediction: Prediction) -> Context:
    return {"records": record_rows(prediction)}


TABS: dict[str, Tab] = {
    "record": Tab("Record", False, _record),
    "window": Tab("Window sensitivity", True, _window),
    "forms": Tab("Forms", True, _forms),
}


def tab_context(tab: str, prediction: Prediction) -> Context:
    """The context of one tab's template."""
    return TABS[tab].context(prediction)
