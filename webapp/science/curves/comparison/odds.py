"""At one budget: what each is forecast to reach with its interval, and how likely each is the best; and where the
forecasts cross. All by `scaling.ranking`, from stored forecasts, so that a slider can ask often.

Which of the chosen can be told apart, in the sentences of `webapp.science.curves.ranking.standing`.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from scaling import ranking, recipes
from webapp.science.curves.comparison.entries import PUBLISHED, Entry
from webapp.science.curves.ranking import standing
from webapp.science.curves.words import AXES, DEFAULT_AXIS, DEFAULT_LEVEL, Axis, Payload, count, percent

PAIRS_UP_TO = 3  # entries, of which every pair is told
AllCompared = dict[
    tuple[str, str], tuple[list[Entry], ranking.Compared]
]  # task and model: rivals, and what came of them
STOPS = 120  # of the slider
CROSSINGS_UP_TO = 6  # entries: fifteen pairs
_GRID = 60


def compare(
    rivals: Sequence[Entry], compute: float | None = None, *, level: float = DEFAULT_LEVEL
) -> ranking.Compared:
    """Rivals at `compute`, else at the largest that any of their runs has seen; `level` of each one's interval."""
    return ranking.compared([entry.courses for entry in rivals], rivals[0].between, compute, level=level)


def by_rivals(entries: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """Entries by task and model, without the published: those are of other tasks."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.kind != PUBLISHED:
            groups.setdefault(entry.rivals, []).append(entry)
    return groups


def all_compared(entries: Sequence[Entry]) -> AllCompared:
    """Those of each task and model with what came of comparing them."""
    return {group: (rivals, compare(rivals)) for group, rivals in by_rivals(entries).items()}


def sentences(
    entries: Sequence[Entry],
    found: AllCompared,
    view: str,
    x: str = DEFAULT_AXIS,
    *,
    unfitted: str = "",
) -> list[str]:
    """What can be told apart of what `all_compared` found, and what cannot be compared at all. `unfitted`: why none of
    them has a fit, which keeps those without a forecast from being compared."""
    own = [entry for entry in entries if entry.kind != PUBLISHED]
    groups = {group: rivals for group, (rivals, _) in found.items()}
    several = [each for each in found.values() if len(each[0]) > 1]
    ordered = [sentence for rivals, compared in several for sentence in _of_rivals(rivals, compared, x)]
    if unfitted and several and not any(entry.reach for entry in own):
        ordered = [f"Nothing can be said of their order. {unfitted}"]
    said = ordered + _apart(groups)
    published = len(entries) > len(own)
    if published and view == "rate":
        said.append(
            "Published curves state no R0, so they cannot be drawn as pass rates; "
            "switch to the share of the gain to see their shapes."
        )
    if published and own:
        said.append("Published pass rates are of other tasks and models: compare shapes, not heights.")
    return said


def _apart(groups: dict[tuple[str, str], list[Entry]]) -> list[str]:
    if len(groups) < 2:
        return []
    if all(len(rivals) == 1 for rivals in groups.values()) and len(groups) == 2:
        a, b = (rivals[0].label for rivals in groups.values())
        return [f"{a} and {b} differ in task or model: they are not rivals."]
    parts = [f"{task}, {model} ({count(len(rivals), 'curve')})" for (task, model), rivals in groups.items()]
    return [
        f"The chosen differ in task or model: {'; '.join(parts)}. They are ranked within each, not across."
    ]


def _of_rivals(rivals: list[Entry], found: ranking.Compared, x: str) -> list[str]:
    """Every pair of a few, and what their seeds say; of more, who is ahead."""
    names = [entry.label for entry in rivals]
    if len(rivals) > PAIRS_UP_TO or not found.here.in_order():
        return standing.answer(names, found, x)
    pairs = [standing.pair(names, found, a, b, x) for a, b in combinations(range(len(rivals)), 2)]
    return [*pairs, standing.seeds_sentence(found)]


def budget_stops(entries: Sequence[Entry]) -> list[float]:
    """Budgets with three digits, even in log compute, from the first compute fitted to ten times the last.

    Empty where nothing is forecast.
    """
    if not (reaches := [entry.reach for entry in entries if entry.reach is not None]):
        return []
    lo, hi = min(r[0] for r in reaches), ranking.AHEAD * max(r[1] for r in reaches)
    return sorted({float(f"{stop:.3g}") for stop in np.geomspace(lo, hi, STOPS)})


def default_budget(entries: Sequence[Entry]) -> float | None:
    """The largest compute that any of them has seen; None where nothing is forecast."""
    return max((entry.reach[1] for entry in entries if entry.reach is not None), default=None)


def at_budget(entries: Sequence[Entry], budget: float, x: str) -> Payload:
    """Rows with what each is forecast to reach at `budget`, the best first, and sentences."""
    found = [(rivals, compare(rivals, budget)) for rivals in by_rivals(entries).values()]
    order = {entry.key: index for index, entry in enumerate(entries)}
    rows = []
    for rivals, compared in found:
        places = compared.here.all_in_order()
        rows += [_row(rivals[place], budget, standing.told(compared, place)) for place in places]
    several = [(rivals, compared) for rivals, compared in found if len(rivals) > 1]
    said = ""
    if len(several) == 1:
        said = standing.headline([entry.label for entry in several[0][0]], several[0][1], x)
    return {
        "budget": budget,
        "budget_input": f"{budget:.6g}",
        "budget_text": AXES[x].short_text(budget),
        "rows": [row | {"series": order[row["id"]]} for row in rows],
        "sentence": said,
        "note": "Each competes with those of its own task and model only." if len(several) > 1 else "",
    }


def _row(entry: Entry, budget: float, told: Payload) -> Payload:
    seen = entry.reach[1] if entry.reach else None
    return {
        "id": entry.key,
        "label": entry.label,
        "kind": entry.kind,
        "value": told["at_budget"],
        "lo": told["at_budget_lo"],
        "hi": told["at_budget_hi"],
        "text": told["at_budget_text"],
        "interval_text": told["at_budget_span"],
        "rank": told["rank"],
        "tied": told["tied"],
        "chance": told["at_budget_chance"],
        "chance_text": told["at_budget_chance_text"],
        "ahead": budget / seen if seen else None,
        "ahead_text": _ahead(budget, seen) if seen else "no forecast",
    }


def _ahead(budget: float, last: float) -> str:
    if budget <= last * 1.005:
        return ""
    return f"{budget / last:.{1 if budget > 1.1 * last else 2}f} × as far as it has been seen"


def crossings(entries: Sequence[Entry], x: str) -> Payload:
    """Where the forecasts of rivals cross, as marks and sentences."""
    own = [entry for entry in entries if entry.kind != PUBLISHED and entry.reach is not None]
    if len(own) > CROSSINGS_UP_TO:
        said = f"Crossings are worked out for up to {CROSSINGS_UP_TO} series; choose fewer to see them."
        return {"marks": [], "sentences": [], "note": said}
    pairs = [(a, b) for rivals in by_rivals(own).values() for a, b in combinations(rivals, 2)]
    found = [_pair(a, b, AXES[x]) for a, b in pairs]
    return {
        "marks": [one["mark"] for one in found if one["mark"] is not None],
        "sentences": [one["sentence"] for one in found],
        "note": "",
    }


def _pair(a: Entry, b: Entry, axis: Axis) -> Payload:
    """Of two rivals, as far as both are compared."""
    assert a.reach is not None and b.reach is not None
    grid = np.geomspace(min(a.reach[0], b.reach[0]), ranking.AHEAD * max(a.reach[1], b.reach[1]), _GRID)
    at = [compare([a, b], float(c), level=ranking.REAL).here for c in grid]
    both = [place for place, one in enumerate(at) if None not in one.means]
    if len(both) < 2:
        return {
            "mark": None,
            "sentence": f"{a.label} and {b.label} are forecast at no compute that they share.",
        }
    first, second = (_columns([at[place].interval(side) for place in both]) for side in (0, 1))
    return _said(a, b, first, recipes.crossing_of_means(first, second, grid[both]), axis)


def _columns(intervals: Sequence[Any]) -> recipes.Columns:
    value, lo, hi = np.array(intervals, dtype=float).T
    return recipes.Columns(value, lo, hi, np.ones(len(value), int), ranking.REAL)


def _said(a: Entry, b: Entry, values: recipes.Columns, crossing: recipes.MeanCrossing, axis: Axis) -> Payload:
    end = axis.short_text(crossing.within[1])
    names = f"{a.label} and {b.label}"
    above = {True: f"at {end} {a.label} is above", False: f"at {end} {b.label} is above"}
    after = above[crossing.a_after] if crossing.a_after is not None else f"at {end} either may be above"
    level = percent(crossing.level)
    if crossing.compute is None:
        return {
            "mark": None,
            "sentence": f"The forecasts of {names} do not cross up to {end}; {after} ({level}).",
        }
    lo, hi = crossing.interval
    start = "the first evaluation" if lo is None else axis.short_text(lo)
    stretch = f"{start} on" if hi is None else f"{start} to {axis.short_text(hi)}"
    return {
        "mark": _mark(a, b, crossing, values),
        "sentence": f"The forecasts of {names} cross at {axis.short_text(crossing.compute)}; their order is open from "
        f"{stretch} ({level}); {after}.",
    }


def _mark(a: Entry, b: Entry, crossing: recipes.MeanCrossing, values: recipes.Columns) -> Payload:
    (lo, hi), at = crossing.interval, crossing.compute
    grid = np.geomspace(*crossing.within, len(values.value))
    y = float(np.interp(np.log(at or grid[0]), np.log(grid), values.value))
    label = f"{a.label} and {b.label}"
    return {"x": at, "y": y, "lo": lo, "hi": hi, "label": label, "ids": [a.key, b.key]}
