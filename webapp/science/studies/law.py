"""One law over a study's axis (`scaling.axis`), and what it says of a value that no run had.

Nothing is fitted to evaluations here: each run says its forecast ceiling, and its pass rate at the end of its budget,
both with the error of its stored forecast. Values may differ in what they cost, as models of several sizes do, so runs
are taken at their own ends rather than at one compute.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from scaling.axis import MIN_VALUES, Law, check_values, law_of_rates
from scaling.course import normal_quantile
from scaling.points import InputError
from scaling.ranking import BEHIND
from webapp.base.errors import InvalidInput
from webapp.science.curves import words
from webapp.science.curves.axes import DEFAULT_LEVEL
from webapp.science.studies.axes import NAMED_AXES, number_in, stated_size
from webapp.science.studies.selectors import Group, Member

Payload = dict[str, Any]
NODES = 25  # of its curve
DRAWN = 2.0  # times beyond the values seen that it is drawn
FARTHEST = 100.0  # times beyond them that it is asked: further away an interval says nothing
SAYS = ("ceiling", "pass_rate")


def on_one_axis(groups: Sequence[Group]) -> list[Group]:
    """The variants of a study of one axis, the base among them; none of a study that varies several things."""
    found = [group for group in groups if group.arm.axis]
    return found if len({group.arm.axis for group in found}) == 1 and len(found) > 1 else []


def axis_law(groups: Sequence[Group]) -> Payload | None:
    """The law over a study's axis, or `why` there is none; None for a study of several axes or of words.

    {"axis", "title", "unit", "level", "why", "sentence", "runs", "variants", "curve"}: see `AxisLaw` of the
    API.
    """
    along = on_one_axis(groups)
    named = NAMED_AXES.get(along[0].arm.axis) if along else None
    if not along or (along[0].arm.axis != "model" and any(group.number is None for group in along)):
        return None
    said = [(group.number, _said(member)) for group in along for member in group.members]
    runs = [{"value": number} | found for number, found in said if found and number is not None]
    law: Payload = {
        "axis": along[0].arm.axis,
        "title": along[0].arm.axis_title,
        "unit": named.unit if named else "",
        "level": DEFAULT_LEVEL,
        "runs": runs,
    }
    why = _why_not(along, runs)
    if why:
        return law | {"why": why, "sentence": why, "variants": [], "curve": []}
    return law | {"why": "", "sentence": _sentence(law)} | _drawn(law, along)


def _said(member: Member) -> Payload | None:
    """None without a forecast, or where too little was seen to forecast the end of its budget."""
    run = member.course
    if run is None or run.ceiling is None or run.interval is None or not run.seen:
        return None
    end = member.run.budget_hours or run.seen
    if end > BEHIND * run.seen:
        return None
    quantile = normal_quantile(run.level)
    at_end = _known(*run.value_at(max(end, run.seen)), quantile)
    return {"ceiling": _known(run.ceiling, *run.interval, quantile), "pass_rate": at_end}


def _known(value: float, lo: float, hi: float, quantile: float) -> Payload:
    return {"value": value, "error": (hi - lo) / (2.0 * quantile)}


def _why_not(along: Sequence[Group], runs: Sequence[Payload]) -> str:
    unknown = [group.arm.model for group in along if group.number is None]
    if unknown:
        return f"There is no law over models whose size is not known: {words.few(unknown)}."
    numbers = _numbers(along)
    try:
        check_values(numbers, len(numbers))
    except InputError as error:
        return f"{error.reason[0].upper()}{error.reason[1:]}."
    told, there = len({run["value"] for run in runs}), len(set(numbers))
    if told < MIN_VALUES:
        return (
            f"{told} of {there} values have a run with a forecast and a quarter of its budget behind it: a law takes "
            f"{MIN_VALUES}."
        )
    return ""


def _drawn(law: Payload, along: Sequence[Group]) -> Payload:
    """What it says along the axis and at each variant's own value."""
    lo, hi = _seen(law)
    numbers = _numbers(along)
    at = _over(law, [*numbers, *np.geomspace(lo / DRAWN, hi * DRAWN, NODES).tolist()])
    variants = [{"position": group.arm.position} | said for group, said in zip(along, at, strict=False)]
    return {"variants": variants, "curve": at[len(numbers) :]}


def _numbers(along: Sequence[Group]) -> list[float]:
    return [group.number for group in along if group.number is not None]


def _seen(law: Payload) -> tuple[float, float]:
    values = [run["value"] for run in law["runs"]]
    return min(values), max(values)


def _over(law: Payload, values: Sequence[float]) -> list[Payload]:
    """What it says at each value."""
    said: list[Payload] = [{"value": value} for value in values]
    for name in SAYS:
        runs = tuple((run["value"], run[name]["value"], run[name]["error"]) for run in law["runs"])
        for one, (lo, middle, hi) in zip(
            said, _fitted(runs).over(values, level=law["level"]).tolist(), strict=True
        ):
            one[name] = {"value": middle, "lo": lo, "hi": hi}
    return said


@lru_cache(maxsize=256)
def _fitted(runs: tuple[tuple[float, float, float], ...]) -> Law:
    """Of (value of the axis, mean, standard error) of each run."""
    return law_of_rates(*(np.array(column) for column in zip(*runs, strict=True)))


def number_of(text: str) -> float:
    """A value of an axis as people write it: "512", "1e-6", "7B". Raises InvalidInput (axis_value)."""
    number = number_in(text.strip().replace(",", "")) or stated_size(text.strip())
    if number is None or number <= 0:
        raise InvalidInput("axis_value", f"{text.strip()[:20]!r} is no number above 0.")
    return number


def at_value(law: Payload | None, value: float) -> Payload:
    """What one more run with this value of the axis is forecast to reach: `value`, `ceiling`, `pass_rate`, `sentence`.

    Raises InvalidInput (axis_value) where the study has no law, or far from the values seen.
    """
    if law is None or law["why"]:
        raise InvalidInput("axis_value", law["why"] if law else "This study has no axis of numbers.")
    lo, hi = _seen(law)
    if not lo / FARTHEST <= value <= hi * FARTHEST:
        raise InvalidInput(
            "axis_value", f"Runs from {shown(lo)} to {shown(hi)} say nothing of {shown(value)}."
        )
    (said,) = _over(law, [value])
    level, known = words.percent(law["level"]), value in {run["value"] for run in law["runs"]}
    ceiling, rate = (_in_words(said[name], level) for name in SAYS)
    unseen = "one more run of it" if known else "no run of it has been seen"
    return said | {
        "sentence": f"{law['title']} {shown(value)}: forecast ceiling {ceiling}; pass rate at the end of a budget "
        f"{rate} ({unseen})."
    }


def shown(value: float) -> str:
    """A value of an axis: "512", "650,000", "7.62e+09", "1e-06"."""
    return f"{value:,.6g}" if 1e-3 <= value < 1e6 else f"{value:.3g}"


def _in_words(said: Payload, level: str) -> str:
    ends = (said["lo"], said["hi"])
    return f"{words.rate(said['value'], ends)}, {level} {words.span(ends)}"


def _sentence(law: Payload) -> str:
    values = len({run["value"] for run in law["runs"]})
    return (
        f"One law over {words.count(len(law['runs']), 'run')} of {values} values: the line is the forecast ceiling at "
        f"each value, its band the {words.percent(law['level'])} interval of one more run there."
    )
