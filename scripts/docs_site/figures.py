"""The figures of docs/science.md: drawn by `scaling` from points that `scaling.simulate` makes of a known curve.

A page asks with `<!-- figure: NAME -->`. It gets the figure as JSON, which assets/figures.js gives to Plotly, and a
caption with the numbers of the very fit that is drawn.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import scaling
from scaling import plot
from scaling.curve import curve
from scaling.forecast import rolling, sentence
from scaling.forms import choose
from scaling.simulate import rewards

Figure = Any
Drawn = tuple[Figure, str]  # with its caption, in Markdown
ASKED = re.compile(r"^<!-- figure: ([a-z_]+) -->$", re.MULTILINE)
R0, A, B, C_MID = (
    0.1,
    0.61,
    1.92,
    2542.0,
)  # ScaleRL in Table 1 of arXiv 2510.13786; R0 is ours, the table has none
N, TO, SD, SEED = 60, 16_000.0, 0.01, 0
BEFORE_THE_BEND = 1_000.0  # GPU-hours, well below C_mid
HEIGHT = 440


def drawn(markdown: str) -> str:
    """The page with its figures in it. KeyError for a figure that there is none of."""
    return ASKED.sub(lambda found: _html(found.group(1)), markdown)


def plotly_js() -> Path:
    """plotly.min.js of the installed wheel."""
    import plotly

    return Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


def _html(name: str) -> str:
    figure, caption = FIGURES[name]()
    figure.update_layout(height=HEIGHT, margin={"l": 60, "r": 20, "t": 50, "b": 50})
    made = json.dumps(json.loads(figure.to_json())).replace("<", "\\u003c")
    return (
        f'<div class="figure" id="figure-{name}" role="img" aria-label="{plain(caption)}"></div>\n'
        f'<script type="application/json" data-figure="figure-{name}">{made}</script>\n\n*{caption}*\n'
    )


def plain(caption: str) -> str:
    """For an attribute."""
    return caption.replace("`", "").replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


@cache
def points() -> tuple[np.ndarray, np.ndarray]:
    """Compute [60] in GPU-hours and noisy pass rates [60] of the known curve."""
    compute = np.linspace(TO / N, TO, N)
    rng = np.random.default_rng(SEED)
    return compute, rewards(compute, r0=R0, a=A, b=B, c_mid=C_MID, sd=SD, rng=rng)


def _first_half() -> tuple[np.ndarray, np.ndarray]:
    compute, reward = points()
    return compute[: N // 2], reward[: N // 2]


def _empty() -> Figure:
    import plotly.graph_objects as go

    figure = go.Figure()
    axes = {"xaxis_title": "compute, GPU-hours", "yaxis_title": "pass rate", "xaxis_type": "log"}
    return figure.update_layout(template="plotly_white", **axes)


def law() -> Drawn:
    """Eq. 1 with each of its numbers changed alone."""
    at = np.geomspace(50.0, 200_000.0, 240)
    figure = _empty()
    base: dict[str, Any] = {"r0": R0, "a": A, "b": B, "c_mid": C_MID}
    changed = {
        f"A {A:g}, B {B:g}, C_mid {C_MID:g}": {}, "A 0.70": {"a": 0.7}, "B 1": {"b": 1.0},
        f"C_mid {4 * C_MID:g}": {"c_mid": 4 * C_MID},
    }  # fmt: skip
    for k, (name, change) in enumerate(changed.items()):
        width = {"color": plot.COLOURS[k], "width": 3 if k == 0 else 1.5}
        figure.add_scatter(x=at, y=curve(at, **(base | change)), mode="lines", name=name, line=width)
    return figure, (
        f"The law with the parameters that Table 1 of the paper has for ScaleRL (R0 {R0:g} is chosen here), and with "
        "one of them changed at a time. A is where a curve ends, B how steeply it gets there, C_mid where it is half "
        "way."
    )


def half() -> Drawn:
    """A fit of the first half of the compute, and the points that it did not see."""
    compute, reward = points()
    fitted = scaling.fit(*_first_half())
    figure = plot.compare_figure({"first half": fitted})
    figure.add_scatter(
        x=compute[N // 2 :], y=reward[N // 2 :], mode="markers", name="came later",
        marker={"color": "#888888", "size": 6, "symbol": "circle-open"},
    )  # fmt: skip
    return figure, (
        f"{fitted.n} simulated evaluations up to {TO / 2:,.0f} GPU-hours, fitted: {plot.ceiling_text(fitted)}; the "
        f"truth is {A:g}. Open circles came later. The band is that of the mean curve."
    )


def early() -> Drawn:
    """The same run, stopped before its bend, evaluated as often."""
    compute = np.linspace(BEFORE_THE_BEND / N, BEFORE_THE_BEND, N)
    rng = np.random.default_rng(SEED)
    fitted = scaling.fit(compute, rewards(compute, r0=R0, a=A, b=B, c_mid=C_MID, sd=SD, rng=rng))
    if fitted.status != "not_identified":
        raise RuntimeError("the figure of a ceiling that is not identified shows one that is")
    return plot.compare_figure({"before the bend": fitted}), (
        f"The same curve, with {N} evaluations before it bends ({BEFORE_THE_BEND:,.0f} GPU-hours). What the fit says: "
        f"{fitted.message}"
    )


def forms() -> Drawn:
    """Three forms on one half, and what came."""
    compute, reward = points()
    figure = _empty()
    grey = {"color": "#888888", "size": 5}
    figure.add_scatter(x=compute, y=reward, mode="markers", name="evaluations", marker=grey)
    at = np.geomspace(compute[0], 2 * TO, 200)
    for k, form in enumerate(scaling.FORMS):
        fitted = scaling.fit(*_first_half(), form=form)
        assert fitted.params is not None
        ending = f", A {fitted.params['A']:.3f}" if fitted.status == "ok" else ", ceiling not identified"
        figure.add_scatter(
            x=at, y=fitted.predict(at), mode="lines", name=form + ending, line={"color": plot.COLOURS[k]}
        )
    figure.add_vline(x=TO / 2, line_dash="dot")
    choice = choose(compute, reward)
    return figure, (
        "Sigmoid, power law and logistic in C, each fitted to what lies left of the dotted line. What "
        f"`scaling.forms.choose` says of all points: {choice.reason}."
    )


def forecasts() -> Drawn:
    """What each part of the run would have forecast for its last evaluation."""
    compute, reward = points()
    rows = rolling(compute, reward)
    figure = plot.forecast_figure(compute.tolist(), reward.tolist(), rows, "")
    middle = min(rows, key=lambda row: abs(row.fraction - 0.5))
    return figure, (
        f"Forecasts of the last evaluation, each from the points left of it: {sentence(middle)}. The intervals are "
        "those of one new evaluation, so its own noise is in them."
    )


FIGURES: dict[str, Callable[[], Drawn]] = {
    "law": law, "half": half, "early": early, "forms": forms, "forecasts": forecasts,
}  # fmt: skip
