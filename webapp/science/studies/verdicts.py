"""Which changes of a study matter, by the comparison that all pages share (`webapp.science.curves.ranking.standing`).

A variant is better or worse than the base where its forecast at the shared compute is, by more than form, noise and
seeds explain. Those within the paper's margin of the base count as level, and of them B decides, all fits refitted at
one shared ceiling (section 5 of arXiv 2510.13786, Fig. 5), again by more than noise and seeds explain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import scaling
from scaling import compare, seeds
from scaling.intervals import Interval
from scaling.ranking import Compared
from webapp.science.curves import words
from webapp.science.curves.axes import DEFAULT_LEVEL
from webapp.science.curves.ranking import standing
from webapp.science.curves.ranking.efficiency import at_ceiling, slopes

Ceiling = tuple[float, float | None, float | None]
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
    return pool(known, all_known=len(known) == len(fits))


def pool(ceilings: Sequence[Ceiling], *, all_known: bool) -> Ceiling | None:
    """The ceiling of several seeds; its upper end is open unless all of them are known."""
    if not ceilings:
        return None
    a, lo, hi = compare.recipe_ceiling(ceilings, DEFAULT_LEVEL)
    return a, lo, hi if all_known else None


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
    base = ceilings.get(0)
    if base is None:
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

LEVEL = words.percent(DEFAULT_LEVEL)


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
    judged = [kind for kind in kinds if kind not in (OPEN, PENDING)]
    if not judged:
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
