"""How much the choice of the fitted window matters: fits over several windows, and the start that the data ask for."""

from functools import lru_cache
from typing import Any

import numpy as np

import scaling
from scaling import window
from webapp.science.curves import answers
from webapp.science.curves.axes import Axis
from webapp.science.curves.fitting import Curve, Question, fitted_points, or_problem

Payload = dict[str, Any]
Window = tuple[float | None, float | None]
LEFT_OUT = (0.05, 0.1, 0.2, 0.33)  # shares of the evaluations left out at the start
CUTOFFS = (0.5, 0.75)  # shares of the greatest compute


def window_payload(curve: Curve, question: Question, axis: Axis) -> Payload:
    """{"problem", "rows", "verdict", "proposal"}; the first row is the window that the page shows."""
    return or_problem(lambda: _compared(curve, question, axis), question)


def _compared(curve: Curve, question: Question, axis: Axis) -> Payload:
    whole = Question(question.x, level=question.level, metric=question.metric, robust=question.robust)
    curve = curve.only(fitted_points(curve, whole))  # what crashed is left out of every window
    x, y = tuple(curve.x), tuple(curve.y)
    proposal = _propose(x, y, question.level)
    windows = sensible_windows(curve, question, proposal.lo, axis)
    found = _sensitivity(x, y, curve.start, tuple(windows), question.level)
    return {
        "rows": [
            _row(row, label, question, axis) for row, label in zip(found.rows, windows.values(), strict=True)
        ],
        "verdict": _sentence(found.verdict),
        "proposal": {"lo": proposal.lo, "text": _sentence(proposal.reason)},
    }


@lru_cache(maxsize=32)
def _propose(x: tuple, y: tuple, level: float) -> window.Proposal:
    return window.propose(np.array(x), np.array(y), level=level)


@lru_cache(maxsize=32)
def _sensitivity(
    x: tuple, y: tuple, start: tuple, windows: tuple[Window, ...], level: float
) -> window.Sensitivity:
    options: dict[str, Any] = {"level": level, "r0_observed": start or None}
    return window.sensitivity(np.array(x), np.array(y), list(windows), **options)


def sensible_windows(
    curve: Curve, question: Question, proposed: float | None, axis: Axis
) -> dict[Window, str]:
    """Window -> why it is there: the one shown first, then the whole curve, the proposal, later starts, cutoffs.

    Windows that hold the same points as an earlier one, or fewer than a fit needs, are left out.
    """
    wanted: list[tuple[Window, str]] = [((question.window_lo, question.cutoff), "shown above")]
    wanted.append(((None, None), "every evaluation"))
    if proposed is not None:
        wanted.append(((proposed, None), "proposed start"))
    if axis.key == "device_hours":
        wanted.append(((window.PAPER_GPU_HOURS, None), "the paper's start, 1,500 GPU-hours"))
    starts = [(share, _start(curve, share)) for share in LEFT_OUT]
    wanted += [((lo, None), f"without the first {100 * share:g} %") for share, lo in starts if lo is not None]
    last = float(curve.x[-1]) if len(curve.x) else 0.0
    wanted += [((None, share * last), f"up to {100 * share:g} % of the compute") for share in CUTOFFS]
    return _distinct(curve, question, wanted)


def _start(curve: Curve, share: float) -> float | None:
    """The compute of the first evaluation that stays."""
    dropped = int(share * len(curve.x))
    return float(curve.x[dropped]) if dropped else None


def _distinct(curve: Curve, question: Question, wanted: list[tuple[Window, str]]) -> dict[Window, str]:
    """One window for each set of points, under the first of its names; the window shown may have a second one."""
    kept: dict[Window, str] = {}
    known: dict[bytes, Window] = {}
    shown = (question.window_lo, question.cutoff)
    for (lo, hi), label in wanted:
        inside = curve.inside(Question(question.x, hi, lo))
        points = inside.tobytes()
        if known.get(points) == shown:
            kept[shown] += f", {label}"
        elif points not in known and (not kept or inside.sum() >= scaling.MIN_POINTS):
            known[points] = lo, hi
            kept[lo, hi] = label
    return kept


def _row(row: window.Row, label: str, question: Question, axis: Axis) -> Payload:
    lo, cutoff = row.window
    bound = row.a_interval[0] if row.status == "not_identified" else None
    interval = row.a_interval if row.status == "ok" else (bound, None)
    b_lo, b_hi = row.b_interval
    return {
        "label": label,
        "shown": (lo, cutoff) == (question.window_lo, question.cutoff),
        "lo": lo,
        "cutoff": cutoff,
        "window_text": _window_text(lo, cutoff, axis),
        "n": row.n,
        "status": row.status,
        "message": row.message,
        "ceiling": answers.ceiling(row.status, interval, row.a, question.level),
        "b_text": "–" if row.b is None or row.status != "ok" else f"{row.b:.2f}",
        "b_interval": "not identified"
        if row.b is None or row.status != "ok"
        else " to ".join("open" if end is None else f"{end:.2f}" for end in (b_lo, b_hi)),
    }


def _window_text(lo: float | None, cutoff: float | None, axis: Axis) -> str:
    start = "the start" if lo is None else axis.amount(lo)
    end = "the newest" if cutoff is None else axis.short_text(cutoff)
    return f"{start} to {end}"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")
