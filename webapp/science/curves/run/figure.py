"""Everything that the run page's chart and its cells show, as one JSON-ready payload.

Every number comes from `scaling`; the page draws and computes nothing. What rests on fit and forecast of the
whole curve is kept by the refit, so that an open page need not fit again; what is said of the forecast is made from
that each time, with the interval that the project's record asks for.

Evaluations that fell out are named, and a fit without them is offered. What falls out is for `scaling.outliers` to say.

Kept is what was said of exactly these points, by this release: anything else has another key and is never shown
as if it were the answer. While the refit of newer points is on its way, what is kept may be shown beside them; it then
says which points it does not know.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import numpy as np
from django.db import DataError, IntegrityError, transaction
from django.utils import timezone

import scaling
from headroom.version import __version__
from webapp.record.runs.ingest import summary_of
from webapp.record.runs.models import Run
from webapp.record.runs.points import superseded_points
from webapp.record.runs.selectors import part_of, pass_rates_of
from webapp.record.runs.states import ENDED
from webapp.science.curves import answers, words
from webapp.science.curves.fitting import CRASHED, WHOLE, Curve, Question, curve_of, outliers, try_fit
from webapp.science.curves.models import KeptFigure
from webapp.science.curves.run import chart_views
from webapp.science.curves.run.forecast import answered, basis_of, end_of_budget
from webapp.science.curves.words import AXES, DEFAULT_METRIC, Axis, Payload

log = logging.getLogger(__name__)
LATE = timedelta(seconds=2)  # workers refit a run once a second; whoever looks after this fits for them
FORM = 1  # grows with each change of what is said
WRITTEN_BY = f"{__version__}.{FORM} "  # what other code said is not shown as the answer of this one
WAITING = "waiting"  # the role of a point that the shown fit does not know
SUSPECT = (
    4.0  # robust standard deviations from the curve that make it worth asking; the answer is the robust fit's
)
MAD_TO_SD = 1.4826
MOST_NAMED = 5
BAND_POINTS = 120


def kept_or_made(run: Run, curve: Curve, make: Callable[[], Payload], *, may_wait: bool) -> Payload:
    """What is kept of exactly this, else what `make` says of it now, which is then kept.

    `may_wait`: while a refit is on its way, what is kept of fewer points, with "waiting", how many it does not know.
    """
    key = key_of(run, curve)
    row = KeptFigure.objects.filter(run=run.pk).values_list("key", "said").first()
    if row is not None:
        if row[0] == key:
            return row[1]
        may_be_older = may_wait and is_on_its_way(run) and row[0].startswith(WRITTEN_BY)
        if may_be_older and (older := beside(row[1], curve)) is not None:
            return older
    said = make()
    keep(run, key, said)
    return said


def keep(run: Run, key: str, said: Payload) -> None:
    """Store what was said; nothing without a fit, which is said again as fast, and nothing of a crash."""
    if said["fit"] is None or said["fit_sentence"] == CRASHED:
        return
    try:
        with transaction.atomic():
            KeptFigure.objects.bulk_create(
                [KeptFigure(run_id=run.pk, key=key, said=said)],
                update_conflicts=True,
                unique_fields=["run"],
                update_fields=["key", "said", "made_at"],
            )
    except (IntegrityError, DataError) as error:  # the run was deleted meanwhile, or a number cannot be kept
        log.warning("what is said of run %s is not kept: %s", run.pk, error)


def is_on_its_way(run: Run) -> bool:
    """Whether a worker was asked for the fit a moment ago."""
    return run.refit_wanted_at is not None and timezone.now() - run.refit_wanted_at < LATE


def key_of(run: Run, curve: Curve) -> str:
    """All that the answer rests on: the release, the points, and what of the run it mentions."""
    of_run = json.dumps([run.name, run.seed, run.budget_hours, run.state in ENDED])
    start = json.dumps([curve.start, curve.start_se, curve.unknown])
    columns = (np.asarray(getattr(curve, name), "<f8") for name in ("x", "y", "se", "step", "hours"))
    parts = [column.tobytes() for column in columns] + [start.encode(), of_run.encode()]
    return WRITTEN_BY + hashlib.sha256(b"|".join(parts)).hexdigest()


def beside(said: Payload, curve: Curve) -> Payload | None:
    """What was said of some of the points, beside all of them; None where it knew a point that is not among them."""
    known = Counter(zip(said["points"]["x"], said["points"]["y"], said["points"]["role"], strict=True))
    roles = [_role(known, x, y) for x, y in zip(curve.x.tolist(), curve.y.tolist(), strict=True)]
    n = roles.count(WAITING)
    if known.total() or not n:  # superseded points, or not the points but the run has changed
        return None
    newer = words.count(n, "newer evaluation is", "newer evaluations are")
    return said | {
        "points": points(curve, roles),
        "fit_sentence": f"{said['fit_sentence']} {newer} not in it yet: the fit is being made anew.",
        "waiting": n,
    }


def _role(known: "Counter[tuple[float, float, str]]", x: float, y: float) -> str:
    for role in ("fitted", "outlier"):
        if known[x, y, role] > 0:
            known[x, y, role] -= 1
            return role
    return WAITING


def points(curve: Curve, roles: list[str]) -> Payload:
    """All points with their roles."""
    return {
        "x": curve.x.tolist(),
        "y": curve.y.tolist(),
        "se": [None if np.isnan(v) else v for v in curve.se.tolist()],
        "step": curve.step.tolist(),
        "role": roles,
    }


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


def run_figure(
    run: Run,
    question: Question = WHOLE,
    *,
    view: str = chart_views.DEFAULT_VIEW,
    goal: answers.Goal = answers.DEFAULT_GOAL,
    superseded: bool = False,
    may_wait: bool = False,
) -> Payload:
    """The payload for one question. A window without enough points gives a payload without a fit, and says why.

    Its metric is one of the run's pass rates, overall or of a part; one that it does not report is an empty curve.
    `view` is one of `chart_views.VIEWS`; `goal` is what the target cell asks for. A fit that crashes is logged, and
    the payload says so.

    With `superseded` what earlier attempts reported past a resume comes too, in "superseded", beside the curve: no fit
    knows it. "attempts_overlap" says whether there may be any.

    "forecast" is what the averaged forms say, with its ceiling; "ceiling" and "fit" are Eq. 1's.

    What is said of the whole curve is kept (`webapp.science.curves.run.figure`). With `may_wait` newer points may come
    beside the fit of the others while a worker makes theirs: "waiting" says how many it does not know, and "version"
    is None, so that whoever waits asks again.
    """
    axis, metric = AXES[question.x], question.metric
    curve = curve_of(run, question.x, metric)
    names = pass_rates_of(run)
    make = lambda: _made(run, curve, question, view)
    is_whole = question == WHOLE and view == chart_views.DEFAULT_VIEW
    said: Payload = {"waiting": 0} | (
        kept_or_made(run, curve, make, may_wait=may_wait) if is_whole else make()
    )
    said |= answered(run, curve, question, goal, said.pop("basis"), waiting=said["waiting"])
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
        "superseded": _superseded(run, question.x, metric) if superseded else None,
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
    kept_or_made(run, curve, lambda: _made(run, curve, WHOLE, chart_views.DEFAULT_VIEW), may_wait=False)


def _made(run: Run, curve: Curve, question: Question, view: str) -> Payload:
    """What the fit says, made now; a crash is logged and said."""
    fit, problem = try_fit(curve, question)
    try:
        return _said(run, curve, question, fit, problem, view)
    except Exception:
        log.exception("what the fit of run %s says crashed: %s", run.pk, question)
        return _said(run, curve, question, None, CRASHED, view)


def _said(
    run: Run, curve: Curve, question: Question, fit: "scaling.Fit | None", problem: str, view: str
) -> Payload:
    """All that rests on the fit; in "basis" what the sentences about the forecast rest on."""
    axis, level, end_x = AXES[question.x], question.level, end_of_budget(run, curve)
    role = roles(curve, question, fit)
    return {
        "points": points(curve, role.tolist()),
        "fit": fit_payload(fit, question, curve, end_x) if fit else None,
        "view": chart_views.view_payload(view, fit, curve, question, axis, role, end_x),
        "ceiling": answers.ceiling_of(fit, level),
        "fit_title": answers.fit_title(fit, axis),
        "fit_sentence": answers.fit_sentence(fit, problem),
        "left_out": left_out(curve, question, fit, axis),
        "basis": basis_of(fit, curve, question),
    }


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


def progress(run: Run, curve: Curve) -> Payload:
    """Compute spent at the newest evaluation, against the budget. What trains elsewhere may not say it; where it has
    not evaluated, it is what its records say."""
    known = np.isfinite(curve.hours)
    nothing: float | None = 0.0
    if not known.any() and run.origin == Run.Origin.TRACKED:
        nothing = None if known.size else summary_of(run).used_hours
    if nothing is None:
        return {"used": None, "budget": run.budget_hours, "share": None, "text": "device-hours not known"}
    used = float(curve.hours[known].max()) if known.any() else nothing
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
        "rows": answers.parameter_rows(fit, question.level),
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
