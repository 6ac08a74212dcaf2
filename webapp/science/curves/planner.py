"""What compute buys, as payloads with words: target to device-hours, budget to forecast pass rate.

Every number is of the recipes' forecasts (`scaling.ranking`), form, noise and seeds in its interval, as on every page
that compares recipes. Nothing is said of compute beyond ten times what a run has seen.

What compute buys in single runs, as payloads with words: which to continue, and what the next hours add.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

import scaling
from scaling import plan, ranking
from scaling.course import Course, normal_quantile
from scaling.curve import first_reaching
from scaling.seeds import CORPUS, Between
from webapp.science.curves import words
from webapp.science.curves.ranking import standing
from webapp.science.curves.words import DEFAULT_LEVEL, Payload

LEVEL = words.percent(DEFAULT_LEVEL)
GRID = 80  # points of a curve
HOURS = "device-hours"


@dataclass(frozen=True)
class Candidate:
    """A recipe (or one of its revisions) with the fits of its runs and their forecasts by run id; every fit has a
    curve. between: how far seeds differ on its task."""

    name: str
    slug: str | None
    revision: int | None
    fits: "Mapping[str, scaling.Fit]"
    courses: Mapping[str, Course | None]
    between: Between = CORPUS

    @property
    def seeds(self) -> "list[scaling.Fit]":
        """The fits alone."""
        return list(self.fits.values())

    @property
    def seen(self) -> float:
        """The last compute that any of its runs has reached."""
        return max(fit.window[1] for fit in self.seeds)

    @property
    def first(self) -> float:
        """The first compute fitted."""
        return min(fit.window[0] for fit in self.seeds)

    @property
    def far(self) -> float:
        """How far all of its runs that are compared are forecast."""
        seen = [one.seen for one in self.courses.values() if one is not None and one.seen]
        last = max(seen, default=self.seen)
        return ranking.AHEAD * min((one for one in seen if ranking.BEHIND * one >= last), default=last)

    @cached_property
    def drawn(self) -> "tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]":
        """(compute, value, lo, hi) of its forecast, from the first point to as far as it goes; empty without one."""
        grid = np.unique(np.append(np.geomspace(self.first, self.far, GRID), self.seen))
        known = [(float(c), *one) for c in grid if (one := self.at(float(c))) is not None]
        return tuple(np.array(known).reshape(-1, 4).T)  # type: ignore[return-value]

    def at(self, compute: float | None) -> ranking.Reached | None:
        """Its forecast at a compute (None: the ceiling) with seeds in the interval; None where there is none."""
        found = ranking.compared([list(self.courses.values())], self.between, compute)
        return (found.ceiling if compute is None else found.here).interval(0)

    def as_payload(self) -> Payload:
        """How tables and legends name it."""
        return {
            "name": self.name,
            "slug": self.slug,
            "revision": self.revision,
            "runs": list(self.fits),
            "seeds": len(self.fits),
        }


# --- (a) how much compute to a target -------------------------------------------------------------------------


def to_target(candidates: Sequence[Candidate], target: float) -> list[Payload]:
    """Device-hours of each recipe to the pass rate, the least first; then what is not known to reach it."""
    rows = [_reach(candidate, target) for candidate in candidates]
    order = {"reached": 0, "not known": 1, "never": 2, "no forecast": 3}
    return sorted(
        rows, key=lambda row: (order[row["verdict"]], row["compute"] or row["lo"] or 0.0, row["name"])
    )


def _reach(candidate: Candidate, target: float) -> Payload:
    grid, value, low, high = candidate.drawn
    compute, lo, hi = (first_reaching(grid, column, target) for column in (value, high, low))
    above = above_ceiling(candidate.at(None), target)
    verdict = "reached" if compute is not None else "never" if (above or 0.0) > 0.5 else "not known"
    row = candidate.as_payload() | {
        "verdict": verdict if len(grid) else "no forecast",
        "compute": compute,
        "lo": lo,
        "hi": hi,
        "above_ceiling": above,
        "chance_text": "–" if above is None else ranking.chance(above),
        "text": words.amount(compute)
        if compute is not None
        else "not expected"
        if verdict == "never"
        else verdict
        if len(grid)
        else "no forecast",
        "interval_text": _hours_between(candidate, lo, hi) if len(grid) else "–",
    }
    return row | {"sentence": _reach_sentence(candidate, row, target)}


def above_ceiling(ceiling: ranking.Reached | None, target: float) -> float | None:
    """Probability that the target lies above the forecast ceiling, whose two sides are halves of normal curves."""
    if ceiling is None:
        return None
    z = normal_quantile(DEFAULT_LEVEL)
    side = ceiling.hi - ceiling.value if target > ceiling.value else ceiling.value - ceiling.lo
    return float(ndtr((target - ceiling.value) / max(side / z, 1e-12)))


def _hours_between(candidate: Candidate, lo: float | None, hi: float | None) -> str:
    far = f"over {words.amount(candidate.far)}"
    return far if lo is None else f"{words.amount(lo)} to {far if hi is None else words.amount(hi)}"


def _reach_sentence(candidate: Candidate, row: Payload, target: float) -> str:
    name, goal = row["name"], f"{target:g}"
    if row["verdict"] == "no forecast":
        return f"{name} has no forecast, so nobody knows when it reaches {goal}."
    above = f"{goal} lies above its forecast ceiling with probability {row['chance_text']}"
    if row["verdict"] == "reached":
        if not row["compute"]:
            return f"{name} starts at {goal} or above."
        at = f"{words.amount(row['compute'])} {HOURS} ({LEVEL} {row['interval_text']})"
        return f"{name} reaches {goal} at {at}{f'; {above}' if row['hi'] is None else ''}."
    bound = "" if row["lo"] is None else f"; not before {words.amount(row['lo'])} {HOURS} ({LEVEL})"
    if row["verdict"] == "never":
        return f"{name} is not expected to reach {goal}: {above}{bound}."
    far = words.amount(candidate.far)
    return f"{name} does not reach {goal} within {far} {HOURS}, as far as it is forecast: {above}{bound}."


# --- (b) what a budget buys -----------------------------------------------------------------------------------


def at_budget(candidates: Sequence[Candidate], budget: float) -> tuple[list[Payload], list[str]]:
    """What each recipe is forecast to reach once each has had `budget` device-hours, the best first; and who leads."""
    if not candidates:
        return [], []
    found = ranking.compared(
        [list(one.courses.values()) for one in candidates], candidates[0].between, budget
    )
    rows = [
        candidates[place].as_payload()
        | standing.told(found, place)
        | _beyond(budget / candidates[place].seen)
        for place in found.here.all_in_order()
    ]
    return rows, standing.answer([one.name for one in candidates], found)


def _beyond(ratio: float) -> Payload:
    text = "within its evaluations" if ratio <= 1.005 else f"{ratio:.1f} × as far as it has been seen"
    return {"beyond": ratio, "beyond_text": text}


# --- the chart ------------------------------------------------------------------------------------------------


def budget_chart(candidates: Sequence[Candidate], budget: float) -> Payload:
    """Forecast pass rate against budget of each recipe with its band; the budget is a line."""
    if not candidates:
        return {"series": [], "budget": budget}
    last = max(1.3 * budget, 1.3 * max(one.seen for one in candidates))
    return {"budget": budget, "series": [_drawn(one, last) for one in candidates]}


def _drawn(candidate: Candidate, last: float) -> Payload:
    grid, *columns = candidate.drawn
    shown = grid <= last
    x, *rest = (column[shown].tolist() for column in (grid, *columns))
    return (
        candidate.as_payload()
        | dict(zip(("x", "y", "lo", "hi"), (x, *rest), strict=True))
        | {"solid_until": candidate.seen}
    )


def to_continue(courses: Mapping[str, Course | None], keep: int, more: float) -> Payload:
    """Which `keep` of the runs to go on with, if `more` device-hours are shared evenly among those that are kept.

    Each run is forecast to what it has had plus its share; the likeliest best are kept. Runs are judged as they are:
    how far another seed would be is no question here.
    """
    share = more / keep
    ends = {run: _end(course, share) for run, course in courses.items()}
    known = {run: end for run, end in ends.items() if end is not None}
    means = [ranking.mean_of([end], ranking.ALONE, level=DEFAULT_LEVEL) for end in known.values()]
    judged = zip(known, ranking.standings(means, ranking.ALONE, level=DEFAULT_LEVEL), strict=True)
    ordered = sorted(judged, key=lambda one: (-round(one[1].chance, 2), -one[1].value, one[0]))
    rows = [
        _row(run, one, courses[run], share) | {"keep": place < keep}
        for place, (run, one) in enumerate(ordered)
    ]
    kept = sum(row["best"] for row in rows if row["keep"])
    rule = f"Each kept run gets {words.amount(share)} of the {words.amount(more)} {HOURS}."
    return {
        "rows": rows,
        "share": share,
        "rule": rule,
        "kept": kept,
        "sentence": _continue_sentence(rows, keep, kept),
        "excluded": [
            {"run": run, "reason": _why_not(courses[run])} for run, end in ends.items() if end is None
        ],
    }


def _end(course: Course | None, share: float) -> ranking.Forecast | None:
    if course is None or course.seen is None or course.ceiling is None:
        return None
    value, lo, hi = course.value_at(course.seen + share)
    return (value, min(lo, value), max(hi, value)) if np.isfinite(value) else None


def _why_not(course: Course | None) -> str:
    if course is None:
        return "no forecast yet"
    return course.message if course.ceiling is None else "its forecast does not go so far"


def _row(run: str, one: ranking.Standing, course: Course | None, share: float) -> Payload:
    seen = course.seen if course is not None and course.seen else 0.0
    return {
        "run": run,
        "best": one.chance,
        "best_text": ranking.chance(one.chance),
        "so_far": seen,
        "until": seen + share,
        "value": one.value,
        "lo": one.lo,
        "hi": one.hi,
        "text": words.rate(one.value, (one.lo, one.hi)),
        "interval_text": words.span((one.lo, one.hi)),
    }


def _continue_sentence(rows: Sequence[Payload], keep: int, kept: float) -> str:
    if not rows:
        return "No run has a forecast to judge yet."
    if keep >= len(rows):
        return "All of them can go on: there is nothing to choose."
    likely = f"the run that ends best is among them with probability {ranking.chance(kept)}"
    return f"Keep the first {keep} of {len(rows)}: {likely}."


# --- (d) what the next hours buy ------------------------------------------------------------------------------


def gains(courses: Mapping[str, Course | None], hours: float) -> list[Payload]:
    """What the next `hours` device-hours are forecast to add to each run's pass rate, the most first; runs without a
    forecast that goes so far are left out."""
    rows = [row for run, course in courses.items() if (row := _gain(run, course, hours)) is not None]
    return sorted(rows, key=lambda row: (-row["gain"], row["run"]))


def _gain(run: str, course: Course | None, hours: float) -> Payload | None:
    if course is None or course.seen is None:
        return None
    value, lo, hi = plan.gain(course, course.seen + hours)
    if not np.isfinite(value):
        return None
    return {
        "run": run,
        "at": course.seen,
        "gain": value,
        "lo": lo,
        "hi": hi,
        "text": words.signed(value, (lo, hi)),
        "interval_text": words.signed_span((lo, hi)),
    }


def gain_sentence(rows: Sequence[Payload], names: Mapping[str, str], hours: float) -> str:
    """Where the next hours buy the most."""
    if not rows:
        return "No run of this task and model is training now whose forecast goes so far."
    first = rows[0]
    return (
        f"The next {words.amount(hours)} {HOURS} buy the most in {names[first['run']]}: {first['text']} "
        f"({LEVEL} {first['interval_text']})."
    )
