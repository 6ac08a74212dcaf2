"""Everything that the run page's chart and its cells show, as one JSON-ready payload.

Every number comes from `scaling`; the page draws and computes nothing.
"""

import logging
from typing import Any

import numpy as np

import scaling
from webapp.curves import answers, words
from webapp.curves.answers import DEFAULT_GOAL, Goal
from webapp.curves.axes import AXES, DEFAULT_AXIS, DEFAULT_LEVEL, DEFAULT_METRIC, Axis
from webapp.curves.fitting import CRASHED, Curve, Question, curve_of, fitted_points, outliers, try_fit
from webapp.curves.parameters import parameter_rows
from webapp.curves.run import chart_views
from webapp.curves.run.chart_views import DEFAULT_VIEW
from webapp.curves.run.kept import kept_or_made, points
from webapp.curves.run.outliers import left_out
from webapp.runs.models import Run, State
from webapp.runs.selectors import part_of, pass_rates_of, superseded_points

Payload = dict[str, Any]
BAND_POINTS = 120
ENDED = {State.SUCCEEDED, State.FAILED, State.CANCELLED, State.LOST}
MIN_POINTS_FOR_HINDSIGHT = 5
log = logging.getLogger(__name__)


def run_figure(
    run: Run,
    *,
    x: str = DEFAULT_AXIS,
    cutoff: float | None = None,
    window_lo: float | None = None,
    level: float = DEFAULT_LEVEL,
    metric: str = DEFAULT_METRIC,
    robust: bool = False,
    view: str = DEFAULT_VIEW,
    goal: Goal = DEFAULT_GOAL,
    superseded: bool = False,
    may_wait: bool = False,
) -> Payload:
    """The payload for one question. A window without enough points gives a payload without a fit, and says why.

    `metric` is one of the run's pass rates, overall or of a part; one that it does not report is an empty curve.
    `view` is one of `chart_views.VIEWS`; `goal` is what the target cell asks for. A fit that crashes is logged, and
    the payload says so.

    With `superseded` what earlier attempts reported past a resume comes too, in "superseded", beside the curve: no fit
    knows it. "attempts_overlap" says whether there may be any.

    What is said of the whole curve is kept (`webapp.curves.run.kept`). With `may_wait` newer points may come beside the
    fit of the others while a worker makes theirs: "waiting" says how many it does not know, and "version" is None, so
    that whoever waits asks again.
    """
    axis, question = AXES[x], Question(x, cutoff, window_lo, level, metric, robust=robust)
    curve = curve_of(run, x, metric)
    names = pass_rates_of(run)
    make = lambda: _made(run, curve, question, view, goal)
    is_whole = question == Question() and (view, goal) == (DEFAULT_VIEW, DEFAULT_GOAL)
    said = {"waiting": 0} | (kept_or_made(run, curve, make, may_wait=may_wait) if is_whole else make())
    return {
        "version": None if said["waiting"] else run.version,
        "state": run.state,
        "state_label": run.get_state_display(),
        "state_reason": run.state_reason,
        "ended": run.state in ENDED,
        "attempt": run.attempt_number,
        "x": {"key": axis.key, "label": axis.label, "short": axis.short},
        "metric": metric,
        "metric_label": metric_label(run, metric),
        "curves": [{"metric": name, "label": curve_label(name)} for name in names],
        "progress": progress(run, curve),
        "start": start(curve),
        "unknown": answers.unknown(curve, axis),
        "attempts_overlap": run.attempt_number > 1,
        "superseded": _superseded(run, x, metric) if superseded else None,
        "view_labels": chart_views.labels(axis),
        **said,
    }


def _superseded(run: Run, x: str, metric: str) -> Payload:
    """Points that a later attempt has replaced; at zero compute there is nothing to draw on a log axis."""
    rows = [point for point in superseded_points(run, metric) if (getattr(point, x) or 0) > 0]
    return {
        "x": [getattr(point, x) for point in rows],
        "y": [point.value for point in rows],
        "step": [point.step for point in rows],
        "attempt": [point.attempt for point in rows],
    }


def keep_figure(run: Run, curve: Curve) -> None:
    """Have what the run's page says of its whole curve ready for whoever opens it."""
    kept_or_made(
        run, curve, lambda: _made(run, curve, Question(), DEFAULT_VIEW, DEFAULT_GOAL), may_wait=False
    )


def _made(run: Run, curve: Curve, question: Question, view: str, goal: Goal) -> Payload:
    """What the fit says, made now; a crash is logged and said."""
    fit, problem = try_fit(curve, question)
    try:
        return _said(run, curve, question, fit, problem, view, goal)
    except Exception:
        log.exception("what the fit of run %s says crashed: %s", run.pk, question)
        return _said(run, curve, question, None, CRASHED, view, goal)


def _said(
    run: Run,
    curve: Curve,
    question: Question,
    fit: "scaling.Fit | None",
    problem: str,
    view: str,
    goal: Goal,
) -> Payload:
    """All that rests on the fit."""
    axis, level, end_x = AXES[question.x], question.level, end_of_budget(run, curve)
    role = roles(curve, question, fit)
    return {
        "points": points(curve, role.tolist()),
        "fit": fit_payload(fit, question, curve, end_x) if fit else None,
        "view": chart_views.view_payload(view, fit, curve, question, axis, role, end_x),
        "ceiling": answers.ceiling_of(fit, level),
        "now": answers.now(fit, curve, question),
        "end": answers.at_compute(fit, end_x, question, has_budget=run.budget_hours is not None),
        "target": answers.target(fit, axis, question, goal),
        "after": answers.after(fit, curve, question),
        "hindsight": hindsight(curve, axis, question) if fit else None,
        "advice": answers.advice(fit, curve, axis, end_x, run.state in ENDED),
        "fit_title": answers.fit_title(fit, axis),
        "fit_sentence": answers.fit_sentence(fit, problem),
        "summary": answers.summary(name_of(run), fit, axis, level) + answers.without_unknown(curve, axis),
        "left_out": left_out(curve, question, fit, axis),
    }


def name_of(run: Run) -> str:
    """The run's name with its seed, as a sentence about it starts."""
    return run.name if f"seed {run.seed}" in run.name else f"{run.name}, seed {run.seed}"


def metric_label(run: Run, metric: str = DEFAULT_METRIC) -> str:
    """ "Held-out pass rate on math, mean@4", with k from the run's configuration where it says."""
    part = part_of(metric)
    label = f"Held-out pass rate on {part}" if part else "Held-out pass rate"
    k = (run.config.get("eval") or {}).get("k")
    return f"{label}, mean@{k}" if k else label


def curve_label(metric: str) -> str:
    """The name of a curve in the choice of curves: "all parts", or the part."""
    return part_of(metric) or "all parts"


def roles(curve: Curve, question: Question, fit: "scaling.Fit | None") -> np.ndarray:
    """[n] of the role that each point has in this fit: fitted, outlier, after the cutoff, or excluded before it."""
    role = np.where(curve.inside(question), "fitted", np.where(curve.after(question), "after", "excluded"))
    return np.where(outliers(curve, question, fit), "outlier", role)


def start(curve: Curve) -> Payload | None:
    """The evaluation before the first update, at zero compute: a log axis cannot show it as a point."""
    return {"y": float(np.mean(curve.start)), "se": curve.start_se} if curve.start else None


def end_of_budget(run: Run, curve: Curve) -> float | None:
    """Where the budget ends on this axis; on axes other than device-hours, in proportion to what was spent."""
    if run.budget_hours is None:
        return None
    hours = curve.hours[-1] if len(curve.x) else None
    if not hours or not np.isfinite(hours):
        return None
    return float(curve.x[-1] * run.budget_hours / hours)


def progress(run: Run, curve: Curve) -> Payload:
    """Compute spent at the newest evaluation, against the budget. What trains elsewhere may not say it."""
    known = np.isfinite(curve.hours)
    if not known.any() and run.origin == Run.Origin.TRACKED:
        return {"used": None, "budget": run.budget_hours, "share": None, "text": "device-hours not known"}
    used = float(curve.hours[known].max()) if known.any() else 0.0
    at_least = "at least " if curve.newer_unknown or not known[-1:].all() else ""
    if run.budget_hours is None:
        return {
            "used": used,
            "budget": None,
            "share": None,
            "text": f"{at_least}{words.amount(used)} device-hours",
        }
    share = min(1.0, used / run.budget_hours)
    text = f"{at_least}{words.amount(used)} of {words.amount(run.budget_hours)} device-hours"
    return {"used": used, "budget": run.budget_hours, "share": share, "text": text}


def fit_payload(fit: "scaling.Fit", question: Question, curve: Curve, end_x: float | None) -> Payload:
    """The fitted curve as drawn: solid over the fitted window, dashed beyond, with the interval of the curve."""
    payload: Payload = {
        "status": fit.status,
        "message": fit.message,
        "form": fit.form,
        "level": question.level,
        "n": fit.n,
        "r2": fit.r2,
        "digest": fit.digest,
        "window": list(fit.window),
        "cutoff": question.cutoff,
        "window_lo": question.window_lo,
        "robust": question.robust,
        "left_out": list(fit.left_out),
        "params": fit.params,
        "intervals": answers.shown_intervals(fit),
        "rows": parameter_rows(fit, question.level),
    }
    return payload | (
        drawn_curve(fit, curve, end_x) if fit.params else {"solid": None, "dashed": None, "band": None}
    )


def drawn_curve(fit: "scaling.Fit", curve: Curve, end_x: float | None) -> Payload:
    """Solid, dashed and band, on a grid even in log compute that holds the window's ends exactly."""
    lo, hi = fit.window
    last = max(end_x or 0.0, 1.25 * float(curve.x[-1]), 1.25 * hi)
    solid = np.geomspace(lo, hi, BAND_POINTS)
    dashed = np.geomspace(hi, last, BAND_POINTS // 2)
    grid = np.concatenate([solid, dashed[1:]])
    band_lo, band_hi = fit.predict_interval(grid, kind="mean")
    return {
        "solid": {"x": solid.tolist(), "y": np.asarray(fit.predict(solid)).tolist()},
        "dashed": {"x": dashed.tolist(), "y": np.asarray(fit.predict(dashed)).tolist()},
        "band": {"x": grid.tolist(), "lo": np.asarray(band_lo).tolist(), "hi": np.asarray(band_hi).tolist()},
    }


def hindsight(curve: Curve, axis: Axis, asked: Question) -> Payload | None:
    """What a fit at half of the compute so far said of the rest: the habit of checking one's predictions."""
    if len(curve.x) < 2 * MIN_POINTS_FOR_HINDSIGHT:
        return None
    level = asked.level
    if asked.robust:  # an evaluation that crashed says nothing of the forecast either
        whole = Question(axis.key, level=level, metric=asked.metric, robust=True)
        curve = curve.only(fitted_points(curve, whole))
    half = float(curve.x[-1]) / 2
    question = Question(axis.key, half, None, level, asked.metric)
    fit, _ = try_fit(curve, question)
    score = answers.after(fit, curve, question)
    if fit is None or score is None:
        return None
    tail = curve.after(question)
    came = float(curve.y[tail][-min(3, tail.sum()) :].mean())
    at = float(curve.x[-1])
    if fit.status != "ok":
        bound = answers.ceiling_of(fit, level)["interval_text"]
        said = f"the ceiling was not identified ({bound}); at {axis.short_text(at)} "
    else:
        interval = answers.mean_interval(fit, at)
        value = float(np.squeeze(fit.predict(np.array([at]))))
        lo, hi = (words.rate(end, interval) for end in interval)
        said = f"predicted {words.rate(value, interval)} [{lo}, {hi}] for {axis.short_text(at)}; "
    return {
        "cutoff": half,
        "n": score["n"],
        "inside": score["inside"],
        "mean_error": score["mean_error"],
        "identified": fit.status == "ok",
        "sentence": f"From 50 % of the compute: {said}the last evaluations came at {came:.3f}. "
        f"{score['sentence']}",
    }
