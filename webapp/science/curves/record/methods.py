"""What the forecast and simpler methods say of one compute from the same evaluations, with intervals of LEVELS.

| key | method |
|---|---|
| forecast | forms averaged (`scaling.extrapolate`) |
| last | the mean of the last five evaluations, with its t interval |
| eq1 | Eq. 1 alone, with the interval of its curve |
| paper | the grid of arXiv 2510.13786, A.5, in proportion to the compute known; a value without an interval |
"""

import math
from typing import Any

import numpy as np

from scaling import calibration
from scaling.calibration import RECENT
from scaling.extrapolate import at_levels
from scaling.paper import fit_grid
from webapp.science.curves.fitting import Curve
from webapp.science.curves.forecasts import short

Payload = dict[str, Any]
LEVELS = (0.5, 0.8, 0.9)
METHODS = {"forecast": "Forecast", "last": "Last value", "eq1": "Eq. 1 alone", "paper": "The paper's grid"}
NODES = 24
REACH = 20.0  # times the compute known
GRID_STEP = 0.01  # of A
GRID_C_MID = (
    np.linspace(100.0, 40_000.0, 25) / 16_000.0
)  # of the compute known: the paper's runs had 16,000 GPU-hours


def key(level: float) -> str:
    """A level as a key of JSON."""
    return f"{level:g}"


def forecast(curve: Curve) -> tuple[str, str, Payload | None]:
    """(status, message, what is stored) of the forecast from these evaluations, from the last one on."""
    last = float(curve.x[-1])
    grid = np.geomspace(last, REACH * last, NODES)
    said = at_levels(curve.x, curve.y, grid, LEVELS, r0_observed=list(curve.start) or None)
    any_level = said[-1]
    if any_level.status == "failed":
        return "failed", any_level.message, None
    ends = {key(one.level): {"lo": short(one.lo), "hi": short(one.hi)} for one in said}
    stored = {"compute": short(grid), "value": short(any_level.value), "levels": ends}
    return any_level.status, any_level.message, stored


def at(stored: Payload, compute: float) -> Payload:
    """{"value", "levels", "reached"} of a stored forecast at one compute; beyond what is kept, its end. reached: lower
    end of each level at the last compute known."""
    nodes, where = np.log(stored["compute"]), math.log(compute)
    read = lambda column: float(np.interp(where, nodes, column))
    levels = {level: [read(ends["lo"]), read(ends["hi"])] for level, ends in stored["levels"].items()}
    reached = {level: ends["lo"][0] for level, ends in stored["levels"].items()}
    return {"value": read(stored["value"]), "levels": levels, "reached": reached}


def last_value(curve: Curve) -> Payload:
    """The mean of the last five."""
    return _payload(calibration.mean_of_last(curve.y, LEVELS))


def eq1(curve: Curve, compute: float) -> Payload | None:
    """Eq. 1 alone; None where it cannot be fitted."""
    said = calibration.eq1(curve.x, curve.y, compute, LEVELS, r0_observed=list(curve.start) or None)
    return None if said is None else _payload(said)


def _payload(said: calibration.Said) -> Payload:
    levels = zip(LEVELS, said.intervals, strict=True)
    return {"value": said.value, "levels": {key(level): list(interval) for level, interval in levels}}


def paper(curve: Curve, compute: float) -> Payload | None:
    """The paper's procedure; R0 is the first evaluation's. None where no cell of the grid converges. Takes a second."""
    last = float(curve.x[-1])
    r0 = min(float(np.mean(curve.start)) if curve.start else float(curve.y[0]), 1.0 - 1e-9)
    lowest = max(float(curve.y[-RECENT:].mean()) - 0.05, GRID_STEP)
    a_grid = np.linspace(0.0, 1.0, round(1 / GRID_STEP) + 1)[math.ceil(lowest / GRID_STEP) :]
    found = fit_grid(curve.x / last, curve.y, r0=r0, a_grid=a_grid, c_mid_grid=GRID_C_MID)
    if found is None:
        return None
    value = found.r0 + (found.a - found.r0) / (1.0 + (found.c_mid * last / compute) ** found.b)
    return {"value": float(value), "levels": {}}
