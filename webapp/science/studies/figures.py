"""The charts of a study as data: pass rates, the slope view of the paper's Figure 5, and what an axis does.

Pure functions from groups of fitted runs; every number comes from `scaling`, the page draws and computes nothing.
"""

from collections.abc import Sequence

import numpy as np

import scaling
from scaling import compare, ranking, seeds
from scaling.curve import slope_view
from webapp.science.curves.ranking import standing
from webapp.science.curves.words import DEFAULT_LEVEL, Payload, rate
from webapp.science.studies.law import (
    OTHER,
    TIE,
    Efficiency,
    Verdict,
    on_one_axis,
    pooled_ceiling,
    pooled_parameter,
)
from webapp.science.studies.selectors import Group

GRID, BAND_GRID = 80, 24
MOST_BANDS = 3  # more than that hide each other; the table has the intervals
AHEAD = 1.5  # an identified curve is drawn this many times beyond its last point
SERIES = 6  # colours and shapes; a second round of them is hollow


def mark(position: int) -> Payload:
    """The series of a variant: which colour and shape, and whether it is hollow."""
    return {"series": position % SERIES, "hollow": (position // SERIES) % 2 == 1}


def overlay(groups: Sequence[Group]) -> list[Payload]:
    """Points of every run, and of each variant one curve: fitted where there are points, predicted beyond."""
    banded = len(groups) <= MOST_BANDS
    return [
        {
            "label": group.arm.label,
            **mark(group.arm.position),
            "points": _points(group),
            "curve": _curve(group.fits, banded),
        }
        for group in groups
    ]


def _points(group: Group) -> Payload:
    shown = [(m, m.curve) for m in group.members if m.curve is not None]
    return {
        "x": [x for _, curve in shown for x in curve.x.tolist()],
        "y": [y for _, curve in shown for y in curve.y.tolist()],
        "seed": [m.run.seed for m, curve in shown for _ in curve.x],
    }


def _curve(fits: "list[scaling.Fit]", banded: bool) -> Payload | None:
    """The fit of one run, or the mean parameters of several; beyond the points only where it is identified."""
    if not fits:
        return None
    first, last = min(fit.window[0] for fit in fits), max(fit.window[1] for fit in fits)
    identified = all(fit.status == "ok" for fit in fits)
    x = np.geomspace(first, AHEAD * last if identified else last, BAND_GRID if banded else GRID)
    try:
        y = fits[0].predict(x) if len(fits) == 1 else seeds.joint(fits, level=DEFAULT_LEVEL).predict(x)
    except ValueError:  # no run gives one of the parameters an interval
        return None
    lo, hi = band(fits, x) if banded else (None, None)
    return {"x": x.tolist(), "y": np.asarray(y).tolist(), "lo": lo, "hi": hi, "solid_until": last}


def band(fits: "Sequence[scaling.Fit]", x: np.ndarray) -> tuple[list[float] | None, list[float] | None]:
    """Where the curve of a variant lies, pooled over its seeds at each compute."""
    bands = [(fit.predict(x), *fit.predict_interval(x, DEFAULT_LEVEL)) for fit in fits]
    at = [
        compare.recipe_ceiling(
            [(float(v[i]), float(lo[i]), float(hi[i])) for v, lo, hi in bands], DEFAULT_LEVEL
        )
        for i in range(len(x))
    ]
    return [float(lo or 0.0) for _, lo, _ in at], [float(1.0 if hi is None else hi) for _, _, hi in at]


# --- Figure 5 -------------------------------------------------------------------------------------------------


def slope_figure(groups: Sequence[Group], found: Efficiency | None, verdicts: dict[int, Verdict]) -> Payload:
    """log F against log C at the shared ceiling (section 5, Fig. 5): lines of slope B, the most efficient first."""
    left_out = [
        {"label": group.arm.label, "reason": _why_left_out(group, verdicts.get(group.arm.position), found)}
        for group in groups
        if found is None or group.arm.position not in found.b
    ]
    if found is None:
        return {"shared_A": None, "rows": [], "left_out": left_out, "sentence": _NO_SLOPES}
    inside = [group for group in groups if group.arm.position in found.b]
    rows = [
        _slope_row(group, found) for group in sorted(inside, key=lambda g: -found.b[g.arm.position].value)
    ]
    return {
        "shared_A": found.shared_a,
        "rows": rows,
        "left_out": left_out,
        "sentence": f"All of them refitted at the shared ceiling {found.shared_a:.3f}, the mean of those that tie with "
        f"the base. A steeper line needs less compute.",
    }


_NO_SLOPES = (
    "The slopes are comparable at a shared ceiling only: they come once the base's ceiling is identified."
)


def _slope_row(group: Group, found: Efficiency) -> Payload:
    position = group.arm.position
    pooled, fits = found.b[position], found.fits[position]
    lo, hi = min(fit.window[0] for fit in fits), max(fit.window[1] for fit in fits)
    points, outside = _slope_points(fits)
    ends = (pooled.lo, pooled.hi)
    return {
        "label": group.arm.label,
        "position": position,
        **mark(position),
        "B": pooled.value,
        "lo": pooled.lo,
        "hi": pooled.hi,
        "B_text": f"{pooled.value:.2f}",
        "interval_text": " to ".join("open" if end is None else f"{end:.2f}" for end in ends),
        "seeds": pooled.runs,
        "line": {"x": [lo, hi], "y": [lo**pooled.value, hi**pooled.value]},
        "points": points,
        "outside": outside,
    }


def _slope_points(fits: "Sequence[scaling.Fit]") -> tuple[Payload, int]:
    """(C, F) of every point between R0 and the shared ceiling, and how many lie outside and have no logarithm."""
    xs: list[float] = []
    ys: list[float] = []
    outside = 0
    for fit in fits:
        assert fit.params is not None and fit.data is not None
        p = fit.params
        log_c, log_f = slope_view(
            fit.data.compute, fit.data.reward, r0=p["R0"], a=p["A"], b=p["B"], c_mid=p["C_mid"]
        )
        shown = np.isfinite(log_f) & (np.abs(log_f) < 600)
        outside += int((~shown).sum())
        xs += np.exp(log_c[shown]).tolist()
        ys += np.exp(log_f[shown]).tolist()
    return {"x": xs, "y": ys}, outside


def _why_left_out(group: Group, verdict: Verdict | None, found: Efficiency | None) -> str:
    if not group.fits:
        return "no fit yet"
    if verdict is not None and verdict.kind == OTHER:
        return "another task"
    if pooled_ceiling(group.fits) is None:
        return "ceiling not identified"
    if found is None or verdict is None or verdict.delta is None:
        return "the base's ceiling is not identified"
    if verdict.kind == TIE:
        return "cannot be refitted at the shared ceiling"
    side = "above" if verdict.delta > 0 else "below"
    return f"{rate(abs(verdict.delta), verdict.interval)} {side} the base: no ceiling to share"


# --- an axis --------------------------------------------------------------------------------------------------


def axis_figure(groups: Sequence[Group], found: ranking.Compared) -> Payload | None:
    """Forecast ceiling and B against the values of the study's one axis, with intervals; None for several axes."""
    if not (along := on_one_axis(groups)):
        return None
    numeric = all(group.number is not None for group in along)
    order = sorted(along, key=lambda group: group.number or 0.0) if numeric else along
    return {
        "title": along[0].arm.axis_title,
        "numeric": numeric,
        "log": numeric and all((group.number or 0.0) > 0 for group in along),
        "points": [
            {
                "x": group.number if numeric else group.arm.value or group.arm.label,
                "label": group.arm.label,
                "is_base": group.arm.is_base,
                "forecast": _forecast_point(group, found.here.between),
                "B": _b_point(group.fits),
            }
            for group in order
        ],
        "sentence": _axis_sentence(groups, along, found),
    }


def _forecast_point(group: Group, between: seeds.Between) -> Payload | None:
    """The forecast ceiling of a variant by itself, also where it has seen too little to be compared with the others."""
    alone = ranking.compared([[member.course for member in group.members]], between)
    reached = alone.ceiling.interval(0)
    return None if reached is None else reached._asdict()


def at_least(fits: "Sequence[scaling.Fit]") -> float | None:
    """What the ceiling is at least, where no run identifies it: the least of the runs' own bounds."""
    bounds = [bound for fit in fits if (bound := fit.at_least()) is not None]
    return min(bounds) if bounds else None


def _b_point(fits: "Sequence[scaling.Fit]") -> Payload | None:
    """B of each run's own fit, pooled; of fits whose ceiling is identified alone, for B means nothing without it."""
    known = [fit for fit in fits if fit.status == "ok"]
    pooled = pooled_parameter(known, "B")
    return None if pooled is None else {"value": pooled.value, "lo": pooled.lo, "hi": pooled.hi}


def _axis_sentence(groups: Sequence[Group], on_axis: Sequence[Group], found: ranking.Compared) -> str:
    """The best value at the shared compute, and whether it is told apart from the worst."""
    places = [place for place in found.here.in_order() if groups[place] in on_axis]
    if len(places) < 2:
        return "Fewer than two values of this axis can be compared, so nothing can be said of its course yet."
    ordered = sorted(places, key=lambda place: -(found.here.means[place].value))  # type: ignore[union-attr]
    names = [group.arm.value or group.arm.label for group in groups]
    return standing.extremes(names, found, ordered[0], ordered[-1])
