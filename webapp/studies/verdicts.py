"""Which changes of a study matter: the paper's rule (section 2.1 of arXiv 2510.13786) with seeds pooled.

Ceilings are pooled over seeds by `scaling.compare.recipe_ceiling` (`scaling.seeds.pool`), as the leaderboard does.
Ceilings further apart than 0.02 decide; else B decides, of all fits refitted at one shared ceiling (section 5, Fig. 5).
With two variants of one seed each this is `scaling.compare.compare`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

import scaling
from scaling import compare, seeds
from scaling.fitting import fit_points
from scaling.intervals import Interval
from webapp.curves import words
from webapp.curves.answers import floored
from webapp.curves.axes import DEFAULT_LEVEL

Ceiling = tuple[float, float | None, float | None]
LOWER, HIGHER, SLOWER, FASTER, TIE, UNDECIDED, OPEN, PENDING, OTHER = (
    "lower", "higher", "slower", "faster", "tie", "undecided", "open", "pending", "other task",
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """A variant against the base. delta: its ceiling minus the base's, with its interval; None where unknown."""

    kind: str
    delta: float | None = None
    interval: Interval = (None, None)


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


def judge(variant: Ceiling | None, base: Ceiling | None) -> Verdict:
    """The rule on ceilings alone: lower, higher, tie, undecided, or open where one is not identified."""
    if variant is None or base is None:
        return Verdict(OPEN)
    delta, (lo, hi) = compare.difference(variant, base)
    if abs(delta) <= compare.MARGIN + 1e-12:
        return Verdict(TIE, delta, (lo, hi))
    if (lo is None or lo <= 0) and (hi is None or hi >= 0):
        return Verdict(UNDECIDED, delta, (lo, hi))
    return Verdict(HIGHER if delta > 0 else LOWER, delta, (lo, hi))


def efficiency(
    fits: "dict[int, list[scaling.Fit]]", ceilings: dict[int, Ceiling | None], verdicts: dict[int, Verdict]
) -> Efficiency | None:
    """B of the base (position 0) and of all that tie with it, at the mean of their ceilings; None without the base."""
    base = ceilings.get(0)
    if base is None:
        return None
    level = [0, *(position for position, verdict in verdicts.items() if verdict.kind == TIE)]
    shared = fmean(ceiling[0] for position in level if (ceiling := ceilings[position]) is not None)
    refitted = {position: _at_ceiling(fits[position], shared) for position in level}
    usable = {position: found for position, found in refitted.items() if found}
    pooled = {position: pooled_parameter(found, "B") for position, found in usable.items()}
    return Efficiency(shared, {position: b for position, b in pooled.items() if b is not None}, usable)


def pooled_parameter(fits: "Sequence[scaling.Fit]", name: str) -> "seeds.Pooled | None":
    """A parameter of a variant, pooled over its runs."""
    return seeds.joint(fits, level=DEFAULT_LEVEL).parameters[name] if fits else None


def _at_ceiling(fits: "Sequence[scaling.Fit]", shared: float) -> "list[scaling.Fit]":
    found = [_refit(_Key(fit), shared) for fit in fits]
    return [fit for fit in found if fit.params is not None]


class _Key:
    """A fit that hashes by what was fitted, so that a refit of the same points is found again."""

    def __init__(self, fit: "scaling.Fit") -> None:
        self.fit = fit
        self.key = (fit.digest, fit.form, fit.level, tuple(sorted(fit.options.items())))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.key == self.key


@lru_cache(maxsize=512)
def _refit(key: _Key, shared: float) -> "scaling.Fit":
    fit = key.fit
    assert fit.data is not None
    return fit_points(fit.data, form=fit.form, level=fit.level, **{**fit.options, "a": shared})


def with_efficiency(position: int, verdict: Verdict, found: Efficiency | None) -> Verdict:
    """A tie in ceiling, decided by B at the shared ceiling where the intervals of B do not overlap."""
    if verdict.kind != TIE or found is None or position not in found.b or 0 not in found.b:
        return verdict
    own, base = found.b[position], found.b[0]
    if _above(own, base):
        return Verdict(FASTER, verdict.delta, verdict.interval)
    return Verdict(SLOWER if _above(base, own) else TIE, verdict.delta, verdict.interval)


def _above(one: "seeds.Pooled", other: "seeds.Pooled") -> bool:
    return one.lo is not None and other.hi is not None and one.lo > other.hi


# --- words ----------------------------------------------------------------------------------------------------

LEVEL = words.percent(DEFAULT_LEVEL)


def sentence(
    label: str, verdict: Verdict, *, own_b=None, base_b=None, shared_a=None, at_least=None, lacks=""
) -> str:
    """One variant against the base, in words."""
    delta, interval = verdict.delta, verdict.interval
    if verdict.kind == PENDING:
        return f"{label}: no fit yet{f' ({lacks})' if lacks else ''}."
    if verdict.kind == OTHER:
        return f"{label} is evaluated on other tasks than the base, so their pass rates are no rivals."
    if verdict.kind == OPEN or delta is None:
        if at_least is None:
            return f"{label}: nothing can be said yet, because the base's ceiling is not identified."
        bound = f"{LEVEL} at least {floored(at_least)}"
        return f"{label}: nothing can be said yet, its ceiling is not identified ({bound})."
    apart = f"{abs(delta):.3f}"
    if verdict.kind in (LOWER, HIGHER):
        return (
            f"{label}: the ceiling is {apart} {verdict.kind} than the base's ({LEVEL} {ends(interval)}), more than the "
            f"margin of {compare.MARGIN:g}."
        )
    if verdict.kind == UNDECIDED:
        side = "higher" if delta > 0 else "lower"
        return (
            f"{label} cannot be told apart from the base yet: its ceiling is {apart} {side}, "
            f"which may be chance ({LEVEL} {ends(interval)})."
        )
    tie = f"{label} ties with the base in ceiling ({apart} apart, within {compare.MARGIN:g})"
    if own_b is None or base_b is None:
        return f"{tie}; their efficiency cannot be compared."
    tie = f"{tie}; at the shared ceiling {shared_a:.3f} its B is {own_b:.2f}, the base's {base_b:.2f}"
    if verdict.kind == TIE:
        return f"{tie}, which their intervals do not tell apart."
    return f"{tie}: it is {'less' if verdict.kind == SLOWER else 'more'} efficient."


def ends(interval: Interval) -> str:
    """A difference's interval: "−0.07 to −0.03"; an open end is said."""
    return " to ".join("open" if end is None else words.signed(end) for end in interval)


def headline(kinds: Sequence[str], *, ceilings_alone: bool = False) -> str:
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
    if ceilings_alone:
        parts = [part.replace("with the base", "with the base in ceiling") for part in parts]
    waiting = len(kinds) - len(judged)
    total = words.count(len(kinds), "change")
    return f"Of {total}, {', '.join(parts)}{f'; {waiting} cannot be judged yet' if waiting else ''}."


PHRASES = (
    (LOWER, "lowers the ceiling", "lower the ceiling"),
    (HIGHER, "raises the ceiling", "raise the ceiling"),
    (SLOWER, "is less efficient at the same ceiling", "are less efficient at the same ceiling"),
    (FASTER, "is more efficient at the same ceiling", "are more efficient at the same ceiling"),
    (TIE, "ties with the base", "tie with the base"),
    (UNDECIDED, "may differ from the base by chance", "may differ from the base by chance"),
    (OTHER, "is on another task", "are on other tasks"),
)
