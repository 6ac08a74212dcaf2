"""A chart as shapes and words, which SVG and PDF both draw. Pure functions; colours are names of tokens.

The picture of a shared link draws with Pillow from the same drawing (`webapp.reporting.shares.picture`), whose marks
these are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from webapp.reporting.shares.drawing import Band, Ceiling, Drawing, Key, Line, Points
from webapp.reporting.shares.frame import Frame
from webapp.reporting.shares.picture import DASHES, shape

XY = tuple[float, float]
WIDTH, HEIGHT = 720.0, 380.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 708.0, 12.0, 336.0
LEGEND_ROW, MARK_RADIUS, LONGEST = 18.0, 3.6, 62
MOST_KEYS = 12
SCALE_OF_DASHES = 0.5  # they are measured for a picture twice as large


@dataclass(frozen=True)
class Shape:
    """A polygon or a polyline. dash: drawn and left out, in pixels; inside: cut off at the frame."""

    path: tuple[XY, ...]
    fill: str = ""
    opacity: float = 1.0
    stroke: str = ""
    width: float = 1.0
    dash: tuple[float, float] | None = None
    inside: bool = True


@dataclass(frozen=True)
class Words:
    """Text with its baseline at `at`; align: start, middle or end."""

    at: XY
    text: str
    ink: str = "ink-3"
    align: str = "start"


@dataclass(frozen=True)
class Scene:
    """A chart to be drawn: the size, the frame (left, top, right, bottom), shapes in their order, then words."""

    width: float
    height: float
    frame: tuple[float, float, float, float]
    shapes: tuple[Shape, ...]
    words: tuple[Words, ...]


def drawing_of(payload: dict) -> Drawing:
    """A drawing out of its JSON (`Drawing.as_json`), also one that was frozen."""
    ceiling = payload["ceiling"]
    return Drawing(
        heading=payload["heading"], y_label=payload["y_label"], x_label=payload["x_label"], scale=payload["scale"],
        x_range=tuple(payload["x_range"]), y_range=tuple(payload["y_range"]),
        bands=tuple(Band(**each) for each in payload["bands"]),
        lines=tuple(Line(**each) for each in payload["lines"]),
        points=tuple(Points(**each) for each in payload["points"]),
        ceiling=Ceiling(**ceiling) if ceiling else None,
        window=tuple(payload["window"]) if payload["window"] else None,
        legend=tuple(Key(**each) for each in payload["legend"]),
        sentences=tuple(payload["sentences"]),
        missing=tuple(payload.get("missing", ())),
    )  # fmt: skip


def scene_of(drawing: Drawing, *, legend: bool = True) -> Scene:
    """The whole chart; `legend` adds the curves with their ceilings above it."""
    keys = drawing.legend[:MOST_KEYS] if legend else ()
    top = TOP + LEGEND_ROW * len(keys)
    frame = Frame(LEFT, top, RIGHT, BOTTOM + top - TOP, drawing)
    shapes = _grid(frame) + _grounds(drawing, frame) + _curves(drawing, frame) + _marks(drawing, frame)
    words = _axis_words(drawing, frame)
    shapes += _ceiling_line(drawing.ceiling, frame)
    words += _ceiling_words(drawing.ceiling, frame)
    for place, key in enumerate(keys):
        shapes += _key(key, place)
        words.append(
            Words(
                (20.0, TOP + 4 + LEGEND_ROW * place),
                _short(f"{key.label}: {key.detail}", 110),
                "ink-2",
            )
        )
    if drawing.is_empty:
        words.append(
            Words(((LEFT + RIGHT) / 2, (top + frame.bottom) / 2), drawing.why_empty, "ink-2", "middle")
        )
    size = (LEFT, top, RIGHT, frame.bottom)
    return Scene(WIDTH, HEIGHT + top - TOP, size, tuple(shapes), tuple(words))


def ink_of(series: int) -> str:
    """The token of a series."""
    return f"c{series % 6 + 1}"


def _short(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _grid(frame: Frame) -> list[Shape]:
    return [
        Shape(((LEFT, frame.y(value)), (RIGHT, frame.y(value))), stroke="line", inside=False)
        for value, _ in frame.y_ticks()
    ]


def _axis_words(drawing: Drawing, frame: Frame) -> list[Words]:
    base = frame.bottom
    words = [Words((LEFT - 8, frame.y(value) + 4), text, align="end") for value, text in frame.y_ticks()]
    words += [Words((frame.x(value), base + 16), text, align="middle") for value, text in frame.x_ticks()]
    words.append(Words((RIGHT, base + 36), drawing.x_label, "ink-2", "end"))
    words.append(Words((LEFT, base + 36), drawing.y_label, "ink-2"))
    return words


def _grounds(drawing: Drawing, frame: Frame) -> list[Shape]:
    """The fitted window and the intervals, which are seen through."""
    found: list[Shape] = []
    if drawing.window:
        lo, hi = (frame.x(end) for end in drawing.window)
        corners = ((lo, frame.top), (hi, frame.top), (hi, frame.bottom), (lo, frame.bottom))
        found.append(Shape(corners, fill="accent", opacity=0.06))
    for band in drawing.bands:
        edge = frame.path(band.x, band.hi) + frame.path(band.x, band.lo)[::-1]
        if len(edge) > 2:
            found.append(Shape(tuple(edge), fill=ink_of(band.series), opacity=0.15))
    return found


def _curves(drawing: Drawing, frame: Frame) -> list[Shape]:
    found = []
    for line in drawing.lines:
        path = frame.path(line.x, line.y)
        pattern = DASHES[line.style]
        dash = tuple(SCALE_OF_DASHES * size for size in pattern) if pattern else None
        if len(path) > 1:
            found.append(Shape(tuple(path), stroke=ink_of(line.series), width=2.0, dash=dash))  # type: ignore[arg-type]
    return found


def _marks(drawing: Drawing, frame: Frame) -> list[Shape]:
    return [
        _mark(at, points.series, points.role)
        for points in drawing.points
        for at in frame.path(points.x, points.y)
    ]


def _mark(at: XY, series: int, role: str) -> Shape:
    """A point: colour and shape change together, as on the pages."""
    if role == "excluded":
        return Shape(tuple(shape(at, 0, MARK_RADIUS)), fill="card", stroke="mark", width=1.2)
    if role == "outlier":
        return Shape(tuple(shape(at, 5, MARK_RADIUS)), fill="bad")
    if role == "after":
        return Shape(tuple(shape(at, 0, MARK_RADIUS)), fill="card", stroke=ink_of(series), width=1.4)
    return Shape(tuple(shape(at, series % 6, MARK_RADIUS)), fill=ink_of(series))


def _key(key: Key, place: int) -> list[Shape]:
    corners = tuple(shape((9.0, TOP + LEGEND_ROW * place), key.series % 6, 4.0))
    ink = ink_of(key.series)
    return [Shape(corners, fill="card" if key.hollow else ink, stroke=ink, width=1.2, inside=False)]


def _ceiling_line(ceiling: Ceiling | None, frame: Frame) -> list[Shape]:
    if ceiling is None or ceiling.height is None:
        return []
    y = frame.y(ceiling.height)
    return [
        Shape(((LEFT, y), (RIGHT, y)), stroke="accent" if ceiling.identified else "mark", dash=(2.0, 4.0))
    ]


def _ceiling_words(ceiling: Ceiling | None, frame: Frame) -> list[Words]:
    if ceiling is None or ceiling.height is None:
        return []
    words = ceiling.words if ceiling.identified else f"at or above this line: {ceiling.words}"
    return [
        Words(
            (LEFT + 6, frame.y(ceiling.height) - 6),
            _short(words, 100),
            "accent" if ceiling.identified else "ink-2",
        )
    ]


def described(drawing: Drawing) -> str:
    """What the chart is and says, for those who do not see it."""
    said: Sequence[str] = drawing.sentences[:2]
    return " ".join([f"{drawing.heading}: {drawing.y_label} against {drawing.x_label.lower()}.", *said])
