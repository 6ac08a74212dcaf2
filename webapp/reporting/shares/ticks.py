"""Ticks of an axis: where they are, and what is written at them. Pure functions."""

import math

Tick = tuple[float, str]
STEPS = (1.0, 2.0, 5.0, 10.0)
FEWEST = 2  # ticks with which an axis can be read


def linear_ticks(lo: float, hi: float, most: int = 6) -> list[Tick]:
    """At most `most` + 1 multiples of 1, 2 or 5 times a power of ten between `lo` and `hi`."""
    if not hi > lo:
        return []
    rough = (hi - lo) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in STEPS if size * power >= rough * (1 - 1e-9))
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(lo / step - 1e-9), math.floor(hi / step + 1e-9)
    return [(at * step, _linear_text(at * step, decimals)) for at in range(first, last + 1)]


def _linear_text(value: float, decimals: int) -> str:
    return tick_text(value) if abs(value) >= 1000 else f"{value:.{decimals}f}"


def log_ticks(lo: float, hi: float, most: int = 9) -> list[Tick]:
    """1, 2 and 5 of each decade between two positive values; only the 1s where that is more than `most`.

    Where fewer than two of them lie between, as with points that share one compute, round numbers between the ends.
    """
    decades = range(math.floor(math.log10(lo)), math.ceil(math.log10(hi)) + 1)
    found = [float(f"{digit}e{decade}") for decade in decades for digit in (1, 2, 5)]
    shown = [value for value in found if lo <= value <= hi]
    if len(shown) < FEWEST:
        return linear_ticks(lo, hi, most=min(most, 4))
    if len(shown) > most:
        shown = [value for value in shown if f"{value:e}".startswith("1.")]
    return [(value, tick_text(value)) for value in shown[:: max(1, math.ceil(len(shown) / most))]]


def tick_text(value: float) -> str:
    """0.01, 20, 5k or 2e18, as the pages' charts write it."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"
