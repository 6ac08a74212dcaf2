"""Recipes whose ceilings tie: which climbs faster, all refitted with their mean ceiling held fixed (section 2.1)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import scaling
from scaling.fitting import fit_points
from webapp.curves import estimates, words
from webapp.curves.axes import DEFAULT_LEVEL
from webapp.curves.bulk import curves_of, fits_of
from webapp.curves.estimates import Said
from webapp.curves.fitting import crash_note
from webapp.curves.ranking.answer import name_of

Payload = dict[str, Any]
MOST_RUNS = 36  # of one tie that are fitted again; the newest of them


def efficiencies(rows: Sequence[Payload]) -> list[Payload]:
    """For each tie among the rows of a leaderboard's group: the shared ceiling, B of each row there, and a verdict.

    One query. Fits are kept, so that asking again costs little until there are new evaluations.
    """
    ties: dict[int, list[Payload]] = {}
    for row in rows:
        if row["tied"]:
            ties.setdefault(row["tie_group"], []).append(row)
    curves = curves_of([pk for tie in ties.values() for row in tie for pk in _runs(row, len(tie))])
    fits, crashed = fits_of(curves)
    return [_tie(tie, fits, set(crashed)) for tie in ties.values()]


def _runs(row: Payload, tied: int) -> list[str]:
    return row["runs"][: max(1, MOST_RUNS // tied)]


def _tie(tie: Sequence[Payload], fits: "dict[str, scaling.Fit]", crashed: set[str]) -> Payload:
    shared = float(np.mean([row["A"] for row in tie]))
    found = [_efficiency(row, len(tie), shared, fits) for row in tie]
    return {
        "shared": shared,
        "shared_text": words.rate(shared),
        "rows": [
            {"name": name_of(row), "B": b[0], "lo": b[1], "hi": b[2], "text": _text(b)}
            for row, b in zip(tie, found, strict=True)
        ],
        "sentence": _verdict(tie, found),
        "crash_note": crash_note(
            [f"run {pk} of {name_of(row)}" for row in tie for pk in _runs(row, len(tie)) if pk in crashed]
        ),
    }


def _efficiency(
    row: Payload, tied: int, shared: float, fits: "dict[str, scaling.Fit]"
) -> Said | tuple[None, None, None]:
    """B of a recipe with its ceiling held at `shared`, its seeds pooled."""
    pinned = [fit for pk in _runs(row, tied) if (fit := fits.get(pk)) is not None and fit.status == "ok"]
    fixed = [at_ceiling(fit, shared) for fit in pinned]
    usable = [one for fit in fixed if fit.params is not None and (one := estimates.of_live(fit)) is not None]
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


def _verdict(tie: Sequence[Payload], found: Sequence[Said | tuple[None, None, None]]) -> str:
    """Who is more efficient than whom, as far as intervals of B do not overlap."""
    known = [(name_of(row), b) for row, b in zip(tie, found, strict=True) if b[0] is not None]
    if len(known) < 2:
        return "There is no second recipe here that can be fitted at the shared ceiling."
    known.sort(key=lambda one: -(one[1][0] or 0.0))
    (best, (_, lo, _)), rest = known[0], known[1:]
    slower = [name for name, (_, _, hi) in rest if lo is not None and hi is not None and hi < lo]
    level = words.percent(DEFAULT_LEVEL)
    if not slower:
        return f"{best} has the highest B, but the intervals ({level}) overlap: none is known to be more efficient."
    others = "all of the others" if len(slower) == len(rest) and len(rest) > 1 else ", ".join(slower)
    return f"{best} is more efficient than {others} ({level})."
