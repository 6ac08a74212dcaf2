"""A shared chart as data: what the page's Plotly and the server's picture both draw. Pure functions of payloads.

Nothing is computed here but where the frame ends; every number comes out of the payloads of `webapp.science.curves`.

A chart's values as a table, for charts that no script of the page draws.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from webapp.record.runs.models import Run
from webapp.science.curves.words import amount

Payload = dict[str, Any]
Numbers = Sequence[float]
Y_LABELS = {"rate": "Held-out pass rate", "share": "Share of the gain A − R0"}
PIXELS = (1200, 630)  # of the picture that a link unfurls to
RIVAL = 2  # the series of a rival's curve
ROLES = ("excluded", "outlier", "fitted", "after")  # in the order in which they are drawn


@dataclass(frozen=True)
class Line:
    """A curve; `style`: "solid" where points were fitted, "dashed" beyond, "dotted" as published."""

    x: Numbers
    y: Numbers
    series: int
    style: str


@dataclass(frozen=True)
class Band:
    """The interval of a curve."""

    x: Numbers
    lo: Numbers
    hi: Numbers
    series: int


@dataclass(frozen=True)
class Points:
    """Evaluations; `role`: "fitted", "excluded" (hollow, grey), "outlier" (a cross) or "after" the cutoff (hollow,
    second colour).
    """

    x: Numbers
    y: Numbers
    series: int
    role: str
    label: str


@dataclass(frozen=True)
class Ceiling:
    """A horizontal line with its words: the ceiling with its interval, or the bound where it is not identified. Without
    a height there are the words alone."""

    height: float | None
    identified: bool
    words: str


@dataclass(frozen=True)
class Target:
    """A claim where it is judged, with its interval (None: a claim without a value), and what came there by run."""

    x: float
    value: float | None
    lo: float | None
    hi: float | None
    words: str
    came: tuple[float, ...] = ()
    rival: str = ""  # whose frozen curve is drawn as series RIVAL, of a claim about two


@dataclass(frozen=True)
class Key:
    """A curve in the legend with its ceiling in words."""

    label: str
    detail: str
    series: int
    hollow: bool


@dataclass(frozen=True)
class Drawing:
    """A whole chart. `x_range` and `y_range` are in the units of the axes, whatever the scale.

    `missing`: what it does not show and why, as evaluations whose compute nobody knows; said wherever it is drawn.
    """

    heading: str  # what is drawn: run and recipe
    y_label: str
    x_label: str
    scale: str  # log or linear
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    bands: tuple[Band, ...]
    lines: tuple[Line, ...]
    points: tuple[Points, ...]
    ceiling: Ceiling | None
    window: tuple[float, float] | None
    legend: tuple[Key, ...]
    sentences: tuple[str, ...]
    target: Target | None = None
    missing: tuple[str, ...] = ()

    @property
    def why_empty(self) -> str:
        """A title for a chart without anything on it."""
        return "Nothing to draw on this axis" if self.missing else "No evaluation yet"

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw yet."""
        return not self.lines and not any(len(each.x) for each in self.points)

    @property
    def is_unfitted(self) -> bool:
        """Whether no curve is drawn: its points are evaluations, and nothing was fitted to them."""
        return not self.lines

    @property
    def roles(self) -> set[str]:
        """The roles that some point has: what a legend has to explain."""
        return {each.role for each in self.points if len(each.x)}

    def as_json(self) -> Payload:
        """For the page's script. What is optional is left out where it is empty: published reports are compared."""
        said = asdict(self) | {"is_empty": self.is_empty}
        return {name: value for name, value in said.items() if value or name not in ("target", "missing")}

    @classmethod
    def from_json(cls, payload: Payload) -> "Drawing":
        """Out of `as_json`, also of one that was frozen in a report, which has no target."""
        ceiling, window = payload["ceiling"], payload["window"]
        parts = {"bands": Band, "lines": Line, "points": Points, "legend": Key}
        said: Payload = {name: payload[name] for name in ("heading", "y_label", "x_label", "scale")}
        said |= {name: tuple(of(**each) for each in payload[name]) for name, of in parts.items()}
        said |= {
            name: tuple(payload.get(name, ())) for name in ("x_range", "y_range", "sentences", "missing")
        }
        ends = tuple(window) if window else None
        return cls(**said, ceiling=Ceiling(**ceiling) if ceiling else None, window=ends)


def run_drawing(run: Run, figure: Payload, scale: str) -> Drawing:
    """The chart of one run, from the payload of `run_figure`."""
    fit, forecast = figure["fit"], figure["forecast"]
    drawn = forecast["drawn"] if forecast else None
    bands = (Band(drawn["band"]["x"], drawn["band"]["lo"], drawn["band"]["hi"], 0),) if drawn else ()
    lines = lines_of(drawn, 0) if drawn else ()
    points = tuple(points_of(figure["points"], role) for role in ROLES)
    ceiling = ceiling_of(forecast["ceiling"]) if drawn else None
    recipe = f", {run.revision}" if run.revision else ""
    return Drawing(
        heading=f"{run.name}{recipe} on {run.task}, {run.model}",
        y_label=figure["metric_label"],
        x_label=figure["x"]["label"],
        scale=scale,
        x_range=x_range(scale, lines, points),
        y_range=y_range(lines, points, forecast["ceiling"] if drawn else None),
        bands=bands,
        lines=lines,
        points=points,
        ceiling=ceiling,
        window=(fit["window"][0], fit["window"][1]) if fit else None,
        legend=(),
        sentences=_run_sentences(figure),
        missing=(figure["unknown"],) if figure["unknown"] else (),
    )


def lines_of(fit: Payload, series: int) -> tuple[Line, ...]:
    """A curve with its dashed end."""
    return (
        Line(fit["solid"]["x"], fit["solid"]["y"], series, "solid"),
        Line(fit["dashed"]["x"], fit["dashed"]["y"], series, "dashed"),
    )


def points_of(points: Payload, role: str) -> Points:
    """The points of a payload that have this role."""
    chosen = [index for index, each in enumerate(points["role"]) if each == role]
    x, y = ([points[name][index] for index in chosen] for name in ("x", "y"))
    return Points(x, y, 1 if role == "after" else 0, role, role)


def ceiling_of(ceiling: Payload) -> Ceiling:
    """The line of a forecast ceiling with its words; the words alone where it is not known."""
    words = f"forecast ceiling {ceiling['text']}, {ceiling['interval_text']}"
    return Ceiling(ceiling["value"], ceiling["identified"], words)


def _run_sentences(figure: Payload) -> tuple[str, ...]:
    """The forecast ceiling and A of Eq. 1, each named; then how well that fits, and what came after the cutoff."""
    forecast, paper, after = figure["forecast"], figure["ceiling"], figure["after"]
    said = []
    if forecast:
        ceiling = forecast["ceiling"]
        said = (
            [f"Forecast ceiling {ceiling['text']}, {ceiling['interval_text']}."]
            if ceiling["lo"] is not None
            else []
        )
        said += [forecast["sentence"]] if forecast["sentence"] else []
    said += [f"A of Eq. 1 {paper['text']}, {paper['interval_text']}."] if paper["lo"] is not None else []
    return tuple(said + [figure["fit_sentence"]] + ([after["sentence"]] if after else []))


def comparison_drawing(payload: Payload, scale: str) -> Drawing:
    """The overlay of a comparison, from the payload of `comparison`."""
    order = {row["id"]: _place(row, index) for index, row in enumerate(payload["table"])}
    placed = [(series, order.get(series["id"], len(order))) for series in payload["series"]]
    fits = [(series["fit"], place) for series, place in placed if series["fit"]]
    lines = [line for one, place in placed if one["fit"] for line in _comparison_lines(one, place)]
    bands = [Band(fit["x"], fit["lo"], fit["hi"], place) for fit, place in fits if fit["lo"]]
    points = [
        Points(series["points"]["x"], series["points"]["y"], place, "fitted", series["label"])
        for series, place in placed
        if series["points"]
    ]
    legend = tuple(_key(row, _place(row, index)) for index, row in enumerate(payload["table"]))
    rest = len(payload["table"]) - 3
    return Drawing(
        heading=" against ".join(row["label"] for row in payload["table"][:3])
        + (f" and {rest} more" if rest > 0 else ""),
        y_label=payload.get("y_label") or Y_LABELS[payload["view"]],
        x_label=payload["x"]["label"],
        scale=scale,
        x_range=x_range(scale, lines, points),
        y_range=y_range(lines, points, None),
        bands=tuple(bands),
        lines=tuple(lines),
        points=tuple(points),
        ceiling=None,
        window=None,
        legend=legend,
        sentences=tuple(payload["sentences"]),
        missing=tuple(payload["missing"]),
    )


def _place(row: Payload, index: int) -> int:
    """The series of a row of the table: what it says itself, else its place in the table."""
    return row.get("series", index)


def _key(row: Payload, index: int) -> Key:
    published = row["kind"] == "published"
    name, ceiling = ("", row["ceiling"]) if published else ("forecast ", row["forecast_ceiling"])
    ends = f", {ceiling['interval_text']}" if ceiling["interval_text"] else ""
    return Key(row["label"], f"{name}ceiling {ceiling['text']}{ends}", index, published)


def _comparison_lines(series: Payload, index: int) -> list[Line]:
    fit = series["fit"]
    if series["kind"] == "published" or fit["solid_until"] is None:
        return [Line(fit["x"], fit["y"], index, "dotted")]
    split = next((at for at, x in enumerate(fit["x"]) if x > fit["solid_until"]), len(fit["x"]))
    start = max(0, split - 1)
    return [
        Line(fit["x"][:split], fit["y"][:split], index, "solid"),
        Line(fit["x"][start:], fit["y"][start:], index, "dashed"),
    ]


def x_range(scale: str, lines: Sequence[Line], points: Sequence[Points]) -> tuple[float, float]:
    """From the first to the last x that is drawn, with a little room; (0.01, 1) where there is none."""
    drawn: list[Line | Points] = [*lines, *points]
    if not (xs := [x for each in drawn for x in each.x if scale == "linear" or x > 0]):
        return (0.01, 1.0) if scale == "log" else (0.0, 1.0)
    if scale == "linear":
        return 0.0, max(xs) * 1.03
    return min(xs) * 0.85, max(xs) * 1.1


def y_range(lines: Sequence[Line], points: Sequence[Points], ceiling: Payload | None) -> tuple[float, float]:
    """Room for curves, points and the ceiling with its interval; a band that is wider than that leaves the frame."""
    drawn: list[Line | Points] = [*lines, *points]
    ys = [y for each in drawn for y in each.y if y is not None]
    if ceiling:
        ys += [ceiling[end] for end in ("value", "lo", "hi") if ceiling["value"] is not None]
    if not ys:
        return 0.0, 1.0
    pad = max(0.02, (max(ys) - min(ys)) * 0.08)
    return min(ys) - pad, max(ys) + 1.5 * pad


MOST_ROWS = 20  # of a series; nobody reads more
STYLES = {"solid": "curve", "dashed": "curve, beyond", "dotted": "curve, as published"}
T = TypeVar("T")


@dataclass(frozen=True)
class Values:
    """What `templates/_values.html` lays out."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def evenly(values: Sequence[T], most: int = MOST_ROWS) -> list[T]:
    """At most so many of them, the first and the last among these."""
    last = len(values) - 1
    return list(values) if last < most else [values[i * last // (most - 1)] for i in range(most)]


def values_of(drawing: Drawing) -> Values:
    """Points, then curves."""
    names = {key.series: f"{key.label}, " for key in drawing.legend}
    found: list[tuple[str, Sequence[float], Sequence[float]]] = [
        (each.label, each.x, each.y) for each in drawing.points
    ]
    found += [(names.get(one.series, "") + STYLES[one.style], one.x, one.y) for one in drawing.lines]
    rows = [
        [name, amount(x), "–" if y is None else amount(y)]
        for name, xs, ys in found
        for x, y in evenly(list(zip(xs, ys, strict=True)))
    ]
    return Values(["Series", drawing.x_label, drawing.y_label], rows)


def side_by_side(x: str, columns: Iterable[tuple[str, Mapping[Any, str]]], places: Iterable[float]) -> Values:
    """A column for each series, (its title, place -> value), and a row for some of the places."""
    series = list(columns)
    rows = [
        [amount(place, counted=True), *(values.get(place, "–") for _, values in series)]
        for place in evenly(sorted(set(places)))
    ]
    return Values([x, *(title for title, _ in series)], rows)
