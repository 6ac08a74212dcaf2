"""What compute buys, as payloads with words: target to device-hours, budget to pass rate, which runs to continue.

Every number comes from `scaling`: of one run from `scaling.plan`, of several seeds pooled by `scaling.seeds`. What
a fit does not identify is said so: its point rests on a prior, so only its bounds are shown.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
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
GRID, SEEDS_GRID = 80, 24  # points of a curve; pooling seeds at each costs more
N = plan.N
HOURS = "device-hours"
LEAST_GAIN = 0.001  # of a pass rate: less is called nothing


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
    found = [plan.compute_to(fit, target, level=DEFAULT_LEVEL) for fit in candidate.seeds]
    compute, lo, hi = _pooled_compute(candidate, found)
    above = fmean(one.above_ceiling for one in found)
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
        "reached_by": sum(one.compute is not None for one in found),
    }
    return row | {"sentence": _reach_sentence(row, target)}


def _pooled_compute(
    candidate: Candidate, found: "Sequence[plan.Reach]"
) -> tuple[float | None, float | None, float | None]:
    """(compute, lo, hi): of one run its own; of several pooled as logarithms, None where one never gets there."""
    if len(found) == 1:
        return found[0].compute, *found[0].interval
    if any(one.compute is None for one in found):
        ends = [one.interval[0] for one in found if one.interval[0] is not None]
        return None, min(ends) if ends else None, None
    if any(not one.compute for one in found):
        return 0.0, 0.0, max((one.compute or 0.0) for one in found)
    estimates = [
        estimate_of(
            math.log(one.compute or 1.0),
            *(math.log(end) if end else None for end in one.interval),
            quantile=_quantile(fit),
        )
        for one, fit in zip(found, candidate.seeds, strict=True)
    ]
    pooled = seeds.pool(estimates, level=DEFAULT_LEVEL)
    ends_ = [None if end is None else math.exp(end) for end in (pooled.lo, pooled.hi)]
    return math.exp(pooled.value), ends_[0], ends_[1]


def _quantile(fit: "scaling.Fit") -> float:
    assert fit.likelihood is not None
    return fit.likelihood.noise.quantile(DEFAULT_LEVEL)


def _hours_between(lo: float | None, hi: float | None) -> str:
    return f"{'open' if lo is None else words.amount(lo)} to {'never' if hi is None else words.amount(hi)}"


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
    if row["reached_by"]:
        some = f"{row['reached_by']} of {row['seeds']} seeds"
        return f"{name}: {some} are expected to reach {goal}, so the recipe is not{bound}."
    return f"{name} never reaches {goal}: {above}{bound}."


# --- (b) what a budget buys -----------------------------------------------------------------------------------


def at_budget(candidates: Sequence[Candidate], budget: float) -> list[Payload]:
    """Expected pass rate of each recipe once each has had `budget` device-hours, the likeliest best first."""
    chances = best_chances(candidates, budget)
    rows = []
    for candidate, best in zip(candidates, chances, strict=True):
        value, lo, hi = expected(candidate, budget)
        known = candidate.identified or budget <= candidate.seen
        interval = (lo, hi)
        rows.append(
            candidate.as_payload()
            | {
                "value": value if known else None,
                "lo": lo,
                "hi": hi,
                "known": known,
                "best": best,
                "best_text": _share_text(best),
                "text": words.rate(value, interval) if known else "not identified",
                "interval_text": _rates(lo, hi),
                "seen": candidate.seen,
                "beyond": budget / candidate.seen,
                "beyond_text": _beyond(budget / candidate.seen),
            }
        )
    return sorted(rows, key=lambda row: (-row["best"], row["name"]))


def _rates(lo: float, hi: float) -> str:
    return f"{words.rate(lo, (lo, hi))} to {words.rate(hi, (lo, hi))}"


def _share_text(share: float) -> str:
    return f"{100 * share:.0f} %" if 0.01 <= share <= 0.99 else "under 1 %" if share < 0.01 else "over 99 %"


def _beyond(ratio: float) -> str:
    return "seen" if ratio <= 1.0 else f"{ratio:.2g} times what it has seen"


def expected(candidate: Candidate, budget: float) -> tuple[float, float, float]:
    """Pass rate at a budget with its interval: the fit's own for one run, pooled over several."""
    triples = []
    for fit in candidate.seeds:
        lo, hi = fit.predict_interval(budget, DEFAULT_LEVEL)
        triples.append((float(fit.predict(budget)), float(lo), float(hi)))
    value, low, high = compare.recipe_ceiling(triples, DEFAULT_LEVEL)
    return value, 0.0 if low is None else low, 1.0 if high is None else high


def best_chances(candidates: Sequence[Candidate], budget: float, *, n: int = N, seed: int = 0) -> list[float]:
    """Probability of each to have the highest expected pass rate at the budget.

    With one run each this is `scaling.plan.which_to_continue`; several seeds are drawn from the distribution of their
    pooled mean (Student t, as its interval is made).
    """
    if not candidates:
        return []
    rng = np.random.default_rng(seed)
    values = np.stack([_samples(candidate, budget, n, rng) for candidate in candidates])
    wins = values == values.max(axis=0)
    return [float(share) for share in (wins / wins.sum(axis=0)).mean(axis=1)]


def _samples(candidate: Candidate, budget: float, n: int, rng: np.random.Generator) -> np.ndarray:
    fits = candidate.seeds
    if len(fits) == 1:
        return draws(fits[0], n, rng).predict(budget)[:, 0]
    z = NormalDist().inv_cdf(0.5 + 0.5 * DEFAULT_LEVEL)  # as in scaling.compare.recipe_ceiling
    estimates = []
    for fit in fits:
        lo, hi = fit.predict_interval(budget, DEFAULT_LEVEL)
        estimates.append(estimate_of(float(fit.predict(budget)), float(lo), float(hi), quantile=z))
    pooled = seeds.pool(estimates, level=DEFAULT_LEVEL)
    return np.clip(pooled.value + pooled.se * rng.standard_t(len(fits) - 1, n), 0.0, 1.0)


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
    single = len(candidate.fits) == 1
    grid = np.unique(np.append(np.geomspace(first, last, GRID if single else SEEDS_GRID), candidate.seen))
    if single:
        fit = candidate.seeds[0]
        value, (lo, hi) = fit.predict(grid), fit.predict_interval(grid, DEFAULT_LEVEL)
    else:
        value, lo, hi = (
            np.array(part) for part in zip(*(expected(candidate, float(c)) for c in grid), strict=True)
        )
    known = np.ones(len(grid), bool) if candidate.identified else grid <= candidate.seen
    return candidate.as_payload() | {
        "x": grid.tolist(),
        "y": [float(y) if shown else None for y, shown in zip(value, known, strict=True)],
        "lo": np.asarray(lo).tolist(),
        "hi": np.asarray(hi).tolist(),
        "solid_until": candidate.seen,
    }


# --- (c) which runs to continue -------------------------------------------------------------------------------


def to_continue(fits: "Mapping[str, scaling.Fit]", keep: int, more: float) -> Payload:
    """Which `keep` of the runs to go on with, if `more` device-hours are shared evenly among those that are kept.

    `scaling.plan.which_to_continue` with what each has had plus its share; the likeliest best are kept.
    """
    share = more / keep
    choice = plan.which_to_continue(fits, plan.after(fits, share), level=DEFAULT_LEVEL)
    rows: list[Payload] = [
        {
            "run": one.name,
            "keep": place < keep,
            "best": one.best,
            "best_text": _share_text(one.best),
            "so_far": one.so_far,
            "until": one.budget,
            "identified": one.status == "ok",
            "value": one.value if one.status == "ok" else None,
            "lo": one.interval[0],
            "hi": one.interval[1],
            "text": words.rate(one.value, one.interval) if one.status == "ok" else "not identified",
            "interval_text": _rates(*one.interval),
        }
        for place, one in enumerate(choice.candidates)
    ]
    kept = sum(row["best"] for row in rows if row["keep"])
    rule = (
        f"Each run that goes on gets {words.amount(share)} of the {words.amount(more)} {HOURS}. The rule: draw curves "
        f"from what each run's evaluations allow, see which run ends highest, and keep those that do so most often."
    )
    return {
        "rows": rows,
        "share": share,
        "rule": rule,
        "kept": kept,
        "sentence": _continue_sentence(rows, keep, kept),
        "excluded": [{"run": run, "reason": reason} for run, reason in choice.excluded.items()],
    }


def _continue_sentence(rows: Sequence[Payload], keep: int, kept: float) -> str:
    if not rows:
        return "No run has a curve to judge yet."
    if keep >= len(rows):
        return "All of them can go on: there is nothing to choose."
    return (
        f"Keep the first {keep} of {len(rows)}: the run that ends best is among them with a chance of "
        f"{_share_text(kept)}."
    )


# --- (d) what the next hours buy ------------------------------------------------------------------------------


def gains(fits: "Mapping[str, scaling.Fit]", hours: float) -> list[Payload]:
    """What the next `hours` device-hours are expected to add to each run's pass rate, the most first."""
    rows = [_gain(run, fit, hours) for run, fit in fits.items()]
    return sorted(rows, key=lambda row: (-row["gain"], row["run"]))


def _gain(run: str, fit: "scaling.Fit", hours: float) -> Payload:
    at = fit.window[1]
    value, lo, hi = plan.gain(fit, at, at + hours, level=DEFAULT_LEVEL)
    less_than_noise = fit.noise_sd is not None and hi < fit.noise_sd
    identified = fit.status == "ok"
    decimals = words.decimals_for(lo, hi)
    verdict = (
        "less than the noise of one evaluation"
        if less_than_noise
        else "worth it"
        if lo > LEAST_GAIN
        else "may be nothing"
    )
    return {
        "run": run,
        "at": at,
        "gain": value,
        "lo": lo,
        "hi": hi,
        "identified": identified,
        "text": words.signed(value, decimals),
        "interval_text": f"{words.signed(lo, decimals)} to {words.signed(hi, decimals)}",
        "verdict": verdict if identified else f"{verdict}; its ceiling is not identified",
    }


def gain_sentence(rows: Sequence[Payload], names: Mapping[str, str], hours: float) -> str:
    """Where the next hours buy the most."""
    if not rows:
        return "No run of this task and model is training now."
    first = rows[0]
    return (
        f"The next {words.amount(hours)} {HOURS} buy the most in {names[first['run']]}: {first['text']} "
        f"({LEVEL} {first['interval_text']})."
    )
