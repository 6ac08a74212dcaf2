"""One law over a study's axis (`scaling.axis`), and what it says of a value that no run had.

Nothing is fitted to evaluations here: each run says its forecast ceiling, and its pass rate at the end of its budget,
both with the error of its stored forecast. Values may differ in what they cost, as models of several sizes do, so runs
are taken at their own ends rather than at one compute.

Which changes of a study matter, by the comparison that all pages share (`webapp.science.curves.ranking.standing`).

A variant is better or worse than the base where its forecast at the shared compute is, by more than form, noise and
seeds explain. Those within the paper's margin of the base count as level, and of them B decides, all fits refitted at
one shared ceiling (section 5 of arXiv 2510.13786, Fig. 5), again by more than noise and seeds explain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean

import numpy as np

import scaling
from scaling import compare, seeds
from scaling.axis import MIN_VALUES, Law, check_values, law_of_rates
from scaling.course import normal_quantile
from scaling.intervals import Interval
from scaling.points import InputError
from scaling.ranking import BEHIND, Compared
from webapp.base.errors import InvalidInput
from webapp.science.curves import words
from webapp.science.curves.ranking import standing
from webapp.science.curves.ranking.variation import at_ceiling, slopes
from webapp.science.curves.words import DEFAULT_LEVEL, Payload
from webapp.science.studies.axes import NAMED_AXES, number_in, stated_size
from webapp.science.studies.selectors import Group, Member

NODES = 25  # of its curve
DRAWN = 2.0  # times beyond the values seen that it is drawn
FARTHEST = 100.0  # times beyond them that it is asked: further away an interval says nothing
SAYS = ("ceiling", "pass_rate")
Ceiling = tuple[float, float | None, float | None]
LEVEL = words.percent(DEFAULT_LEVEL)


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
    if why := _why_not(along, runs):
        return law | {"why": why, "sentence": why, "variants": [], "curve": []}
    values = len({run["value"] for run in runs})
    sentence = (
        f"One law over {words.count(len(runs), 'run')} of {values} values: the line is the forecast ceiling at "
        f"each value, its band the {words.percent(DEFAULT_LEVEL)} interval of one more run there."
    )
    return law | {"why": "", "sentence": sentence} | _drawn(law, along)


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
    if unknown := [group.arm.model for group in along if group.number is None]:
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


LOWER, HIGHER, SLOWER, FASTER, TIE, UNDECIDED, OPEN, PENDING, OTHER = (
    "lower", "higher", "slower", "faster", "tie", "undecided", "open", "pending", "other task",
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """A variant against the base. delta: its forecast at the shared compute minus the base's, with its interval at
    `scaling.ranking.REAL`, None where unknown; said: that comparison in words, or why there is none."""

    kind: str
    delta: float | None = None
    interval: Interval = (None, None)
    said: str = ""


@dataclass(frozen=True)
class Efficiency:
    """The shared ceiling and, by position of the variant, B there pooled over its seeds, and the refitted runs."""

    shared_a: float
    b: "dict[int, seeds.Pooled]"
    fits: "dict[int, list[scaling.Fit]]"


def pooled_ceiling(fits: "Sequence[scaling.Fit]") -> Ceiling | None:
    """One ceiling of a variant's runs; open above where a run does not identify its own. None where none does."""
    known = [(fit.params["A"], *fit.interval("A")) for fit in fits if fit.status == "ok" and fit.params]
    if not known:
        return None
    a, lo, hi = compare.recipe_ceiling(known, DEFAULT_LEVEL)
    return a, lo, hi if len(known) == len(fits) else None


def judge(found: Compared, position: int, names: Sequence[str]) -> Verdict:
    """Variant `position` of those compared against the base, which stands first."""
    said, gap = standing.pair(names, found, position, 0), found.here.gap(position, 0)
    said = f"The base{said.removeprefix(names[0])}" if said.startswith(names[0]) else said
    if gap is None:
        return Verdict(OPEN, said=said)
    kind = TIE if abs(gap.value) <= compare.MARGIN else UNDECIDED
    if gap.real:
        kind = HIGHER if gap.value > 0 else LOWER
    return Verdict(kind, gap.value, (gap.lo, gap.hi), said)


def efficiency(
    fits: "dict[int, list[scaling.Fit]]", ceilings: dict[int, Ceiling | None], verdicts: dict[int, Verdict]
) -> Efficiency | None:
    """B of the base (position 0) and of all that tie with it, at the mean of their ceilings; None without the base."""
    if ceilings.get(0) is None:
        return None
    level = [0, *(position for position, verdict in verdicts.items() if verdict.kind == TIE)]
    shared = fmean(ceiling[0] for position in level if (ceiling := ceilings[position]) is not None)
    refitted = {
        position: [one for fit in fits[position] if (one := at_ceiling(fit, shared)).params is not None]
        for position in level
    }
    usable = {position: found for position, found in refitted.items() if found}
    pooled = {position: pooled_parameter(found, "B") for position, found in usable.items()}
    return Efficiency(shared, {position: b for position, b in pooled.items() if b is not None}, usable)


def pooled_parameter(fits: "Sequence[scaling.Fit]", name: str) -> "seeds.Pooled | None":
    """A parameter of a variant, pooled over its runs."""
    return seeds.joint(fits, level=DEFAULT_LEVEL).parameters[name] if fits else None


def with_efficiency(position: int, verdict: Verdict, found: Efficiency | None) -> Verdict:
    """A variant that is level with the base, decided by B at the shared ceiling where that really differs."""
    if verdict.kind != TIE or found is None or position not in found.b or 0 not in found.b:
        return verdict
    order = list(found.fits)
    own, base, steep = order.index(position), order.index(0), slopes(list(found.fits.values()))
    if steep.steeper(own, base):
        return replace(verdict, kind=FASTER)
    return replace(verdict, kind=SLOWER) if steep.steeper(base, own) else verdict


# --- words ----------------------------------------------------------------------------------------------------


def sentence(label: str, verdict: Verdict, *, own_b=None, base_b=None, shared_a=None, lacks="") -> str:
    """One variant against the base, in words."""
    if verdict.kind == PENDING:
        return f"{label}: no fit yet{f' ({lacks})' if lacks else ''}."
    if verdict.kind == OTHER:
        return f"{label} is evaluated on other tasks than the base, so their pass rates are no rivals."
    if verdict.kind not in (TIE, SLOWER, FASTER) or own_b is None or base_b is None:
        return verdict.said
    at = f"Refitted at the shared ceiling {shared_a:.3f}, B of {label} is {own_b:.2f} and the base's {base_b:.2f}"
    if verdict.kind == TIE:
        return f"{verdict.said} {at}, which noise and seeds may be."
    return f"{verdict.said} {at}: it is {'less' if verdict.kind == SLOWER else 'more'} efficient."


def headline(kinds: Sequence[str], *, rates_alone: bool = False) -> str:
    """What a study says so far, in one line, from the verdicts of its variants."""
    if not kinds:
        return "No variant yet."
    if not (judged := [kind for kind in kinds if kind not in (OPEN, PENDING)]):
        return "Nothing can be told apart yet."
    parts = [
        f"{count} {phrase if count == 1 else plural}"
        for kind, phrase, plural in PHRASES
        if (count := kinds.count(kind))
    ]
    if rates_alone:
        parts = [part.replace("with the base", "with the base in pass rate") for part in parts]
    waiting = len(kinds) - len(judged)
    total = words.count(len(kinds), "change")
    return f"Of {total}, {', '.join(parts)}{f'; {waiting} cannot be judged yet' if waiting else ''}."


PHRASES = (
    (LOWER, "is worse", "are worse"),
    (HIGHER, "is better", "are better"),
    (SLOWER, "is less efficient at the same ceiling", "are less efficient at the same ceiling"),
    (FASTER, "is more efficient at the same ceiling", "are more efficient at the same ceiling"),
    (TIE, "ties with the base", "tie with the base"),
    (UNDECIDED, "may differ from the base by chance", "may differ from the base by chance"),
    (OTHER, "is on another task", "are on other tasks"),
)
