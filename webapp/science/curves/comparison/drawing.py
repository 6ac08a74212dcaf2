"""Series of a comparison as they are drawn: points, curve and band in each of the views. Pure functions."""

import math

import numpy as np

from scaling import curve
from webapp.science.curves.comparison.entries import PUBLISHED, Entry
from webapp.science.curves.models import ReferenceFit
from webapp.science.curves.words import Payload

VIEWS = ("rate", "share", "slope")
GRID_POINTS = 80
MANY_GRID_POINTS = 32
AHEAD = 2.0  # curves are drawn to this many times their last compute
PUBLISHED_SPAN = (0.05, 20.0)  # published curves are drawn between these multiples of their C_mid
Y_LABELS = {"rate": "Pass rate", "share": "Share of the gain", "slope": "log₁₀ F(R)"}


def series(entry: Entry, view: str, *, many: bool = False) -> Payload:
    """One entry: points and curve (`fit`), each None where the view cannot show it. The curve of pass rates is the
    forecast, that of shares and slopes Eq. 1, by whose A they are measured.

    left_out: points that have no place in the slope view, being at or outside R0 and the ceiling.
    """
    if entry.reference is not None:
        return _head(entry) | {"points": None, "fit": _published(entry.reference, view), "left_out": 0}
    points, left_out = _points(entry, view)
    fit = _forecast(entry, many) if view == "rate" else _fit(entry, view, many)
    return _head(entry) | {"points": points, "fit": fit, "left_out": left_out}


def _head(entry: Entry) -> Payload:
    return {"id": entry.key, "kind": entry.kind, "label": entry.label}


def _law(entry: Entry) -> dict[str, float] | None:
    """R0, A, B and C_mid of an entry whose ceiling is identified: what shares and slopes are measured with."""
    if entry.parameters is None:
        return None
    law = {name: value for name, (value, _, _) in entry.parameters.items()}
    return law if all(math.isfinite(value) for value in law.values()) else None


def transformed(view: str, compute: np.ndarray, rate: np.ndarray, law: dict[str, float]) -> np.ndarray:
    """Pass rates as the view shows them, NaN where it cannot; as slope the paper's F(R) (Fig. 5) by powers of ten."""
    r0, a = law["R0"], law["A"]
    if view == "share":
        return (rate - r0) / (a - r0)
    return curve.slope_view(compute, rate, r0=r0, a=a, b=law["B"], c_mid=law["C_mid"])[1] / math.log(10)


def _points(entry: Entry, view: str) -> tuple[Payload | None, int]:
    each = entry.thinned if any(one is not None for one in entry.thinned) else entry.curves
    drawn = [one for one in each if one is not None]
    law = _law(entry) if view != "rate" else None
    if not drawn or (view != "rate" and law is None):
        return None, 0
    x, y = (np.concatenate([getattr(one, name) for one in drawn]) for name in ("x", "y"))
    shown = y if law is None else transformed(view, x, y, law)
    keep = np.isfinite(shown)
    x, shown = x[keep], shown[keep]
    points: Payload = {"x": x.tolist(), "y": shown.tolist()}  # of a few the very numbers
    if each is entry.thinned:
        points = {"x": short(x), "y": short(shown)}
    if entry.grouped:
        points["run"] = np.repeat(np.arange(len(drawn)), [len(one.x) for one in drawn])[keep].tolist()
        runs = zip(entry.runs, each, strict=True)
        points["runs"] = [f"seed {run.seed}" for run, one in runs if one is not None]
    return points, int((~keep).sum())


def _forecast(entry: Entry, many: bool) -> Payload | None:
    if entry.reach is None:
        return None
    first, seen = entry.reach
    grid = np.geomspace(first, AHEAD * seen, MANY_GRID_POINTS if many else GRID_POINTS)
    said = entry.forecast_at(grid)
    there = np.isfinite(said.value)
    x, y, lo, hi = (short(column[there]) for column in (grid, said.value, said.lo, said.hi))
    band = {"lo": None, "hi": None} if many else {"lo": lo, "hi": hi}
    return {"x": x, "y": y, "solid_until": seen} | band if x else None


def _fit(entry: Entry, view: str, many: bool) -> Payload | None:
    window, law = entry.window, _law(entry)
    if window is None or law is None:
        return None
    lo, hi = window
    grid = np.geomspace(lo, AHEAD * hi, MANY_GRID_POINTS if many else GRID_POINTS)
    if view == "slope":
        line = law["B"] * np.log10(grid)  # F = C**B
        return {"x": short(grid), "y": short(line), "lo": None, "hi": None, "solid_until": hi}
    edges = [transformed(view, grid, edge, law) for edge in _edges(entry, grid, many)]
    known = len(edges) == 3 and bool(np.isfinite(edges[1:]).all())
    return {
        "x": short(grid),
        "y": short(edges[0]),
        "lo": short(edges[1]) if known else None,
        "hi": short(edges[2]) if known else None,
        "solid_until": hi,
    }


def _edges(entry: Entry, grid: np.ndarray, many: bool) -> list[np.ndarray]:
    """The curve, and, where they are drawn, the edges of its band; one run's curve is its own."""
    if many and len(entry.drawn_fits) == 1:
        return [entry.drawn_fits[0].values(grid)]
    columns = entry.at(grid)
    return [columns.value] if many else [columns.value, columns.lo, columns.hi]


def _published(reference: ReferenceFit, view: str) -> Payload | None:
    """As a share of its gain or as a slope; R0 is not published, so there is no pass rate."""
    if view == "rate":
        return None
    grid = reference.c_mid * np.geomspace(*PUBLISHED_SPAN, GRID_POINTS)
    if view == "slope":
        y = reference.b * np.log10(grid)
    else:
        y = np.asarray(curve.curve(grid, r0=0.0, a=1.0, b=reference.b, c_mid=reference.c_mid))
    return {"x": short(grid), "y": short(y), "lo": None, "hi": None, "solid_until": None}


def short(values: np.ndarray) -> list[float | None]:
    """Six digits, so that a hundred series stay small; None where there is no number."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]


def drawable(entry: Entry, view: str) -> bool:
    """Whether the view can show the entry at all."""
    if entry.kind == PUBLISHED:
        return view != "rate"
    return view == "rate" or _law(entry) is not None
