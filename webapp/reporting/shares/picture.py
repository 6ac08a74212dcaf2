"""Charts as pictures: the PNG that a shared link unfurls to, and the SVG in a report's file. Drawn with matplotlib from
the same `Drawing` as the page's Plotly.

Import this where a picture is made: matplotlib takes half a second and some memory, and few requests want it.

The design tokens of static/css/tokens.css as data: for what is drawn on the server, and for tests.
"""

import io
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import matplotlib
import numpy as np
from django.conf import settings
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.ticker import LogLocator, NullLocator

from webapp.reporting.shares.drawing import PIXELS, RIVAL, Ceiling, Drawing, Key, Points

_PAIR = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)")
Colours = dict[str, str]


@cache
def colours(theme: str = "light") -> Colours:
    """Token -> "#rrggbb" in the theme "light" or "dark"."""
    text = (settings.BASE_DIR / "static" / "css" / "tokens.css").read_text()
    place = ("light", "dark").index(theme)
    return {name: pair[place] for name, *pair in _PAIR.findall(text)}


Inks = Mapping[str, str]  # token -> "#rrggbb"
WIDTH, HEIGHT, LEGEND_ROW = 10.0, 5.25, 0.22  # inches; a point is a pixel of the SVG
MOST_KEYS = 5  # on a picture of a fixed size
MARKS = "os^DvX"  # of the series, as on the pages
DASHES = {"solid": "-", "dashed": (0, (3.5, 2.7)), "dotted": (0, (1, 2.2))}
FAINT = (0, (2, 4))
LINE, MARK, TEXT, TITLE = 2.2, 6.5, 11, 22  # points
ROOM, NAME_ROOM = 650, 260  # points for a line of words, and for a curve's name in it
NO_DATES = {"png": {"Software": None}, "svg": dict.fromkeys(("Creator", "Date", "Format", "Type"))}

matplotlib.rcParams.update(
    {
        "font.family": "DejaVu Sans", "font.size": TEXT, "text.parse_math": False, "axes.unicode_minus": False,
        "svg.fonttype": "none", "svg.hashsalt": "headroom",
    }
)  # fmt: skip
warnings.filterwarnings("ignore", "Glyph .* missing from font")  # of a name: a box stands in its place
_ONE_AT_A_TIME = threading.Lock()  # matplotlib promises nothing to threads


def png_of(drawing: Drawing, title: str) -> bytes:
    """The chart with its title, its sentence or its legend, and where it comes from, in light colours."""
    inks = colours("light")
    with _ONE_AT_A_TIME:
        return _saved(figure_of(drawing, inks, title), "png")


def svg_of(drawing: Drawing) -> str:
    """The chart with its legend as an element of HTML, whose colours are the tokens of the page around it."""
    inks = {name: f"#{number:06x}" for number, name in enumerate(colours())}
    with _ONE_AT_A_TIME:
        text = _saved(figure_of(drawing, inks), "svg").decode()
    for name, ink in inks.items():
        text = text.replace(ink, f"var(--{name})")
    return text[text.index("<svg") :]


def _saved(figure: Figure, kind: str) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=PIXELS[0] / WIDTH, metadata=NO_DATES[kind])
    return out.getvalue()


def figure_of(drawing: Drawing, inks: Inks, title: str = "") -> Figure:
    """The chart; with a title as a picture that stands alone, without one as high as its legend wants."""
    keys = drawing.legend[:MOST_KEYS] if title else drawing.legend
    height = HEIGHT if title else HEIGHT + LEGEND_ROW * len(keys)
    figure = Figure((WIDTH, height), layout="constrained", facecolor=inks["card"])
    axes = _axes(figure, drawing, inks)
    _draw_curves(axes, drawing, inks)
    _draw_ceiling(axes, drawing.ceiling, inks)
    _draw_target(axes, drawing, inks)
    if drawing.is_empty:
        axes.text(
            0.5, 0.5, drawing.why_empty, transform=axes.transAxes, ha="center", size=14, color=inks["ink-2"]
        )
    words = [*drawing.sentences[: 0 if keys else 1], *drawing.missing] if title else []
    _draw_legend(axes, drawing, keys, words, inks)
    if title:
        style: Any = {"x": 0.03, "ha": "left"}
        said = _short(title, ROOM, TITLE, "bold")
        figure.suptitle(said, size=TITLE, weight="bold", color=inks["ink"], **style)
        figure.supxlabel(
            _short(f"Headroom: {drawing.heading}", ROOM), size=TEXT, color=inks["accent"], **style
        )
    return figure


def _axes(figure: Figure, drawing: Drawing, inks: Inks) -> Axes:
    """Quiet grid, ticks, and what the axes are."""
    axes = figure.add_subplot(facecolor=inks["card"])
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.08)  # type: ignore[union-attr, call-arg]  # inches
    axes.set(xlim=drawing.x_range, ylim=drawing.y_range)
    if drawing.scale == "log":
        lo, hi = drawing.x_range
        axes.set_xscale("log", nonpositive="mask")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if hi < 1000 * lo else (1,), numticks=9))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: tick_text(value))
    axes.set_xlabel(drawing.x_label, loc="right", color=inks["ink-2"])
    axes.set_ylabel(drawing.y_label, loc="top", color=inks["ink-2"])
    axes.tick_params(length=0, labelcolor=inks["ink-3"])
    axes.spines[:].set_visible(False)
    axes.grid(axis="y", color=inks["line"])
    return axes


def tick_text(value: float) -> str:
    """0.01, 20, 5k or 2e18, as the pages' charts write it."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def _ink(inks: Inks, series: int) -> str:
    return inks[f"c{series % 6 + 1}"]


def _numbers(values: Sequence[float | None]) -> Any:
    """What is not known leaves a gap."""
    return np.array(values, dtype=float)


def _draw_curves(axes: Axes, drawing: Drawing, inks: Inks) -> None:
    """Window and intervals, which are seen through, then curves and points."""
    if drawing.window:
        axes.axvspan(*drawing.window, color=inks["accent"], alpha=0.06, lw=0)
    for band in drawing.bands:
        edges = (_numbers(each) for each in (band.x, band.lo, band.hi))
        axes.fill_between(*edges, color=_ink(inks, band.series), alpha=0.15, lw=0)
    for line in drawing.lines:
        style: Any = DASHES[line.style]
        axes.plot(line.x, _numbers(line.y), color=_ink(inks, line.series), ls=style, lw=LINE)
    for points in drawing.points:
        axes.plot(points.x, _numbers(points.y), **_points_style(points, inks))


def _points_style(points: Points, inks: Inks) -> dict[str, Any]:
    """Colour and shape change together."""
    ink = _ink(inks, points.series)
    marks = {
        "excluded": _mark("o", inks["mark"], inks["card"]),
        "outlier": _mark("X", inks["bad"]),
        "after": _mark("o", ink, inks["card"]),
        "fitted": _mark(MARKS[points.series % 6], ink),
    }
    return marks[points.role]


def _mark(shape: str, ink: str, ground: str = "") -> dict[str, Any]:
    return {"ls": "none", "marker": shape, "ms": MARK, "mec": ink, "mfc": ground or ink, "mew": 1.2}


def _draw_ceiling(axes: Axes, ceiling: Ceiling | None, inks: Inks) -> None:
    """The line of a ceiling, or of the bound of one, with its words; without a height the words alone."""
    if ceiling is None:
        return
    ink = inks["accent" if ceiling.identified else "ink-2"]
    if ceiling.height is None:
        _note(axes, ceiling.words, (0, 1), (6, -14), xycoords=axes.transAxes, color=ink)
        return
    axes.axhline(ceiling.height, color=inks["accent" if ceiling.identified else "mark"], lw=1.2, ls=FAINT)
    words = ceiling.words if ceiling.identified else f"at or above this line: {ceiling.words}"
    _note(axes, words, (0, ceiling.height), (6, 5), xycoords=axes.get_yaxis_transform(), color=ink)


def _note(axes: Axes, words: str, at: tuple[float, float], off: tuple[float, float], **style: Any) -> None:
    axes.annotate(_short(words, ROOM - 50), at, off, textcoords="offset points", **style)


def _draw_target(axes: Axes, drawing: Drawing, inks: Inks) -> None:
    """The claim's whisker at its target, squares for what came, and whose curve a second one is."""
    target, ink = drawing.target, inks["accent"]
    if target is None:
        return
    axes.axvline(target.x, color=ink, lw=1.2, ls=FAINT)
    if target.lo is not None and target.hi is not None:
        axes.plot([target.x] * 2, [target.lo, target.hi], color=ink, lw=LINE, marker="_", ms=10, mew=LINE)
    if target.value is not None:
        axes.plot([target.x], [target.value], **_mark("D", ink))
    axes.plot([target.x] * len(target.came), target.came, **_mark("s", inks["c2"]))
    ends = [(line.x[-1], line.y[-1]) for line in drawing.lines if line.series == RIVAL and len(line.x)]
    if target.rival and ends:
        _note(axes, target.rival, ends[-1], (-6, -16), ha="right", color=_ink(inks, RIVAL))


def _draw_legend(axes: Axes, drawing: Drawing, keys: Sequence[Key], words: Sequence[str], inks: Inks) -> None:
    """Above the frame: what is said in words, and of each curve the mark, name and ceiling with its interval."""
    handles = []
    for key in keys:
        style = _mark(MARKS[key.series % 6], _ink(inks, key.series), inks["card"] if key.hollow else "")
        handles.append(Line2D([], [], label=f"{_short(key.label, NAME_ROOM)}: {key.detail}", **style))
    if more := len(drawing.legend) - len(keys):
        handles.append(Line2D([], [], ls="none", label=f"and {more} more"))
    if handles or words:
        legend = axes.legend(
            handles=handles, title="\n".join(_short(each, ROOM, 13) for each in words), title_fontsize=13,
            alignment="left", loc="lower left", bbox_to_anchor=(0, 1), frameon=False, labelcolor=inks["ink-2"],
            borderpad=0, borderaxespad=0.3, handletextpad=0.3, labelspacing=0.3,
        )  # fmt: skip
        legend.get_title().set_color(inks["ink-2"])


def _short(text: str, width: float, size: float = TEXT, weight: str = "normal") -> str:
    """The text on one line, or as much of it as fits into `width` points."""
    text, font = " ".join(text.split()), FontProperties(weight=weight)
    while text and (wide := TextPath((0, 0), text, size=size, prop=font).get_extents().width) > width:
        text = f"{text[: int(len(text) * width / wide) - 2].rstrip('… ')}…"
    return text
