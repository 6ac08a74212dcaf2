"""Pictures of fits, comparisons and forecasts, as one file that needs no network.

Plotly is imported only here, inside the function that needs it: the rest of `scaling` takes numpy and scipy only.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scaling.curve import Array
from scaling.forecast import Cutoff
from scaling.models import Fit

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")
_AHEAD = 4.0  # curves are drawn this many times beyond the last compute of any
_FAINT = 0.18
_NODES = 200

Figure = Any


class PlotError(ValueError):
    """A picture that cannot be drawn; the text is one line and names the file."""


def check(path: Path) -> None:
    """Raises PlotError where the picture's kind is unknown or what it needs is not installed."""
    if path.suffix not in (".html", ".png"):
        raise PlotError(f"{path}: a picture is .html or .png")
    if importlib.util.find_spec("plotly") is None:
        raise PlotError(f"{path}: pictures need plotly, which is not installed")
    if path.suffix == ".png" and importlib.util.find_spec("kaleido") is None:
        raise PlotError(f"{path}: .png needs kaleido, which is not installed; .html works without")


def write(figure: Figure, path: Path) -> None:
    """HTML with plotly.js inside it, or PNG. Raises PlotError for a path that cannot be written."""
    check(path)
    try:
        if path.suffix == ".html":
            path.write_text(figure.to_html(include_plotlyjs=True), encoding="utf-8")
        else:
            path.write_bytes(_png(figure, path))
    except OSError as error:
        raise PlotError(f"{path}: {error.strerror or 'cannot be written'}") from None


def _png(figure: Figure, path: Path) -> bytes:
    try:
        return figure.to_image(format="png", width=1000, height=600, scale=2)
    except Exception as error:  # kaleido starts a browser, which fails in many ways
        reason = str(error).strip().split("\n")[0]
        raise PlotError(f"{path}: kaleido could not draw it ({reason}); .html works without") from None


def compare_figure(fits: Mapping[str, Fit]) -> Figure:
    """Of one run or several: points, curve with its band, and the ceiling with its interval, where it is identified.
    The bands are those of the mean curve, at the level of each fit."""
    figure = _empty("compute")
    end = _AHEAD * max((fitted.window[1] for fitted in fits.values()), default=1.0)
    for k, (name, fitted) in enumerate(fits.items()):
        colour = COLOURS[k % len(COLOURS)]
        if fitted.data is not None:
            _points(figure, fitted.data.compute, fitted.data.reward, name, colour)
        if fitted.params is not None:
            _curve(figure, fitted, colour, end)
    figure.update_layout(
        title="<br>".join(f"{name}: {ceiling_text(fitted)}" for name, fitted in fits.items())
    )
    return figure


def forecast_figure(
    compute: Sequence[float], reward: Sequence[float], rows: Sequence[Cutoff], title: str
) -> Figure:
    """Points, and above each cutoff what was predicted from there for the last evaluation, with its interval."""
    figure = _empty("compute; a forecast stands at the compute it was made from")
    _points(figure, np.asarray(compute), np.asarray(reward), "evaluations", COLOURS[0])
    if made := [row for row in rows if row.predicted is not None and row.interval is not None]:
        value = np.array([row.predicted for row in made])
        lo, hi = np.array([row.interval for row in made]).T
        figure.add_scatter(
            x=[row.cutoff for row in made],
            y=value,
            mode="markers",
            name=f"forecast of the last, {100 * made[0].level:g} % interval",
            marker={"color": COLOURS[1], "size": 9},
            error_y={"type": "data", "symmetric": False, "array": hi - value, "arrayminus": value - lo},
        )
    if rows:
        figure.add_hline(y=rows[0].came, line_dash="dot", annotation_text=f"came {rows[0].came:.3f}")
    figure.update_layout(title=title)
    return figure


def ceiling_text(fitted: Fit) -> str:
    """The ceiling with its interval, or why there is none."""
    if fitted.params is None or fitted.status != "ok":
        return fitted.message
    lo, hi = ("open" if end is None else f"{end:.3f}" for end in fitted.interval("A"))
    return f"ceiling {fitted.params['A']:.3f} [{lo}, {hi}] ({100 * fitted.level:g} %)"


def _empty(x: str) -> Figure:
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.update_layout(template="plotly_white", xaxis_title=x, yaxis_title="pass rate", xaxis_type="log")
    return figure


def _points(figure: Figure, compute: Array, reward: Array, name: str, colour: str) -> None:
    figure.add_scatter(x=compute, y=reward, mode="markers", name=name, marker={"color": colour, "size": 5})


def _curve(figure: Figure, fitted: Fit, colour: str, end: float) -> None:
    at = np.geomspace(fitted.window[0], end, _NODES)
    lo, hi = fitted.predict_interval(at)
    hidden = {"showlegend": False, "hoverinfo": "skip"}
    outline = np.concatenate([at, at[::-1]]), np.concatenate([hi, lo[::-1]])
    figure.add_scatter(
        x=outline[0],
        y=outline[1],
        fill="toself",
        mode="lines",
        line={"width": 0},
        fillcolor=colour,
        opacity=_FAINT,
        **hidden,
    )
    figure.add_scatter(x=at, y=fitted.predict(at), mode="lines", line={"color": colour}, showlegend=False)
    if fitted.status == "ok" and fitted.params is not None:
        figure.add_hline(y=fitted.params["A"], line_dash="dash", line_color=colour, line_width=1)
