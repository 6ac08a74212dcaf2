"""Predictions: freezing a claim before the data, withdrawing it; and, from their own files, reviews and comments."""

from dataclasses import asdict, dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

import scaling
from scaling.course import Course
from webapp.base.claims import body_digest, checked_key
from webapp.base.errors import Conflict, Forbidden, InvalidInput
from webapp.identity.accounts.models import User
from webapp.identity.accounts.permissions import Permission, may
from webapp.record.runs.meaning import IN_BACKGROUND
from webapp.record.runs.models import Run
from webapp.science.curves import fitting
from webapp.science.curves.answers import outcome_of, store_fit
from webapp.science.curves.fitting import Curve, Question, curve_of, fit_curve, try_fit
from webapp.science.curves.ranking.variation import seeds_of_tasks
from webapp.science.curves.run.forecast import forecast_of_run, noise_of
from webapp.science.predictions.claims import (
    Claim,
    check,
    check_numbers,
    check_question,
    complete,
    refused_target,
    text_from,
    unrounded,
)
from webapp.science.predictions.discussion import (
    ask_review,
    comment,
    edit_comment,
    locked,
    record_prediction,
    refuse_closed,
    resolve_comment,
    review,
    tell,
)
from webapp.science.predictions.frozen import (
    Proposal,
    Rival,
    frozen_of,
    known_of,
    passed_already,
    same_recipe,
    says,
    target_hours,
)
from webapp.science.predictions.models import Prediction, Review
from webapp.science.predictions.status import review_of

__all__ = [
    "Frozen", "Proposal", "ask_review", "comment", "edit_comment", "freeze", "proposal",
    "resolve_comment", "review", "withdraw",
]  # fmt: skip

REPLACEABLE = ("unreviewed", "asked", Review.Verdict.CHANGES)


@dataclass(frozen=True)
class Basis:
    """What a question has of a run: every point, the fit (None: `problem` says why), and its forecast, recalibrated."""

    curve: Curve
    fit: "scaling.Fit | None"
    problem: str
    forecast: Course | None


def basis_of(run: Run, question: Question, curve: Curve | None = None) -> Basis:
    """`curve`: of the run, where it is at hand."""
    curve = curve or curve_of(run, question.x, question.metric)
    fit, problem = try_fit(curve, question)
    return Basis(curve, fit, problem, forecast_of_run(run, fit, question))


def proposal(run: Run, claim: Claim, basis: Basis | None = None) -> Proposal:
    """What the forecast of the claim's question says at its target, to begin a claim with; `problem` where it says
    nothing. `basis`: of that question, where it is at hand. Raises InvalidInput for a question, statement or target
    that cannot be used."""
    check_question(claim.question)
    check_numbers(claim)
    known = known_of(run, claim.question.x)
    horizon = claim.target / known.evaluated if known.evaluated > 0 else None
    basis = basis or basis_of(run, claim.question)
    if basis.fit is None:
        return Proposal(horizon=horizon, problem=basis.problem)
    noise, other = noise_of(basis.fit), _rival(claim)
    return says(basis.forecast, claim.statement, claim.target, noise, other, horizon)


@dataclass(frozen=True)
class Frozen:
    """A prediction and whether this very call made it (False: the key was used before)."""

    prediction: Prediction
    created: bool


def freeze(
    claim: Claim,
    *,
    run: Run,
    user: User,
    reasons: str,
    replaces: Prediction | None = None,
    key: str | None = None,
    is_proposed: bool = False,
) -> Frozen:
    """Store a claim that never changes, made before the data: the target lies beyond all that is stored of the run.

    What the person leaves out (value, lo and hi; or the probability) is what the forecast says. `is_proposed`: the
    numbers are what a page showed as the forecast's own; it is refused where that says something else of this target
    by now. With `key` a repeated request is the same prediction. Raises InvalidInput (statement, target, level, value,
    lo, hi, probability, rival, reasons, replaces, Idempotency-Key, x, metric, form, window_lo, cutoff), and Conflict
    (target: the run has been there; value, probability: not what the forecast says; replaces: it cannot be replaced;
    Idempotency-Key: used for another claim). On an error nothing is stored.
    """
    check(claim, run)
    reasons, key = text_from("reasons", reasons), checked_key(key or None)
    rival, before = claim.rival, replaces.pk if replaces else None
    digest = body_digest(
        [run.pk, asdict(claim.question), claim.columns, rival.pk if rival else None, reasons, before]
    )
    try:
        with transaction.atomic():
            # The lock that ingest takes: what is read here is all there is until the claim is stored.
            run = Run.objects.select_for_update(of=("self",)).select_related("project").get(pk=run.pk)
            stored = (
                Prediction.objects.filter(project=run.project_id, author=user, key=key).first()
                if key
                else None
            )
            if stored is not None:
                if stored.body_digest != digest:
                    raise Conflict("This key was used for another claim.", field="Idempotency-Key")
                return Frozen(stored, created=False)
            columns = _frozen_columns(run, claim, is_proposed)
            replaces = _replaceable(replaces, user, run) if replaces is not None else None
            made = Prediction.objects.create(
                project=run.project, author=user, replaces=replaces, run=run, revision_id=run.revision_id,
                task=run.task, model=run.model, rival=claim.rival, reasons=reasons, key=key, body_digest=digest,
                **columns,
            )  # fmt: skip
            _tell(made)
    except IntegrityError as error:
        raise _taken(error) from error
    return Frozen(made, created=True)


def _frozen_columns(run: Run, claim: Claim, is_proposed: bool) -> dict[str, Any]:
    """The claim with what it rests on. Raises InvalidInput and Conflict where it was not made before the data, or rests
    on no curve."""
    if run.remaking is not None:
        raise Conflict(IN_BACKGROUND)
    question, known = claim.question, known_of(run, claim.question.x)
    if (refused := refused_target(claim.target, question, known)) is not None:
        raise refused
    curve = curve_of(run, question.x, question.metric)
    fit = _fit_or_refuse(curve, question)
    forecast, other = forecast_of_run(run, fit, question), _rival(claim)
    horizon = claim.target / known.evaluated
    own = says(forecast, claim.statement, claim.target, noise_of(fit), other, horizon)
    claim = complete(unrounded(claim, own) if is_proposed else claim, own)
    then = {
        "known_until": known.evaluated,
        "trained_until": known.trained,
        "seen": [pk for pk in passed_already(run, question.x, claim.target) if pk != run.pk],
    }
    return claim.columns | {
        "fit": store_fit(run, curve, question).fit,
        "frozen": frozen_of(fit, forecast, question, own, then),
        "metric": question.metric,
        "x": question.x,
        "window_lo": question.window_lo,
        "cutoff": fit.window[1],
        "known_until": known.evaluated,
        "data_digest": fit.digest,
        "target_hours": target_hours(curve, question.x, claim.target),
        "rival_frozen": _rival_frozen(other),
    }


def _fit_or_refuse(curve: Curve, question: Question) -> "scaling.Fit":
    try:
        fit = fit_curve(curve, question)
    except scaling.InputError as error:
        raise InvalidInput("cutoff", f"cutoff: no curve can be fitted: {error.reason}.") from error
    if fit.params is None:
        raise InvalidInput("cutoff", f"cutoff: no curve can be fitted: {fit.message}.")
    return fit


def _rival(claim: Claim) -> Rival | None:
    """The rival's curve with all that is stored of it, in the same form."""
    rival, question = claim.rival, claim.question
    if rival is None:
        return None
    whole = Question(x=question.x, metric=question.metric, form=question.form, level=question.level)
    basis, seeds = basis_of(rival, whole), seeds_of_tasks(rival.project, question.x)[rival.task]
    return Rival(basis.fit, basis.forecast, seeds)


def _rival_frozen(rival: Rival | None) -> dict[str, Any] | None:
    if rival is None or rival.fit is None:
        return None
    forecast = fitting.stored(rival.forecast) if rival.forecast else None
    named = {"form": rival.fit.form, "digest": rival.fit.digest, "level": rival.fit.level}
    return outcome_of(rival.fit) | named | {"forecast": forecast}


def _replaceable(prediction: Prediction, user: User, run: Run) -> Prediction:
    """The claim that a new one takes the place of. Raises InvalidInput (replaces) and Conflict."""
    if prediction.project_id != run.project_id or prediction.author_id != user.pk:
        raise InvalidInput("replaces", "replaces: only a prediction of your own can be replaced.")
    prediction = locked(prediction)
    if not same_recipe(run).filter(pk=prediction.run_id).exists():
        raise InvalidInput("replaces", "replaces: that prediction is about another recipe.")
    refuse_closed(prediction, "replaced", field="replaces")
    if review_of(prediction) not in REPLACEABLE:
        raise Conflict("replaces: that prediction was judged; it stands as it is.", field="replaces")
    return prediction


def _tell(made: Prediction) -> None:
    """Into the audit log; and whoever reviewed the claim before learns that there is a new one."""
    replaced: dict[str, Any] = {"replaces": made.replaces_id} if made.replaces else {}
    verb = "prediction.resubmitted" if made.replaces else "prediction.frozen"
    record_prediction(
        verb, made, made.author, run=made.run_id, statement=made.statement, target=made.target, **replaced
    )
    if made.replaces is None:
        return
    for reviewer in User.objects.filter(reviews__prediction=made.replaces, is_active=True).distinct():
        text = f"{made.author} resubmitted a prediction that you reviewed, about {made.run.name}."
        tell(reviewer, made, "prediction_resubmitted", text)


@transaction.atomic
def withdraw(prediction: Prediction, *, user: User, reason: str) -> Prediction:
    """Take the claim back, for all to see, once. Only before the target was passed.

    Raises Forbidden for anybody but its author and admins, InvalidInput (reason), and Conflict where it was withdrawn,
    replaced, or its target passed.
    """
    if prediction.author_id != user.pk and not may(user, prediction.project, Permission.ADMIN):
        raise Forbidden("Only its author and admins of the project can withdraw a prediction.")
    reason = text_from("reason", reason)
    prediction = locked(prediction)
    refuse_closed(prediction, "withdrawn")
    now = timezone.now()
    Prediction.objects.filter(pk=prediction.pk).update(withdrawn_at=now, withdrawn_reason=reason)
    prediction.withdrawn_at, prediction.withdrawn_reason = now, reason
    record_prediction("prediction.withdrawn", prediction, user, reason=reason[:300])
    return prediction


def _taken(error: IntegrityError) -> Exception:
    """What two requests at the same time ran into; any other fault of the store is passed on."""
    if "prediction_key_once" in str(error):
        return Conflict("This key was used for another claim.", field="Idempotency-Key")
    if "replaces" in str(error):
        return Conflict("replaces: that prediction was replaced meanwhile.", field="replaces")
    return error
