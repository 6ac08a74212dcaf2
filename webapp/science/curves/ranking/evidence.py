"""How good the evidence for a recipe's ceiling is: facts, a grade, and both in words. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scaling.paper import MARGIN
from webapp.science.curves import words
from webapp.science.curves.estimates import RunFit

GRADES = ("none", "weak", "fair", "strong")
MARKS = ("○○○", "●○○", "●●○", "●●●")
FAIR_SEEDS, STRONG_SEEDS = 2, 3
FAIR_AHEAD, STRONG_AHEAD = (
    2.0,
    4.0,
)  # times C_mid: below, intervals of the ceiling are wide (docs/validation.md)


@dataclass(frozen=True)
class Forecast:
    """What a fit at half of the compute said of where the run is now: `held` None where it did not dare to say."""

    held: bool | None
    words: str


@dataclass(frozen=True)
class Facts:
    """What stands behind one row. ahead: last compute over C_mid, of the run that got least and most far; spread:
    greatest difference between the ceilings of its seeds, None for fewer than two."""

    seeds: int
    pinned: int
    ahead: tuple[float, float] | None
    points: tuple[int, int]
    window: tuple[float, float] | None
    spread: float | None
    held: int
    missed: int

    @property
    def grade(self) -> int:
        """0 to 3, an index of GRADES."""
        if not self.pinned or self.ahead is None:
            return 0
        agree = self.spread is not None and self.spread <= MARGIN
        level = agree and self.missed == 0 and self.pinned == self.seeds
        if level and self.pinned >= STRONG_SEEDS and self.ahead[0] >= STRONG_AHEAD:
            return 3
        if agree and self.held >= self.missed and self.pinned >= FAIR_SEEDS and self.ahead[0] >= FAIR_AHEAD:
            return 2
        return 1

    @property
    def sentences(self) -> list[str]:
        """Every fact in words, what weakens it first."""
        return [
            said
            for said in (self._seeds(), self._ahead(), self._spread(), self._past(), self._window())
            if said
        ]

    def _seeds(self) -> str:
        said = words.count(self.seeds, "seed")
        if not self.pinned:
            return f"{said}, none pins its ceiling"
        if self.pinned < self.seeds:
            pin = "pins" if self.pinned == 1 else "pin"
            return f"{said}, {self.pinned} of them {pin} the ceiling; the others leave it open above"
        return f"{said}: one cannot tell how far seeds differ" if self.seeds == 1 else said

    def _ahead(self) -> str:
        if self.ahead is None:
            return ""
        lo, hi = (f"{one:.1f}" for one in self.ahead)
        span = lo if lo == hi else f"{lo} to {hi}"
        return f"seen to {span} × C_mid{'' if self.ahead[0] >= FAIR_AHEAD else ', not far past the bend'}"

    def _spread(self) -> str:
        if self.spread is None:
            return ""
        side = "within" if self.spread <= MARGIN else "more than"
        return f"its ceilings differ by up to {self.spread:.3f}, {side} the margin of {MARGIN:g}"

    def _past(self) -> str:
        if not (told := self.held + self.missed):
            return "no earlier forecast to check"
        return f"{self.held} of {words.count(told, 'forecast')} from half of the compute held"

    def _window(self) -> str:
        if self.window is None:
            return ""
        lo, hi = self.points
        count = f"{lo}" if lo == hi else f"{lo} to {hi}"
        return (
            f"{count} evaluations a run, {words.amount(self.window[0])} to {words.amount(self.window[1])} h"
        )


def facts_of(fits: Sequence[RunFit], forecasts: Sequence[Forecast | None]) -> Facts:
    """The facts of a recipe's runs."""
    pinned = [fit for fit in fits if fit.identified]
    ahead = [fit.window[1] / (fit.params or {})["C_mid"] for fit in pinned]
    ceilings = [(fit.params or {})["A"] for fit in pinned]
    told = [one.held for one in forecasts if one is not None and one.held is not None]
    counts = [fit.n for fit in fits]
    windows = [fit.window for fit in fits]
    return Facts(
        seeds=len(fits),
        pinned=len(pinned),
        ahead=(min(ahead), max(ahead)) if ahead else None,
        points=(min(counts), max(counts)) if counts else (0, 0),
        window=(min(w[0] for w in windows), max(w[1] for w in windows)) if windows else None,
        spread=max(ceilings) - min(ceilings) if len(ceilings) > 1 else None,
        held=sum(told),
        missed=len(told) - sum(told),
    )


def forecast_of(earlier: RunFit | None, newest: RunFit) -> Forecast | None:
    """Whether an earlier fit's curve at the newest compute agrees with the newest fit's: their intervals there overlap.

    None without an earlier fit, or where its band was not kept.
    """
    if earlier is None or newest.params is None:
        return None
    if not earlier.identified:
        return Forecast(None, f"at {words.amount(earlier.window[1])} h the ceiling was not identified yet")
    at = np.array([newest.window[1]])
    ends = [float(end[0]) for fit in (earlier, newest) for end in fit.band(at)]
    if not np.isfinite(ends).all():
        return None
    lo, hi, now_lo, now_hi = ends
    held = lo <= now_hi and now_lo <= hi
    came = float(newest.values(at)[0])
    said = words.span((lo, hi))
    return Forecast(
        held,
        f"from {words.amount(earlier.window[1])} h it was to be {said} at {words.amount(float(at[0]))} h; "
        f"the curve came to {words.rate(came, (now_lo, now_hi))}: {'held' if held else 'missed'}",
    )
