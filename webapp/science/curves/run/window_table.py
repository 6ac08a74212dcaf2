"""How much the choice of the fitted window matters: fits over several windows, and the start that the data ask for.

Sigmoid, power law and logistic on the same points: parameters, quality of fit, and who forecasts best.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

import scaling
from scaling import forecast, forms, window
from webapp.science.curves import answers, words
from webapp.science.curves.answers import parameter_rows
from webapp.science.curves.fitting import Curve, Question, fitted_points, or_problem, try_fit
from webapp.science.curves.words import Axis

Payload = dict[str, Any]
Window = tuple[float | None, float | None]
LEFT_OUT = (0.05, 0.1, 0.2, 0.33)  # shares of the evaluations left out at the start
CUTOFFS = (0.5, 0.75)  # shares of the greatest compute
LABELS = {"sigmoid": "Sigmoid", "power": "Power law", "logistic": "Logistic"}
GRID_POINTS = 80


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


def forms_payload(curve: Curve, question: Question, axis: Axis, end_x: float | None) -> Payload:
    """{"problem", "rows", "sentence", "reason", "chart"}; rows in the order of `scaling.FORMS`."""
    return or_problem(lambda: _side_by_side(curve, question, axis, end_x), question)


def _side_by_side(curve: Curve, question: Question, axis: Axis, end_x: float | None) -> Payload:
    used = curve.only(fitted_points(curve, question))  # the same points for all of them
    choice = _choose(tuple(used.x), tuple(used.y), used.start, question.level)
    plain = replace(question, robust=False)
    fits = {form: try_fit(used, replace(plain, form=form))[0] for form in scaling.FORMS}
    return {
        "rows": [_form_row(choice.row(form), fits[form], curve, question) for form in scaling.FORMS],
        "sentence": sentence(choice),
        "reason": choice.reason[0].upper() + choice.reason[1:] + ".",
        "cutoffs": [words.percent(one.cutoff) for one in choice.rows[0].held_out],
        "chart": _chart(fits, curve, question, axis, end_x),
    }


@lru_cache(maxsize=32)
def _choose(x: tuple, y: tuple, start: tuple, level: float) -> forms.Choice:
    return forms.choose(np.array(x), np.array(y), level=level, r0_observed=start or None)


def sentence(choice: forms.Choice) -> str:
    """Which form forecasts later points best, as far as the data tell."""
    ranked = sorted((row.forecast_rmse, row.form) for row in choice.rows if row.forecast_rmse is not None)
    if len(ranked) < 2:
        return "The evaluations do not tell which form forecasts best."
    said = ", ".join(f"{LABELS[form].lower()} {rmse:.4f}" for rmse, form in ranked)
    if choice.by_forecast is None:
        return f"Which form forecasts later evaluations best cannot be told yet: errors {said}."
    return f"The {LABELS[choice.by_forecast].lower()} forecasts later evaluations best: errors {said}."


def _form_row(row: forms.FormRow, fit: "scaling.Fit | None", curve: Curve, question: Question) -> Payload:
    return {
        "form": row.form,
        "label": LABELS[row.form],
        "status": row.status,
        "message": row.message,
        "ceiling": answers.ceiling_of(fit, question.level),
        "parameters": parameter_rows(fit, question.level) if fit else [],
        "r2": _digits(fit.r2 if fit else None),
        "sse": _digits(row.sse),
        "aicc": "–" if row.delta is None else f"{row.delta:.1f}",
        "held_out": [_digits(one.rmse) for one in row.held_out],
        "after": _after(fit, curve, question),
    }


def _after(fit: "scaling.Fit | None", curve: Curve, question: Question) -> str:
    """Error on the evaluations past the cutoff that the reader set; empty without any."""
    later = curve.after(question)
    if not later.any():
        return ""
    if fit is None or fit.params is None:
        return "–"
    return _digits(forecast.score(fit, curve.x[later], curve.y[later]).rmse)


def _digits(value: float | None) -> str:
    return "–" if value is None or not np.isfinite(value) else f"{value:.4f}"


def _chart(
    fits: "dict[str, scaling.Fit | None]", curve: Curve, question: Question, axis: Axis, end_x: float | None
) -> Payload:
    """The forms over the points: each line is solid as far as points were fitted."""
    inside = curve.inside(question)
    role = np.where(inside, "fitted", np.where(curve.after(question), "after", "excluded"))
    return {
        "kind": "forms",
        "x": {"key": axis.key, "label": axis.label, "short": axis.short},
        "points": {"x": curve.x.tolist(), "y": curve.y.tolist(), "role": role.tolist()},
        "lines": [_line(form, fit, curve, end_x) for form, fit in fits.items() if fit and fit.params],
    }


def _line(form: str, fit: "scaling.Fit", curve: Curve, end_x: float | None) -> Payload:
    lo, hi = fit.window
    last = max(end_x or 0.0, 1.25 * float(curve.x[-1]), 1.25 * hi)
    solid, dashed = np.geomspace(lo, hi, GRID_POINTS), np.geomspace(hi, last, GRID_POINTS // 2)
    return {
        "form": form,
        "label": LABELS[form],
        "solid": {"x": solid.tolist(), "y": np.asarray(fit.predict(solid)).tolist()},
        "dashed": {"x": dashed.tolist(), "y": np.asarray(fit.predict(dashed)).tolist()},
    }
