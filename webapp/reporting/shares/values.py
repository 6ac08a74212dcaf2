"""A chart's values as a table, for charts that no script of the page draws."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from webapp.reporting.shares.drawing import Drawing
from webapp.science.curves.words import amount

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
    names = {key.series: key.label for key in drawing.legend}
    found: list[tuple[str, Sequence[float], Sequence[float]]] = [
        (each.label, each.x, each.y) for each in drawing.points
    ]
    for line in drawing.lines:
        name = f"{names[line.series]}, " if line.series in names else ""
        found.append((name + STYLES[line.style], line.x, line.y))
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
