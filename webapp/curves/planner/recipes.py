"""What compute buys, as payloads with words: target to device-hours, budget to expected pass rate.

Every number comes from `scaling`: of one run from `scaling.plan`, of several seeds pooled by `scaling.seeds`. What
a fit does not identify is said so: its point rests on a prior, so only its bounds are shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

import scaling
from scaling import compare, plan, seeds
from scaling.draws import chance, draws
from scaling.seeds import estimate_of
from webapp.curves import words
from webapp.curves.axes import DEFAULT_LEVEL

Payload = dict[str, Any]
LEVEL = words.percent(DEFAULT_LEVEL)
GRID, POOLED_GRID = 80, 60  # points of a curve; pooling seeds at each costs more
FAR = 1000.0  # a pooled curve is followed this many times beyond its last point
N = 1000  # draws: probabilities are good to about 0.015
HOURS = "device-hours"


@dataclass(frozen=True)
class Candidate:
    """A recipe (or one of its revisions) with the fits of its runs by run id; every fit has a curve."""

    name: str
    slug: str | None
    revision: int | None
    fits: "Mapping[str, scaling.Fit]"

    @property
    def seeds(self) -> "list[scaling.Fit]":
        """The fits alone."""
        return list(self.fits.values())

    @property
    def identified(self) -> bool:
        """Whether every run pins its ceiling."""
        return all(fit.status == "ok" for fit in self.seeds)

    @property
    def seen(self) -> float:
        """The last compute that any of its runs has reached."""
        return max(fit.window[1] for fit in self.seeds)

    def as_payload(self) -> Payload:
        """How tables and legends name it."""
        return {
            "name": self.name,
            "slug": self.slug,
            "revision": self.revision,
            "runs": list(self.fits),
            "seeds": len(self.fits),
            "identified": self.identified,
        }


# --- (a) how much compute to a target -------------------------------------------------------------------------


def to_target(candidates: Sequence[Candidate], target: float) -> list[Payload]:
    """Device-hours of each recipe to the pass rate, the least first; then what is never or not known to be reached."""
    rows = [_reach(candidate, target) for candidate in candidates]
    order = {"reached": 0, "not identified": 1, "never": 2}
    return sorted(
        rows, key=lambda row: (order[row["verdict"]], row["compute"] or row["lo"] or 0.0, row["name"])
    )


def _reach(candidate: Candidate, target: float) -> Payload:
    compute, lo, hi, above = _crossing(candidate, target)
    known = compute is not None and (candidate.identified or compute <= candidate.seen)
    verdict = "reached" if known else "never" if candidate.identified else "not identified"
    row = candidate.as_payload() | {
        "verdict": verdict,
        "compute": compute if known else None,
        "lo": lo,
        "hi": hi,
        "above_ceiling": above,
        "chance_text": chance(above),
        "text": words.amount(compute) if known else verdict,
        "interval_text": _hours_between(lo, hi),
    }
    return row | {"sentence": _reach_sentence(row, target)}


def _crossing(candidate: Candidate, target: float) -> tuple[float | None, float | None, float | None, float]:
    """(compute, lo, hi, probability that the target lies above the ceiling).

    Of one run `scaling.plan.compute_to`; of several where their pooled curve and its band cross the target.
    """
    fits = tuple(candidate.seeds)
    if len(fits) == 1:
        found = _compute_to(fits[0], target)
        return found.compute, *found.interval, found.above_ceiling
    grid, value, lo, hi = _pooled_curve(fits)
    ceilings = _pooled_samples([(fit.params["A"], *fit.interval("A")) for fit in fits if fit.params])
    above = float(np.mean(ceilings < target))
    return (
        first_reaching(grid, value, target),
        first_reaching(grid, hi, target),
        first_reaching(grid, lo, target),
        above,
    )


@lru_cache(maxsize=512)
def _compute_to(fit: "scaling.Fit", target: float) -> "plan.Reach":
    return plan.compute_to(fit, target, level=DEFAULT_LEVEL, n=N)


@lru_cache(maxsize=64)
def _pooled_curve(fits: "tuple[scaling.Fit, ...]") -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(compute, mean, lo, hi), all [POOLED_GRID]: the curve of several runs, from the first point to far beyond."""
    first, last = min(fit.window[0] for fit in fits), max(fit.window[1] for fit in fits)
    grid = np.unique(np.append(np.geomspace(first, FAR * last, POOLED_GRID), last))
    at = [expected_of(fits, float(c)) for c in grid]
    value, lo, hi = (np.array(part) for part in zip(*at, strict=True))
    return grid, value, lo, hi


def first_reaching(compute: np.ndarray, values: np.ndarray, target: float) -> float | None:
    """Compute at which `values` first reach the target, straight in log compute; None where they never do."""
    above = np.flatnonzero(values >= target)
    if not len(above):
        return None
    k = int(above[0])
    if k == 0:
        return 0.0
    way = (target - values[k - 1]) / (values[k] - values[k - 1])
    return float(compute[k - 1] * (compute[k] / compute[k - 1]) ** way)


def _hours_between(lo: float | None, hi: float | None) -> str:
    if lo is None:
        return "never"
    return f"{words.amount(lo)} to {'never' if hi is None else words.amount(hi)}"


def _reach_sentence(row: Payload, target: float) -> str:
    name, goal = row["name"], f"{target:g}"
    above = f"it lies above the ceiling with probability {row['chance_text']}"
    if row["verdict"] == "reached":
        if not row["compute"]:
            return f"{name} starts at {goal} or above."
        doubt = f"; {above}" if row["hi"] is None else ""
        at = f"{words.amount(row['compute'])} {HOURS}"
        return f"{name} reaches {goal} at {at} ({LEVEL} {row['interval_text']}){doubt}."
    bound = "" if row["lo"] is None else f"; not before {words.amount(row['lo'])} {HOURS} ({LEVEL})"
    if row["verdict"] == "not identified":
        return f"{name}: its ceiling is not identified, so nobody knows whether it reaches {goal}{bound}."
    verb = "never reaches" if row["lo"] is None else "is not expected to reach"  # its band does or does not
    return f"{name} {verb} {goal}: {above}{bound}."


# --- (b) what a budget buys -----------------------------------------------------------------------------------


def at_budget(candidates: Sequence[Candidate], budget: float) -> list[Payload]:
    """Expected pass rate of each recipe once each has had `budget` device-hours, the likeliest best first.

    Of those whose chances draws cannot tell apart, the one expected to be higher.
    """
    chances = best_chances(candidates, budget)
    rows = []
    for candidate, best in zip(candidates, chances, strict=True):
        value, lo, hi = expected(candidate, budget)
        known = candidate.identified or budget <= candidate.seen
        interval = (lo, hi)
        order = (-round(best, 2), -value, candidate.name)  # draws tell chances apart to 1 %
        row = candidate.as_payload() | {
            "value": value if known else None,
            "lo": lo,
            "hi": hi,
            "known": known,
            "best": best,
            "best_text": share_text(best),
            "text": words.rate(value, interval) if known else "not identified",
            "interval_text": rates_between(lo, hi),
            "seen": candidate.seen,
            "beyond": budget / candidate.seen,
            "beyond_text": _beyond(budget / candidate.seen),
        }
        rows.append((order, row))
    return [row for _, row in sorted(rows, key=lambda one: one[0])]


def rates_between(lo: float, hi: float) -> str:
    """ "0.590 to 0.612"."""
    return f"{words.rate(lo, (lo, hi))} to {words.rate(hi, (lo, hi))}"


def share_text(share: float) -> str:
    """A chance from draws: "42 %", never a certainty that no number of draws can show."""
    return f"{100 * share:.0f} %" if 0.01 <= share <= 0.99 else "under 1 %" if share < 0.01 else "over 99 %"


def _beyond(ratio: float) -> str:
    return "within its evaluations" if ratio <= 1.005 else f"{ratio:.1f} × as far as it has been seen"


def expected(candidate: Candidate, budget: float) -> tuple[float, float, float]:
    """Pass rate at a budget with its interval: the fit's own for one run, pooled over several."""
    return expected_of(candidate.seeds, budget)


def expected_of(fits: "Sequence[scaling.Fit]", budget: float) -> tuple[float, float, float]:
    """The same of fits."""
    value, low, high = compare.recipe_ceiling([_at(fit, budget) for fit in fits], DEFAULT_LEVEL)
    return value, 0.0 if low is None else low, 1.0 if high is None else high


def _at(fit: "scaling.Fit", budget: float) -> tuple[float, float, float]:
    lo, hi = fit.predict_interval(budget, DEFAULT_LEVEL)
    return float(fit.predict(budget)), float(lo), float(hi)


def best_chances(candidates: Sequence[Candidate], budget: float) -> list[float]:
    """Probability of each to have the highest expected pass rate at the budget.

    With one run each this is `scaling.plan.which_to_continue`; several seeds are drawn from the distribution of their
    pooled mean (Student t, as its interval is made).
    """
    return list(_best_chances(tuple(tuple(one.seeds) for one in candidates), budget))


@lru_cache(maxsize=64)
def _best_chances(recipes: "tuple[tuple[scaling.Fit, ...], ...]", budget: float) -> tuple[float, ...]:
    if not recipes:
        return ()
    rng = np.random.default_rng(0)
    values = np.stack([_samples(fits, budget, rng) for fits in recipes])
    wins = values == values.max(axis=0)
    return tuple(float(share) for share in (wins / wins.sum(axis=0)).mean(axis=1))


def _samples(fits: "tuple[scaling.Fit, ...]", budget: float, rng: np.random.Generator) -> np.ndarray:
    if len(fits) == 1:
        return draws(fits[0], N, rng).predict(budget)[:, 0]
    return _pooled_samples([_at(fit, budget) for fit in fits], rng)


def _pooled_samples(
    triples: "Sequence[tuple[float, float | None, float | None]]", rng: np.random.Generator | None = None
) -> np.ndarray:
    """N values of the mean of several seeds, from Student t around their pooled estimate."""
    z = NormalDist().inv_cdf(0.5 + 0.5 * DEFAULT_LEVEL)  # as in scaling.compare.recipe_ceiling
    pooled = seeds.pool([estimate_of(*triple, quantile=z) for triple in triples], level=DEFAULT_LEVEL)
    spread = (rng or np.random.default_rng(0)).standard_t(len(triples) - 1, N)
    return np.clip(pooled.value + pooled.se * spread, 0.0, 1.0)


def budget_sentences(rows: Sequence[Payload], budget: float) -> list[str]:
    """Which recipe to take at this budget, and how sure that is."""
    if not rows:
        return []
    first = rows[0]
    hours = f"{words.amount(budget)} {HOURS}"
    said = [
        f"With {hours} {first['name']} is the likeliest best, with a chance of {first['best_text']}"
        + (
            f" and an expected pass rate of {first['text']} ({LEVEL} {first['interval_text']})."
            if first["known"]
            else "."
        )
    ]
    if len(rows) > 1 and first["best"] < 0.9:
        said.append(f"{rows[1]['name']} is not ruled out: its chance is {rows[1]['best_text']}.")
    unknown = [row["name"] for row in rows if not row["known"]]
    if unknown:
        said.append(
            f"{', '.join(unknown)}: the ceiling is not identified and the budget lies beyond the evaluations, so its "
            f"chance rests on a flat prior, not on data."
        )
    return said


# --- the chart ------------------------------------------------------------------------------------------------


def budget_chart(candidates: Sequence[Candidate], budget: float) -> Payload:
    """Expected pass rate against budget of each recipe with its band; the budget is a line."""
    if not candidates:
        return {"series": [], "budget": budget}
    first = min(fit.window[0] for one in candidates for fit in one.seeds)
    last = max(1.3 * budget, 1.3 * max(one.seen for one in candidates))
    return {"budget": budget, "series": [_drawn(one, first, last) for one in candidates]}


def _drawn(candidate: Candidate, first: float, last: float) -> Payload:
    if len(candidate.fits) == 1:
        fit = candidate.seeds[0]
        grid = np.unique(np.append(np.geomspace(first, last, GRID), candidate.seen))
        value, (lo, hi) = fit.predict(grid), fit.predict_interval(grid, DEFAULT_LEVEL)
    else:
        grid, value, lo, hi = _within(_pooled_curve(tuple(candidate.seeds)), last)
    known = np.ones(len(grid), bool) if candidate.identified else grid <= candidate.seen
    return candidate.as_payload() | {
        "x": grid.tolist(),
        "y": [float(y) if shown else None for y, shown in zip(value, known, strict=True)],
        "lo": np.asarray(lo).tolist(),
        "hi": np.asarray(hi).tolist(),
        "solid_until": candidate.seen,
    }


def _within(drawn: tuple[np.ndarray, ...], last: float) -> tuple[np.ndarray, ...]:
    """The part of a curve up to `last`, its end by straight interpolation in log compute."""
    grid = drawn[0]
    x = np.append(grid[grid < last], last)
    return (x, *(np.interp(np.log(x), np.log(grid), part) for part in drawn[1:]))
