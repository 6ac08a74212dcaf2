"""What compute buys in single runs, as payloads with words: which to continue, and what the next hours add.

Every number comes from `scaling.plan`.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import scaling
from scaling import plan
from webapp.curves import words
from webapp.curves.axes import DEFAULT_LEVEL
from webapp.curves.planner.recipes import HOURS, LEVEL, N, Payload, rates_between, share_text

LEAST_GAIN = 0.001  # of a pass rate: less is called nothing


def to_continue(fits: "Mapping[str, scaling.Fit]", keep: int, more: float) -> Payload:
    """Which `keep` of the runs to go on with, if `more` device-hours are shared evenly among those that are kept.

    `scaling.plan.which_to_continue` with what each has had plus its share; the likeliest best are kept.
    """
    share = more / keep
    choice = _choice(tuple(fits.items()), share)
    rows: list[Payload] = [
        {
            "run": one.name,
            "keep": place < keep,
            "best": one.best,
            "best_text": share_text(one.best),
            "so_far": one.so_far,
            "until": one.budget,
            "identified": one.status == "ok",
            "value": one.value if one.status == "ok" else None,
            "lo": one.interval[0],
            "hi": one.interval[1],
            "text": words.rate(one.value, one.interval) if one.status == "ok" else "not identified",
            "interval_text": rates_between(*one.interval),
        }
        for place, one in enumerate(choice.candidates)
    ]
    kept = sum(row["best"] for row in rows if row["keep"])
    rule = (
        f"Each run that goes on gets {words.amount(share)} of the {words.amount(more)} {HOURS}. The rule: draw curves "
        f"from what each run's evaluations allow, see which run ends highest, and keep those that do so most often; "
        "where that is the same to 1 %, those expected to end higher."
    )
    return {
        "rows": rows,
        "share": share,
        "rule": rule,
        "kept": kept,
        "sentence": _continue_sentence(rows, keep, kept),
        "excluded": [{"run": run, "reason": reason} for run, reason in choice.excluded.items()],
    }


@lru_cache(maxsize=64)
def _choice(fits: "tuple[tuple[str, scaling.Fit], ...]", share: float) -> "plan.Choice":
    named = dict(fits)
    return plan.which_to_continue(named, plan.after(named, share), level=DEFAULT_LEVEL, n=N)


def _continue_sentence(rows: Sequence[Payload], keep: int, kept: float) -> str:
    if not rows:
        return "No run has a curve to judge yet."
    if keep >= len(rows):
        return "All of them can go on: there is nothing to choose."
    unknown = any(not row["identified"] for row in rows)
    doubt = (
        " Where a ceiling is not identified, its chance rests on a flat prior, not on data."
        if unknown
        else ""
    )
    return (
        f"Keep the first {keep} of {len(rows)}: the run that ends best is among them with a chance of "
        f"{share_text(kept)}.{doubt}"
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
        "text": words.signed(value, decimals) if identified else "not identified",
        "interval_text": f"{words.signed(lo, decimals)} to {words.signed(hi, decimals)}",
        "verdict": verdict if identified or less_than_noise else "its ceiling is not identified",
    }


def gain_sentence(rows: Sequence[Payload], names: Mapping[str, str], hours: float) -> str:
    """Where the next hours buy the most."""
    if not rows:
        return "No fitted run of this task and model is training now."
    first = rows[0]
    hours_text = f"The next {words.amount(hours)} {HOURS}"
    if not first["identified"]:
        return (
            f"{hours_text} may buy the most in {names[first['run']]}, whose ceiling is not identified: {LEVEL} "
            f"{first['interval_text']}."
        )
    return (
        f"{hours_text} buy the most in {names[first['run']]}: {first['text']} "
        f"({LEVEL} {first['interval_text']})."
    )
