"""Sigmoid, power law and logistic on the same points: parameters, quality of fit, and who forecasts best."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

import scaling
from scaling import forecast, forms
from webapp.science.curves import answers, words
from webapp.science.curves.axes import Axis
from webapp.science.curves.fitting import Curve, Question, fitted_points, or_problem, try_fit
from webapp.science.curves.parameters import parameter_rows

Payload = dict[str, Any]
LABELS = {"sigmoid": "Sigmoid", "power": "Power law", "logistic": "Logistic"}
GRID_POINTS = 80


def forms_payload(curve: Curve, question: Question, axis: Axis, end_x: float | None) -> Payload:
    """{"problem", "rows", "sentence", "reason", "chart"}; rows in the order of `scaling.FORMS`."""
    return or_problem(lambda: _side_by_side(curve, question, axis, end_x), question)


def _side_by_side(curve: Curve, question: Question, axis: Axis, end_x: float | None) -> Payload:
    used = curve.only(fitted_points(curve, question))  # the same points for all of them
    choice = _choose(tuple(used.x), tuple(used.y), used.start, question.level)
    plain = replace(question, robust=False)
    fits = {form: try_fit(used, replace(plain, form=form))[0] for form in scaling.FORMS}
    return {
        "rows": [_row(choice.row(form), fits[form], curve, question) for form in scaling.FORMS],
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


def _row(row: forms.FormRow, fit: "scaling.Fit | None", curve: Curve, question: Question) -> Payload:
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
