"""Evaluations that fell out: named, and a fit without them offered. What falls out is for `scaling.outliers` to say."""

from dataclasses import replace
from typing import Any

import numpy as np

import scaling
from webapp.science.curves import answers, words
from webapp.science.curves.axes import Axis
from webapp.science.curves.fitting import Curve, Question, outliers, try_fit

Payload = dict[str, Any]
SUSPECT = (
    4.0  # robust standard deviations from the curve that make it worth asking; the answer is the robust fit's
)
MAD_TO_SD = 1.4826
MOST_NAMED = 5


def left_out(curve: Curve, question: Question, fit: "scaling.Fit | None", axis: Axis) -> Payload | None:
    """What a robust fit left out, in words; or, for an ordinary fit, what one would leave out. None without any."""
    if question.robust:
        out = outliers(curve, question, fit)
        found = (
            f"Left out as crashed: {named(curve, out, axis)}." if out.any() else "No evaluation falls out."
        )
        return {"robust": True, "n": int(out.sum()), "sentence": found}
    if not _is_suspicious(curve, question, fit):
        return None
    whole = replace(question, cutoff=None, window_lo=None, robust=True)  # one fit for every step of a drag
    robust, _ = try_fit(curve, whole)
    out = outliers(curve, whole, robust) & curve.inside(question)
    if robust is None or not out.any():
        return None
    without = ""
    if question.cutoff is None and question.window_lo is None:
        ceiling = answers.ceiling_of(robust, question.level)
        without = f" Without: {answers.ceiling_sentence(ceiling, question.level)}."
    sentence = f"Far from every curve: {named(curve, out, axis)}.{without}"
    return {"robust": False, "n": int(out.sum()), "sentence": sentence}


def named(curve: Curve, out: np.ndarray, axis: Axis) -> str:
    """ "0.120 at 3.20 h (step 40)", for each point of the mask [n]; of many the first few, and how many more."""
    where = np.flatnonzero(out)
    said = [
        f"{words.rate(float(curve.y[i]))} at {axis.short_text(float(curve.x[i]))} (step {curve.step[i]:,})"
        for i in where[:MOST_NAMED]
    ]
    more = [f"and {len(where) - MOST_NAMED} more"] if len(where) > MOST_NAMED else []
    return ", ".join(said + more)


def _is_suspicious(curve: Curve, question: Question, fit: "scaling.Fit | None") -> bool:
    """Whether any residual is far out for the spread of the others: a robust fit takes several ordinary ones."""
    if fit is None or fit.params is None:
        return False
    inside = curve.inside(question)
    residual = np.abs(curve.y[inside] - np.asarray(fit.predict(curve.x[inside])))
    return bool(residual.max() > SUSPECT * MAD_TO_SD * np.median(residual))
