"""At one budget: the expected pass rate of each with its interval, and how likely each is the highest; and where the
curves cross. Every draw is `scaling.draws`', kept from one question to the next, so that a slider can ask often."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

import scaling
from scaling import draws, recipes, versus
from webapp.curves import words
from webapp.curves.axes import AXES, Axis
from webapp.curves.comparison import told_apart
from webapp.curves.comparison.entries import PUBLISHED, Entry

Payload = dict[str, Any]
N = 2000  # draws of each curve: probabilities are good to about 0.01
STOPS = 120  # of the slider
AHEAD = 10.0  # the slider ends this many times beyond the last compute
CROSSINGS_UP_TO = 6  # entries: fifteen pairs
_GRID = 200


def budget_stops(entries: Sequence[Entry]) -> list[float]:
    """Budgets with three digits, even in log compute, from the first compute fitted to ten times the last.

    Empty where nothing is fitted.
    """
    windows = [entry.window for entry in entries if entry.window is not None]
    if not windows:
        return []
    lo, hi = min(w[0] for w in windows), AHEAD * max(w[1] for w in windows)
    return sorted({float(f"{stop:.3g}") for stop in np.geomspace(lo, hi, STOPS)})


def default_budget(entries: Sequence[Entry]) -> float | None:
    """The last compute that any of them has seen, with three digits; None where nothing is fitted."""
    ends = [entry.window[1] for entry in entries if entry.window is not None]
    return float(f"{max(ends):.3g}") if ends else None


def at_budget(entries: Sequence[Entry], budget: float, x: str, *, chances: bool) -> Payload:
    """Rows with the expected pass rate at `budget`, the likeliest highest first, and a sentence.

    chances: whether to work out how likely each is the highest of its rivals; for that the fits must have been made
    now, not read.
    """
    groups = told_apart.by_rivals(entries)
    rows = [row for rivals in groups.values() for row in _of_rivals(rivals, budget, chances)]
    order = {entry.key: index for index, entry in enumerate(entries)}
    many_groups = sum(len(rivals) > 1 for rivals in groups.values()) > 1
    return {
        "budget": budget,
        "budget_input": f"{budget:.6g}",
        "budget_text": AXES[x].short_text(budget),
        "chances": chances,
        "rows": [row | {"series": order[row["id"]]} for row in rows],
        "sentence": "" if many_groups else _sentence(rows, budget, x),
        "note": _note(entries, many_groups),
    }


def _of_rivals(rivals: Sequence[Entry], budget: float, chances: bool) -> list[Payload]:
    drawn = [entry for entry in rivals if entry.window is not None]
    best = dict(zip(drawn, _chances(drawn, budget), strict=True)) if chances and len(drawn) > 1 else {}
    rows = [_row(entry, budget, best.get(entry)) for entry in drawn]
    return sorted(rows, key=lambda row: (-(row["chance"] or 0.0), -(row["value"] or 0.0)))


def _row(entry: Entry, budget: float, chance: float | None) -> Payload:
    columns = entry.at(np.array([budget]))
    value, lo, hi = (float(column[0]) for column in (columns.value, columns.lo, columns.hi))
    ends = (lo if np.isfinite(lo) else None, hi if np.isfinite(hi) else None)
    known = np.isfinite(value) and None not in ends
    window = entry.window or (0.0, 0.0)
    return {
        "id": entry.key,
        "label": entry.label,
        "kind": entry.kind,
        "value": value if known else None,
        "lo": ends[0],
        "hi": ends[1],
        "text": words.rate(value, ends) if known else "–",
        "interval_text": f"{words.rate(ends[0], ends)} to {words.rate(ends[1], ends)}"
        if known
        else "not known",
        "chance": chance,
        "chance_text": "–" if chance is None else draws.chance(chance),
        "ahead": budget / window[1] if window[1] else None,
        "ahead_text": _ahead(budget, window[1]),
        "identified": entry.ceiling["identified"],
    }


def _ahead(budget: float, last: float) -> str:
    if budget <= last * 1.005:
        return "within its evaluations"
    return f"{budget / last:.1f} × as far as it has been seen"


def _chances(entries: Sequence[Entry], budget: float) -> list[float]:
    """Probability that each is the highest at `budget` (infinity: the ceiling)."""
    samples = [_samples(entry, budget) for entry in entries]
    return [float(p) for p in recipes.best_of(samples)]


def _samples(entry: Entry, budget: float) -> np.ndarray:
    """N equally likely values of its curve, or of the mean curve of its runs."""
    if entry.live_fit is not None:
        return drawn_curves(entry.live_fit).predict(budget)[:, 0]
    rng = np.random.default_rng(_seed(entry.key))
    uniform = rng.permutation((np.arange(N) + 0.5) / N)
    return np.clip(entry.at(np.array([budget])).samples(uniform)[:, 0], 0.0, 1.0)


@lru_cache(maxsize=128)
def drawn_curves(fit: "scaling.Fit") -> draws.Draws:
    """N curves of a fit, the same each time; other data, other draws, so that runs stay independent."""
    return draws.draws(fit, N, np.random.default_rng(_seed(fit.digest)))


def _seed(text: str) -> list[int]:
    return list(text.encode())


def _sentence(rows: Sequence[Payload], budget: float, x: str) -> str:
    """Which is the likeliest to be the highest, and how sure that is."""
    ranked = [row for row in rows if row["chance"] is not None]
    if len(ranked) < 2:
        return ""
    best, other = ranked[0], ranked[1]
    where = f"At {AXES[x].short_text(budget)}"
    if len(ranked) == 2:
        return f"{where} {best['label']} is above {other['label']} with probability {best['chance_text']}."
    if best["chance"] < 0.5:
        return (
            f"{where} no one is likelier than not to be the highest; {best['label']} comes nearest, with probability "
            f"{best['chance_text']}."
        )
    return (
        f"{where} {best['label']} is the highest with probability {best['chance_text']}, "
        f"{other['label']} with {other['chance_text']}."
    )


def _note(entries: Sequence[Entry], many_groups: bool) -> str:
    parts = []
    if any(entry.grouped for entry in entries):
        parts.append("Of a recipe with several runs it is the mean curve that is meant.")
    if any(entry.kind != PUBLISHED and not entry.grouped for entry in entries):
        parts.append("A single run counts as it is: nothing here knows how far another seed would be.")
    if any(entry.window is not None and not entry.ceiling["identified"] for entry in entries):
        parts.append(
            "Where a ceiling is not identified, far beyond the last evaluation this rests on what is assumed."
        )
    if many_groups:
        parts.append("Each competes with those of its own task and model only.")
    return " ".join(parts)


def crossings(entries: Sequence[Entry], x: str) -> Payload:
    """Where the curves of rivals cross, as marks and sentences, the likeliest crossings first."""
    own = [entry for entry in entries if entry.kind != PUBLISHED and entry.window is not None]
    if len(own) > CROSSINGS_UP_TO:
        said = f"Crossings are worked out for up to {CROSSINGS_UP_TO} series; choose fewer to see them."
        return {"marks": [], "sentences": [], "note": said}
    pairs = [(a, b) for rivals in told_apart.by_rivals(own).values() for a, b in combinations(rivals, 2)]
    found = [_pair(a, b, AXES[x]) for a, b in pairs]
    return {
        "marks": [one["mark"] for one in found if one["mark"] is not None],
        "sentences": [one["sentence"] for one in found],
        "note": "",
    }


def _pair(a: Entry, b: Entry, axis: Axis) -> Payload:
    if a.live_fit is not None and b.live_fit is not None:
        return _of_runs(a, b, crossing_of(a.live_fit, b.live_fit), axis)
    (lo_a, hi_a), (lo_b, hi_b) = a.window or (1.0, 1.0), b.window or (1.0, 1.0)
    grid = np.geomspace(min(lo_a, lo_b), AHEAD * max(hi_a, hi_b), _GRID)
    return _of_means(a, b, recipes.crossing_of_means(a.at(grid), b.at(grid), grid), axis)


@lru_cache(maxsize=256)
def crossing_of(a: "scaling.Fit", b: "scaling.Fit") -> versus.Crossing:
    """`scaling.versus.crossing`, kept."""
    return versus.crossing(a, b, n=N)


def _of_runs(a: Entry, b: Entry, crossing: versus.Crossing, axis: Axis) -> Payload:
    lo, hi = crossing.interval
    end = axis.short_text(crossing.within[1])
    likely = f"that they cross before {end} at all has probability {draws.chance(crossing.probability)}"
    above, chance = (a, crossing.a_after) if crossing.a_after >= 0.5 else (b, 1.0 - crossing.a_after)
    after = f"at {end} {above.label} is above with probability {draws.chance(chance)}"
    if crossing.compute is None:
        first = f"The curves of {a.label} and {b.label} do not cross up to {end}"
        return {"mark": None, "sentence": f"{first}; {likely}; {after}."}
    first = f"{a.label} and {b.label} cross at {axis.short_text(crossing.compute)}"
    given = ""
    if lo is not None and hi is not None:
        given = f" ({words.percent(crossing.level)} {axis.amount(lo)} to {axis.amount(hi)}, given that they cross)"
    return {
        "mark": _mark(a, b, crossing.compute, lo, hi),
        "sentence": f"{first}{given}; {likely}; {after}.",
    }


def _of_means(a: Entry, b: Entry, crossing: recipes.MeanCrossing, axis: Axis) -> Payload:
    end = axis.short_text(crossing.within[1])
    names = f"{a.label} and {b.label}"
    above = {True: f"at {end} {a.label} is above", False: f"at {end} {b.label} is above"}
    after = above[crossing.a_after] if crossing.a_after is not None else f"at {end} either may be above"
    level = words.percent(crossing.level)
    if crossing.compute is None:
        return {
            "mark": None,
            "sentence": f"The mean curves of {names} do not cross up to {end}; {after} ({level}).",
        }
    lo, hi = crossing.interval
    ends = (
        ("the first evaluation" if lo is None else axis.amount(lo)),
        ("open" if hi is None else axis.amount(hi)),
    )
    first = f"The mean curves of {names} cross at {axis.short_text(crossing.compute)}"
    stretch = f"their order is open from {ends[0]} to {ends[1]} ({level})"
    if hi is None:
        stretch = f"their order is open from {ends[0]} on ({level})"
    return {
        "mark": _mark(a, b, crossing.compute, lo, hi),
        "sentence": f"{first}; {stretch}; {after}.",
    }


def _mark(a: Entry, b: Entry, compute: float, lo: float | None, hi: float | None) -> Payload:
    value = float(a.at(np.array([compute])).value[0])
    label = f"{a.label} and {b.label}"
    return {"x": compute, "y": value, "lo": lo, "hi": hi, "label": label, "ids": [a.key, b.key]}
