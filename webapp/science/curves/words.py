"""Numbers in words, with the digits that their intervals support. Pure functions; pages and payloads share them.

The x-axes on which a curve can be drawn and fitted.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Interval = tuple[float | None, float | None]
Payload = dict[str, Any]  # JSON-ready, for a page or an answer of the API
MAX_DECIMALS = 4
ROUNDS_UP = 0.95  # of a digit, to the next power of ten: a half width of 0.0096 is 0.01
NAMED = 3  # of several, the others are counted


def decimals_for(lo: float | None, hi: float | None, spare: int = 0) -> int:
    """Decimals that give the interval's half width one significant digit, between 2 and 4; 3 where none is known.

    spare: further ones, for what a person has said and nobody may round.
    """
    if lo is None or hi is None or not 0 < hi - lo < math.inf:
        return 3
    return min(MAX_DECIMALS, max(2, spare - math.floor(math.log10((hi - lo) / 2 / ROUNDS_UP))))


def rate(value: float | None, interval: Interval = (None, None), spare: int = 0) -> str:
    """A pass rate such as "0.610"; an en dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.{decimals_for(*interval, spare)}f}"


def measured(value: float | None, stderr: float | None = None) -> str:
    """A pass rate with the digits that its standard error supports."""
    if value is None or stderr is None:
        return rate(value)
    return rate(value, (value - stderr, value + stderr))


def amount(value: float | None, *, counted: bool = False) -> str:
    """An amount: three significant digits, thousands grouped, "1.20e21" if huge, "1e-6" if tiny; "never" at infinity.

    counted: what comes in whole numbers, as steps do: "58" rather than "58.0", and "7.8" for what lies between two.
    """
    if value is None:
        return "–"
    if math.isinf(value):
        return "never"
    if value == 0:
        return "0"
    if abs(value) >= 1e6:
        return f"{value:.2e}".replace("e+0", "e").replace("e+", "e")
    if abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    if counted and abs(value) >= 1:
        return f"{value:.{0 if abs(value) >= 10 or value == int(value) else 1}f}"
    if abs(value) < 1e-4:
        return f"{value:.3g}".replace("e-0", "e-")
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def percent(level: float) -> str:
    """A confidence level such as "90 %"."""
    return f"{100 * level:g} %"


def share_text(share: float) -> str:
    """A share such as "87 %"."""
    return f"{100 * share:.0f} %"


def span(interval: Interval, show=rate) -> str:
    """An interval alone: "0.596 to 0.627"; an open end is "at least" or "at most"."""
    lo, hi = interval
    number = (lambda v: rate(v, interval)) if show is rate else show
    if lo is None and hi is None:
        return "no interval"
    if hi is None:
        return f"at least {number(lo)}"
    return f"at most {number(hi)}" if lo is None else f"{number(lo)} to {number(hi)}"


def between(interval: Interval, level: float, show=rate) -> str:
    """An interval in words: "90 % 0.596 to 0.627"."""
    said = span(interval, show)
    return f"{percent(level)} {said}" if any(end is not None for end in interval) else said


def signed(value: float, interval: Interval = (None, None)) -> str:
    """A difference with its sign and the digits of its interval: "+0.004"; what is zero in these has no sign."""
    text = f"{value:+.{decimals_for(*interval)}f}".replace("-", "−")
    return text if float(text[1:]) else text[1:]


def signed_span(interval: Interval) -> str:
    """The interval of a difference: "−0.07 to −0.03"; an open end is said."""
    return " to ".join("open" if end is None else signed(end, interval) for end in interval)


def compute_span(lo: float | None, hi: float | None) -> str:
    """The interval of a compute to reach something: "0.05 to 0.29"; what may never be reached has no upper end."""
    return f"{'open' if lo is None else amount(lo)} to {'never' if hi is None else amount(hi)}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """ "1 evaluation", "16 evaluations"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def scale(shown: Iterable[Payload]) -> list[float]:
    """The scale [first, last] of whiskers that show intervals, each with its "lo" and "hi"; None is an open end."""
    ends = [one[end] for one in shown for end in ("lo", "hi") if one[end] is not None]
    return [max(0.0, min(ends) - 0.05), min(1.0, max(ends) + 0.05)] if ends else [0.0, 1.0]


def few(names: Sequence[str]) -> str:
    """The first names, and how many more."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


@dataclass(frozen=True)
class Axis:
    """One measure of training compute; `key` is also the column of `webapp.record.runs.models.Point`."""

    key: str
    label: str
    short: str  # unit after a number
    unit: str  # the same in a sentence
    counted: bool = False  # comes in whole numbers

    def amount(self, value: float | None) -> str:
        """A number on this axis: "58" steps, "58.0" device-hours."""
        return amount(value, counted=self.counted)

    def short_text(self, value: float | None) -> str:
        """An amount with its short unit: "58.0 h", "1 step"."""
        return self._with(self.amount(value), self.short)

    def text(self, value: float | None) -> str:
        """An amount with its unit as a sentence has it: "58.0 device-hours", "58 steps"."""
        return self._with(self.amount(value), self.unit)

    def _with(self, number: str, unit: str) -> str:
        one = self.counted and number == "1"
        return f"{number} {unit.removesuffix('s') if one else unit}"


AXES = {
    axis.key: axis
    for axis in (
        Axis("device_hours", "Device-hours", "h", "device-hours"),
        Axis("flops", "FLOPs", "FLOPs", "FLOPs"),
        Axis("tokens", "Tokens", "tokens", "tokens", counted=True),
        Axis("step", "Steps", "steps", "steps", counted=True),
    )
}
DEFAULT_AXIS = "device_hours"
DEFAULT_METRIC = "eval/pass_rate"
DEFAULT_LEVEL = 0.9
