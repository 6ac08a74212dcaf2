"""What a claim rests on: fit and forecast as they are copied into the prediction, and what the forecast says there.

What is stored of runs at this moment: how far their evaluations and their training have come on an axis.
"""

import math
from dataclasses import dataclass

import numpy as np
from django.db.models import Exists, FloatField, Max, OuterRef, Q, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

import scaling
from scaling import ranking
from scaling.course import Course
from scaling.seeds import Between
from webapp.record.runs.models import Point, Record, Run
from webapp.record.runs.selectors import used_hours
from webapp.science.curves import ahead, words
from webapp.science.curves.answers import UNITS, shown_intervals
from webapp.science.curves.fitting import Curve, Question, stored
from webapp.science.curves.words import Payload
from webapp.science.predictions.models import Prediction

Statement = Prediction.Statement
NOT_KNOWN = (
    "The forecast does not know the ceiling yet: give a value and an interval of your own, with reasons."
)
MOST_PROBABLE = 0.999  # draws tell probabilities to about 0.01: none of them means never
# Every held-out pass rate counts, overall and of a part: one tells of the other.
PASS_RATES = Q(series__metric__startswith="eval/", series__metric__endswith="pass_rate")


@dataclass(frozen=True)
class Proposal:
    """What the forecast says of a statement, to begin with. None where it says nothing; `problem` tells why.

    horizon: target / newest stored evaluation.
    """

    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    probability: float | None = None
    horizon: float | None = None
    problem: str = ""


@dataclass(frozen=True)
class Rival:
    """Whose curve is passed: its fit and its forecast, and how far the seeds of this task's recipes differ."""

    fit: "scaling.Fit | None"
    forecast: Course | None
    between: Between


def frozen_of(
    fit: "scaling.Fit", forecast: Course | None, question: Question, own: Proposal, known: Payload
) -> Payload:
    """As JSON: the fit's form, method, level, status, message, params, intervals, n, fitted_lo, fitted_hi, sse, r2,
    noise_sd, autocorrelation, left_out; its `forecast`, recalibrated as it was shown; question; `own`: what it said of
    the statement; and what was known then."""
    return {
        "form": fit.form,
        "method": fit.method,
        "level": fit.level,
        "status": fit.status,
        "message": fit.message,
        "params": fit.params,
        "intervals": shown_intervals(fit),
        "forecast": stored(forecast) if forecast else None,
        "n": fit.n,
        "fitted_lo": fit.window[0],
        "fitted_hi": fit.window[1],
        "sse": fit.sse,
        "r2": fit.r2,
        "noise_sd": _finite(fit.noise_sd),
        "autocorrelation": _finite(fit.autocorrelation),
        "left_out": list(fit.left_out),
        "question": {
            "x": question.x,
            "metric": question.metric,
            "form": question.form,
            "window_lo": question.window_lo,
            "cutoff": question.cutoff,
            "robust": question.robust,
        },
        "own": {"value": own.value, "lo": own.lo, "hi": own.hi, "probability": own.probability},
    } | known


def says(
    forecast: Course | None,
    statement: str,
    target: float,
    noise_sd: float = 0.0,
    rival: Rival | None = None,
    horizon: float | None = None,
) -> Proposal:
    """What a run's forecast says of the statement at `target`, at its own level.

    A pass rate: the forecast there, with the interval for one evaluation (its own and the noise of one), cut to [0, 1].
    A ceiling: the forecast one, only where it is known. PASSES: the probability that this recipe lies above the rival
    there, by form, noise and seed (`scaling.ranking`).
    """
    if forecast is None or forecast.ceiling is None or forecast.interval is None:
        reason = f": {forecast.message}" if forecast is not None and forecast.message else ""
        return Proposal(horizon=horizon, problem=f"There is no forecast to rest on{reason}.")
    if statement == Statement.CEILING:
        if not forecast.known:
            return Proposal(horizon=horizon, problem=NOT_KNOWN)
        return Proposal(forecast.ceiling, *forecast.interval, horizon=horizon)
    if statement == Statement.PASSES:
        return _passes(forecast, rival, target, horizon)
    there = ahead.for_evaluations(forecast, np.array([target]), noise_sd)
    value, lo, hi = (float(column[0]) for column in there)
    if math.isnan(value):
        times = f"{forecast.compute[-1] / (forecast.seen or math.nan):.0f}"
        problem = f"Nothing is forecast beyond {times} times the compute seen: give numbers of your own."
        return Proposal(horizon=horizon, problem=problem)
    return Proposal(value, max(0.0, lo), min(1.0, hi), horizon=horizon)


def _passes(forecast: Course, rival: Rival | None, target: float, horizon: float | None) -> Proposal:
    if rival is None or rival.forecast is None:
        problem = "The rival has no forecast to compare with; give your own probability."
        return Proposal(horizon=horizon, problem=problem)
    found = ranking.compared([[forecast], [rival.forecast]], rival.between, target)
    here = found.here.standings[0]
    if here is None or found.here.standings[1] is None:
        why = f"the run is {found.why[0]}" if found.why[0] else f"the rival is {found.why[1]}"
        return Proposal(
            horizon=horizon, problem=f"They cannot be compared there: {why}. Give your own probability."
        )
    bounded = min(max(here.chance, 1.0 - MOST_PROBABLE), MOST_PROBABLE)
    return Proposal(probability=bounded, horizon=horizon)


def target_hours(curve: Curve, x: str, target: float) -> float | None:
    """The target in device-hours; on other axes in proportion to what the newest evaluation had cost. None: unknown."""
    if x == "device_hours":
        return target
    if not len(curve.x) or not np.isfinite(curve.hours[-1]) or curve.hours[-1] <= 0:
        return None
    return float(target * curve.hours[-1] / curve.x[-1])


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


@dataclass(frozen=True)
class Known:
    """In units of the axis, superseded attempts included: the last evaluation of any pass rate, and the last record of
    any kind. 0 where there is none. `unplaced`: evaluations after that one by step whose compute on the axis nobody
    reported: they may lie anywhere beyond it."""

    evaluated: float
    trained: float
    unplaced: int = 0


def known_of(run: Run, x: str) -> Known:
    """What is stored of the run now; under a lock of the run nothing can come in between."""
    column = "step" if x == "step" else Cast(KT(f"compute__{x}"), FloatField())
    records = Record.objects.filter(run=run).aggregate(last=Max(column))
    evaluated = evaluated_until(run, x)
    trained = max(evaluated, float(records["last"] or 0.0))
    if x == "device_hours" and run.meaning.get("devices"):  # they stand in the points alone
        trained = max(trained, used_hours(run))
    return Known(evaluated, trained, _unplaced(run, x))


def unplaced_words(known: Known, x: str) -> str:
    """Why nothing can be claimed on an axis that the newest evaluations are not known on; "" where they are."""
    if not known.unplaced:
        return ""
    many = known.unplaced > 1
    return (
        f"{words.count(known.unplaced, 'newer evaluation')} of this run {'have' if many else 'has'} no known "
        f"{UNITS[x]}: {'they' if many else 'it'} may lie beyond any target. Choose an axis on which all are known."
    )


def _unplaced(run: Run, x: str) -> int:
    points = Point.objects.filter(PASS_RATES, series__run=run)
    newest = points.filter(**{f"{x}__isnull": False}).aggregate(step=Max("step"))["step"]
    return points.filter(**{f"{x}__isnull": True}, step__gt=-1 if newest is None else newest).count()


def evaluated_until(run: Run, x: str) -> float:
    """The last evaluation of any pass rate, superseded ones included; 0 without one."""
    points = Point.objects.filter(PASS_RATES, series__run=run).aggregate(last=Max(x))
    return float(points["last"] or 0.0)


def passed_already(run: Run, x: str, target: float) -> list[str]:
    """The runs of the same recipe, task and model that have an evaluation at or beyond the target, superseded ones
    included: whoever claims something now may have looked at them."""
    beyond = Point.objects.filter(PASS_RATES, series__run=OuterRef("pk"), **{f"{x}__gte": target})
    return list(same_recipe(run).filter(Exists(beyond)).order_by("pk").values_list("pk", flat=True))


def same_recipe(run: Run) -> QuerySet[Run]:
    """The runs that a claim about this run's recipe is about: its own revision, task and model in the project; of a
    tracked run without a recipe, that run alone."""
    if run.revision_id is None:
        return Run.objects.filter(pk=run.pk)
    return Run.objects.filter(
        project=run.project_id, revision=run.revision_id, task=run.task, model=run.model
    )
