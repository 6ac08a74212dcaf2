"""What a stored fit knows beyond its parameters: its band, and the compute to 90 % of its gain.

Parameters and their own intervals do not give these, for the parameters' errors go together. They are worked out once,
when the fit is stored, so that a page with a hundred recipes reads them instead of fitting again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import scaling
from scaling.course import NODES, REACH

Payload = dict[str, Any]
SHARE_OF_GAIN = 0.9


@dataclass(frozen=True)
class Outlook:
    """Band of the curve at `compute` [n]: lo, hi [n] at the level of the fit. quantile: standard errors in the half
    width of an interval. c90: (value, lo, hi), None where the fit does not identify its ceiling."""

    compute: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    quantile: float
    c90: tuple[float, float | None, float | None] | None

    def band(
        self, at: np.ndarray, curve: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(lo, hi) at computes, NaN outside what was kept. Between the nodes the distances from `curve`, which is known
        everywhere, are interpolated in log compute."""
        x, nodes = np.log(np.asarray(at, float)), np.log(self.compute)
        outside = (x < nodes[0] - 1e-9) | (x > nodes[-1] + 1e-9)
        value, known = curve(at), curve(self.compute)
        below, above = (np.interp(x, nodes, gap) for gap in (known - self.lo, self.hi - known))
        return np.where(outside, np.nan, value - below), np.where(outside, np.nan, value + above)


def outlook_of(fit: "scaling.Fit") -> Payload | None:
    """What is stored, JSON-ready; None for a failed fit."""
    if fit.params is None or fit.likelihood is None:
        return None
    grid = np.geomspace(REACH[0] * fit.window[0], REACH[1] * fit.window[1], NODES)
    lo, hi = fit.predict_interval(grid)
    return {
        "compute": _short(grid),
        "lo": _short(lo),
        "hi": _short(hi),
        "quantile": fit.likelihood.noise.quantile(fit.level),
        "c90": _compute_to_share(fit),
    }


def read(stored: Payload | None) -> Outlook | None:
    """The stored payload as arrays."""
    if not stored:
        return None
    compute, lo, hi = (np.asarray(stored[name], float) for name in ("compute", "lo", "hi"))
    return Outlook(compute, lo, hi, stored["quantile"], tuple(stored["c90"]) if stored["c90"] else None)


def _compute_to_share(fit: "scaling.Fit") -> list[float | None] | None:
    """Compute to 90 % of the gain A - R0 with its interval; an end that is never reached is None."""
    if fit.status != "ok" or fit.params is None:
        return None
    goal = fit.params["R0"] + SHARE_OF_GAIN * (fit.params["A"] - fit.params["R0"])
    lo, hi = fit.compute_for_interval(goal)
    value = fit.compute_for(goal)
    return [value, None if lo is None else min(lo, value), None if hi is None else max(hi, value)]


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.7g}") for value in np.asarray(values)]
