"""What more compute buys."""

import math

from scaling.models import Fit


def gain(fit: Fit, from_c: float, to_c: float, *, level: float | None = None) -> tuple[float, float, float]:
    """(gain, lo, hi): expected added reward from compute `from_c` to `to_c` (both > 0), with its interval.

    Raises ValueError for a failed fit or computes that are not finite numbers above zero.
    """
    if not all(math.isfinite(c) and c > 0 for c in (from_c, to_c)):
        raise ValueError("a gain needs two computes above zero")
    start, end = fit.predict([from_c, to_c])
    value = float(end - start)
    lo, hi = fit.change_interval(from_c, to_c, level)
    return value, min(lo, value), max(hi, value)
