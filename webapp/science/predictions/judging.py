"""What came, from a run's unsampled effective evaluations, against what was claimed. Reads points, stores nothing.

The pass rate at the target is that of the evaluation made there; else it is read off the straight line, in log compute,
between the last evaluation before it and the first behind it, with the standard error of that sum. docs/predictions.md
has every definition.

Outcomes: made once for each prediction and run that passed its target, by the worker, never by a request.
"""

import hashlib
import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from scaling import scores
from scaling.course import normal_quantile
from webapp.identity.audit.services import record
from webapp.record.runs.models import Run
from webapp.record.runs.points import CurvePoint, effective_points
from webapp.record.runs.states import bump
from webapp.science.curves.fitting import Question, curve_from, forecast_of, read, try_fit
from webapp.science.curves.words import Payload, percent, rate, signed, signed_span
from webapp.science.predictions.claims import outcome_sentence
from webapp.science.predictions.discussion import locked, newly_passed, tell
from webapp.science.predictions.frozen import evaluated_until
from webapp.science.predictions.models import Outcome, Pending, Prediction

Statement = Prediction.Statement
SAME = 1e-9  # relative: an evaluation this close to the target was made at it
MAX_GAP = 4.0  # the neighbours of the target may lie this factor apart
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reading:
    """The pass rate at the target: value, its standard error (None: not known) and the evaluations it is read from."""

    value: float
    se: float | None
    points: tuple[CurvePoint, ...]


class NotYet(Exception):
    """Why nothing can be said of the run at the target."""


def judge(prediction: Prediction, run: Run) -> Payload | None:
    """What this run says of the claim: the columns of its outcome. None where it has not passed the target; raises
    NotYet."""
    points = points_of(run, prediction)
    if not points or at(points[-1], prediction) < prediction.target * (1 - SAME):
        return None
    if prediction.statement == Statement.CEILING:
        return _ceiling(prediction, points)
    if prediction.statement == Statement.PASSES:
        return _passes(prediction, points)
    reading = read_at_target(points, prediction)
    lo, hi = _ends(reading.value, reading.se, prediction.level)
    method = "exact" if len(reading.points) == 1 else "interpolated"
    said = f"pass rate {rate(reading.value, (lo, hi))} at the target"
    return _scored(prediction, reading.value, lo, hi, _how(prediction, method, reading.points, said))


def points_of(run: Run, prediction: Prediction) -> list[CurvePoint]:
    """The run's effective evaluations of the claim's metric after the first update, ascending on the claim's axis."""
    points = [p for p in effective_points(run, prediction.metric) if (getattr(p, prediction.x) or 0) > 0]
    return sorted(points, key=lambda point: at(point, prediction))


def at(point: CurvePoint, prediction: Prediction) -> float:
    """Where a point lies on the claim's axis."""
    return float(getattr(point, prediction.x))


def until_target(points: Sequence[CurvePoint], prediction: Prediction) -> list[CurvePoint]:
    """The points up to the target and the first at or behind it. Raises NotYet without one there."""
    for i, point in enumerate(points):
        if at(point, prediction) >= prediction.target * (1 - SAME):
            return list(points[: i + 1])
    raise NotYet("It has no evaluation at the target yet.")


def read_at_target(points: Sequence[CurvePoint], prediction: Prediction) -> Reading:
    """Raises NotYet where no evaluation lies before the target, or the neighbours are too far apart."""
    known = until_target(points, prediction)
    after, target = known[-1], prediction.target
    if at(after, prediction) <= target * (1 + SAME):
        return Reading(after.value, _se(after, prediction), (after,))
    if len(known) < 2:
        raise NotYet("It has no evaluation before the target to interpolate from.")
    before = known[-2]
    lo, hi = at(before, prediction), at(after, prediction)
    if hi / lo > MAX_GAP:
        raise NotYet(f"Its evaluations around the target, at {lo:.4g} and {hi:.4g}, are too far apart.")
    way = math.log(target / lo) / math.log(hi / lo)
    value = (1 - way) * before.value + way * after.value
    errors = _se(before, prediction), _se(after, prediction)
    se = None if None in errors else math.hypot((1 - way) * errors[0], way * errors[1])  # type: ignore[operator]
    return Reading(value, se, (before, after))


def _se(point: CurvePoint, prediction: Prediction) -> float | None:
    """As reported; else the scatter around the frozen curve."""
    return point.stderr if point.stderr is not None else prediction.frozen.get("noise_sd")


def _ceiling(prediction: Prediction, points: Sequence[CurvePoint]) -> Payload:
    known = until_target(points, prediction)
    stop = at(known[-1], prediction)
    question = Question(
        x=prediction.x, metric=prediction.metric, form=prediction.frozen["form"], level=prediction.level,
        window_lo=prediction.window_lo, cutoff=stop, robust=prediction.frozen["question"]["robust"],
    )  # fmt: skip
    rows = ((at(p, prediction), p.step, p.device_hours, p.value, p.stderr, p.tokens) for p in known)
    fit, problem = try_fit(curve_from(*zip(*rows, strict=True)), question)
    came = read(forecast_of(fit)) if fit else None
    if fit is None or came is None or came.ceiling is None or came.interval is None:
        raise NotYet(f"Nothing can be forecast up to the target: {came.message if came else problem}")
    if not came.known:
        raise NotYet(f"The evaluations up to {stop:.4g} do not tell its ceiling.")
    words = f"ceiling {rate(came.ceiling, came.interval)} by the forecast from {fit.n} evaluations up to {stop:.4g}"
    how = _how(prediction, "forecast", known, words) | {"fit_digest": fit.digest}
    return _scored(prediction, came.ceiling, *came.interval, how)


def _passes(prediction: Prediction, points: Sequence[CurvePoint]) -> Payload:
    """Whether this run lies above the rival at the target, where their difference can be told from zero."""
    assert prediction.rival is not None and prediction.probability is not None
    own = read_at_target(points, prediction)
    try:
        other = read_at_target(points_of(prediction.rival, prediction), prediction)
    except NotYet as reason:
        raise NotYet(f"The rival {prediction.rival.name} cannot be read there. {reason}") from None
    gap = own.value - other.value
    se = None if own.se is None or other.se is None else math.hypot(own.se, other.se)
    reach = normal_quantile(prediction.level) * (se or 0.0)
    ends = (gap - reach, gap + reach)
    if abs(gap) <= reach or gap == 0:
        raise NotYet(
            f"At the target the two cannot be told apart: {signed(gap, ends)}, {percent(prediction.level)} "
            f"{signed_span(ends)}."
        )
    happened, p = gap > 0, prediction.probability
    verb = "passed" if happened else "had not passed"
    words = f"{rate(own.value, ends)} against {rate(other.value, ends)} at the target: it {verb}"
    how = _how(prediction, "difference", own.points, words)
    how |= {"own": own.value, "rival": other.value, "difference": gap, "difference_se": se}
    how |= {"rival_points": [_point(point, prediction) for point in other.points]}
    return {
        "happened": happened,
        "probability_score": float(scores.brier_score(p, happened)),
        "log_score": float(scores.log_score(p, happened)),
        "how": how,
    }


def _scored(
    prediction: Prediction, value: float, lo: float | None, hi: float | None, how: Payload
) -> Payload:
    claimed_lo, claimed_hi, claimed = prediction.lo, prediction.hi, prediction.value
    assert claimed_lo is not None and claimed_hi is not None and claimed is not None
    return {
        "actual": value,
        "actual_lo": lo,
        "actual_hi": hi,
        "error": value - claimed,
        "inside": claimed_lo <= value <= claimed_hi,
        "interval_score": float(scores.interval_score(claimed_lo, claimed_hi, value, prediction.level)),
        "how": how | {"own_interval_score": own_score(prediction, value)},
    }


def own_score(prediction: Prediction, value: float) -> float | None:
    """Interval score of what the frozen forecast itself said: the baseline of its author."""
    own = prediction.frozen["own"]
    if own["lo"] is None or own["hi"] is None:
        return None
    return float(scores.interval_score(own["lo"], own["hi"], value, prediction.level))


def _ends(value: float, se: float | None, level: float) -> tuple[float | None, float | None]:
    """The interval of a measured pass rate, cut to [0, 1]."""
    if se is None:
        return None, None
    reach = normal_quantile(level) * se
    return max(0.0, value - reach), min(1.0, value + reach)


def _how(prediction: Prediction, method: str, used: Sequence[CurvePoint], words: str) -> Payload:
    """Which points, so that a page can show them and tell whether they are still the same."""
    shown = list(used) if len(used) <= 2 else [used[0], used[-1]]
    return {
        "method": method,
        "points": [_point(point, prediction) for point in shown],
        "n": len(used),
        "digest": digest_of(used, prediction),
        "words": words,
        # By the trainer's clock, which the server cannot check: evaluations that were made, then reported after.
        "measured_before_claim": used[-1].time < prediction.created_at,
    }


def _point(point: CurvePoint, prediction: Prediction) -> Payload:
    return {
        "x": at(point, prediction),
        "y": point.value,
        "se": point.stderr,
        "step": point.step,
        "attempt": point.attempt,
        "time": point.time.isoformat(),
    }


def digest_of(points: Sequence[CurvePoint], prediction: Prediction) -> str:
    """SHA-256 (hex) of x and value of the points, as little-endian doubles."""
    numbers = np.array([[at(point, prediction), point.value] for point in points], dtype="<f8")
    return hashlib.sha256(numbers.tobytes()).hexdigest()


def open_predictions() -> QuerySet[Prediction]:
    """Those that may still be scored: neither withdrawn nor replaced."""
    replaced = Prediction.objects.filter(replaces=OuterRef("pk"))
    rows = Prediction.objects.filter(~Exists(replaced), withdrawn_at=None)
    return rows.select_related("project", "run", "rival", "author").order_by("created_at", "id")


def score_run(run_id: str) -> list[Outcome]:
    """Score every claim that this run's new evaluations decide, as the run of a claim or as its rival. Safe to repeat;
    one claim's trouble is logged and keeps no other from its score. Returns the outcomes that are new."""
    if (run := Run.objects.select_related("project").filter(pk=run_id).first()) is None:
        return []
    about = Q(run=run)
    if run.revision_id is not None:
        about |= Q(project=run.project_id, revision=run.revision_id, task=run.task, model=run.model)
    unscored = ~Exists(Outcome.objects.filter(prediction=OuterRef("pk"), run=run))
    mine = _reached(open_predictions().filter(about, unscored), run)
    made = [_guarded(prediction, run) for prediction in mine]
    for prediction in _reached(open_predictions().filter(rival=run), run):
        made += [_guarded(prediction, other) for other in _unscored_runs(prediction)]
    return [outcome for outcome in made if outcome is not None]


def score_all() -> list[Outcome]:
    """Every open claim against every run that passed its target: finds what a lost hint left behind."""
    made = [
        _guarded(prediction, run) for prediction in open_predictions() for run in _unscored_runs(prediction)
    ]
    return [outcome for outcome in made if outcome is not None]


def _reached(predictions: Iterable[Prediction], run: Run) -> list[Prediction]:
    """Those whose target lies within what the run has evaluated."""
    found = list(predictions)
    newest = {x: evaluated_until(run, x) for x in {prediction.x for prediction in found}}
    return [prediction for prediction in found if prediction.target <= newest[prediction.x] * (1 + 1e-9)]


def _unscored_runs(prediction: Prediction) -> list[Run]:
    done = Outcome.objects.filter(prediction=prediction).values("run")
    return list(Run.objects.filter(pk__in=newly_passed(prediction)).exclude(pk__in=done).order_by("pk"))


def _guarded(prediction: Prediction, run: Run) -> Outcome | None:
    try:
        return score(prediction, run)
    except Exception:
        log.exception("scoring prediction %s by run %s", prediction.pk, run.pk)
        return None


def score(prediction: Prediction, run: Run) -> Outcome | None:
    """The outcome by this run, if this very call made it. A run that passed but cannot tell leaves a `Pending`."""
    if run.pk in prediction.frozen["seen"]:
        return None  # it had passed the target before the claim was made
    try:
        judged = judge(prediction, run)
    except NotYet as reason:
        same = Pending.objects.filter(prediction=prediction, run=run, reason=str(reason))
        if not same.exists():
            defaults = {"reason": str(reason)}
            Pending.objects.update_or_create(prediction=prediction, run=run, defaults=defaults)
        return None
    if judged is None:
        Pending.objects.filter(prediction=prediction, run=run).delete()
        return None
    return _store(prediction, run, judged)


@transaction.atomic
def _store(prediction: Prediction, run: Run, judged: Payload) -> Outcome | None:
    current = locked(prediction)
    if current.withdrawn_at is not None or Prediction.objects.filter(replaces=current).exists():
        return None
    outcome, new = Outcome.objects.get_or_create(prediction=current, run=run, defaults=judged)
    Pending.objects.filter(prediction=current, run=run).delete()
    if not new:
        return None
    tell(current.author, current, "prediction_scored", f"{outcome_sentence(outcome)} ({run.name})")
    bump(run.pk)  # whoever watches the run looks again
    record(
        "prediction.scored", actor=None, project=current.project, kind="prediction", key=current.pk, name=run.name,
        run=run.pk, inside=outcome.inside, happened=outcome.happened,
    )  # fmt: skip
    return outcome
