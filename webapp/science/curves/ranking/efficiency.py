"""Recipes that cannot be told apart: which climbs faster, all refitted with their mean A held fixed (section 2.1).

Faster is called what its B exceeds by more than noise and seeds explain, as everywhere (`scaling.ranking`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import scaling
from scaling import ranking
from scaling.fitting import fit_points
from scaling.seeds import CORPUS_LOG_B, Between
from webapp.science.curves import estimates, words
from webapp.science.curves.axes import DEFAULT_LEVEL
from webapp.science.curves.estimates import Said
from webapp.science.curves.fitting import crash_note, curves_of, fits_of
from webapp.science.curves.ranking.standing import name_of

Payload = dict[str, Any]
MOST_RUNS = 36  # of one tie that are fitted again; the newest of them


def efficiencies(rows: Sequence[Payload]) -> list[Payload]:
    """For each tie among the rows of a leaderboard's group: the shared ceiling, B of each row there, and a verdict.

    One query. Fits are kept, so that asking again costs little until there are new evaluations.
    """
    ties: dict[int, list[Payload]] = {}
    for row in rows:
        if row["tied"] and row["A"] is not None:
            ties.setdefault(row["tie_group"], []).append(row)
    curves = curves_of([pk for tie in ties.values() for row in tie for pk in _runs(row, len(tie))])
    fits, crashed = fits_of(curves)
    return [_tie(tie, fits, set(crashed)) for tie in ties.values() if len(tie) > 1]


def _runs(row: Payload, tied: int) -> list[str]:
    return row["runs"][: max(1, MOST_RUNS // tied)]


def _tie(tie: Sequence[Payload], fits: "dict[str, scaling.Fit]", crashed: set[str]) -> Payload:
    shared = float(np.mean([row["A"] for row in tie]))
    fixed = [_refitted(row, len(tie), shared, fits) for row in tie]
    found = [_pooled(each) for each in fixed]
    return {
        "shared": shared,
        "shared_text": words.rate(shared),
        "rows": [
            {"name": name_of(row), "B": b[0], "lo": b[1], "hi": b[2], "text": _text(b)}
            for row, b in zip(tie, found, strict=True)
        ],
        "sentence": _verdict([name_of(row) for row in tie], [b[0] for b in found], slopes(fixed)),
        "crash_note": crash_note(
            [f"run {pk} of {name_of(row)}" for row in tie for pk in _runs(row, len(tie)) if pk in crashed]
        ),
    }


def _refitted(row: Payload, tied: int, shared: float, fits: "dict[str, scaling.Fit]") -> "list[scaling.Fit]":
    """A recipe's runs that identify A, with A held at `shared`."""
    pinned = [fit for pk in _runs(row, tied) if (fit := fits.get(pk)) is not None and fit.status == "ok"]
    return [fixed for fit in pinned if (fixed := at_ceiling(fit, shared)).params is not None]


def _pooled(fixed: "Sequence[scaling.Fit]") -> Said | tuple[None, None, None]:
    """B of a recipe, its seeds pooled."""
    usable = [one for fit in fixed if (one := estimates.of_live(fit)) is not None]
    value, lo, hi = estimates.parameters([usable], "B")[0]
    return (value, lo, hi) if np.isfinite(value) else (None, None, None)


@lru_cache(maxsize=512)
def at_ceiling(fit: "scaling.Fit", ceiling: float) -> "scaling.Fit":
    """The same points fitted with the ceiling held fixed."""
    assert fit.data is not None
    return fit_points(fit.data, form=fit.form, level=fit.level, **{**fit.options, "a": ceiling})


def _text(b: Said | tuple[None, None, None]) -> str:
    value, lo, hi = b
    if value is None:
        return "–"
    ends = ("open" if end is None else f"{end:.2f}" for end in (lo, hi))
    return f"{value:.2f} ({' to '.join(ends)})"


@dataclass(frozen=True)
class Slopes:
    """log B of recipes at one ceiling, in the order given (None: no run has a closed interval), and how far seeds
    differ in it."""

    means: list[ranking.Mean | None]
    between: Between

    def steeper(self, first: int, second: int) -> bool:
        """Whether B of the first is really higher than that of the second."""
        a, b = self.means[first], self.means[second]
        return a is not None and b is not None and ranking.gap(a, b, self.between).lo > 0.0


def slopes(recipes: "Sequence[Sequence[scaling.Fit]]") -> Slopes:
    """From the fits of each recipe's runs, refitted at one ceiling."""
    known = [[said for fit in fits if (said := _log_b(fit)) is not None] for fits in recipes]
    level = next((fit.level for fits in recipes for fit in fits), DEFAULT_LEVEL)
    between = ranking.seeds_of(known, CORPUS_LOG_B, level=level)
    return Slopes([ranking.mean_of(runs, between, level=level) if runs else None for runs in known], between)


def _log_b(fit: "scaling.Fit") -> ranking.Forecast | None:
    lo, hi = fit.interval("B")
    if fit.params is None or not lo or not hi:
        return None
    b = math.log(fit.params["B"])
    return b, min(math.log(lo), b), max(math.log(hi), b)


def _verdict(names: Sequence[str], values: Sequence[float | None], found: Slopes) -> str:
    """Who is more efficient than whom, as far as noise and seeds allow to say."""
    known = [
        index for index, mean in enumerate(found.means) if mean is not None and values[index] is not None
    ]
    if len(known) < 2:
        return "There is no second recipe here that can be fitted at the shared ceiling."
    known.sort(key=lambda index: -(values[index] or 0.0))
    best, rest = known[0], known[1:]
    slower = [names[index] for index in rest if found.steeper(best, index)]
    if not slower:
        return (
            f"{names[best]} has the highest B, but not by more than noise and seeds explain: none is known to be more "
            "efficient."
        )
    others = "all of the others" if len(slower) == len(rest) and len(rest) > 1 else ", ".join(slower)
    return f"{names[best]} is more efficient than {others}, by more than noise and seeds explain."
