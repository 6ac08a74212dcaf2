"""What compute buys in single runs, as payloads with words: which to continue, and what the next hours add."""

from collections.abc import Mapping, Sequence

import numpy as np

from scaling import plan, ranking
from scaling.course import Course
from scaling.ranking import ALONE, chance
from webapp.science.curves import words
from webapp.science.curves.axes import DEFAULT_LEVEL
from webapp.science.curves.planner.recipes import HOURS, LEVEL, Payload

LEAST_GAIN = 0.001  # of a pass rate: less is called nothing


def to_continue(courses: Mapping[str, Course | None], keep: int, more: float) -> Payload:
    """Which `keep` of the runs to go on with, if `more` device-hours are shared evenly among those that are kept.

    Each run is forecast to what it has had plus its share; the likeliest best are kept. Runs are judged as they are:
    how far another seed would be is no question here.
    """
    share = more / keep
    ends = {run: _end(course, share) for run, course in courses.items()}
    known = {run: end for run, end in ends.items() if end is not None}
    means = [ranking.mean_of([end], ALONE, level=DEFAULT_LEVEL) for end in known.values()]
    judged = zip(known, ranking.standings(means, ALONE, level=DEFAULT_LEVEL), strict=True)
    ordered = sorted(judged, key=lambda one: (-round(one[1].chance, 2), -one[1].value, one[0]))
    rows = [
        _row(run, one, courses[run], share) | {"keep": place < keep}
        for place, (run, one) in enumerate(ordered)
    ]
    kept = sum(row["best"] for row in rows if row["keep"])
    rule = (
        f"Each run that goes on gets {words.amount(share)} of the {words.amount(more)} {HOURS}. Kept are those whose "
        "forecasts most often end highest."
    )
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
        "best_text": chance(one.chance),
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
    likely = f"the run that ends best is among them with probability {chance(kept)}"
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
        "verdict": "worth it" if lo > LEAST_GAIN else "may be nothing" if hi > LEAST_GAIN else "nothing",
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
