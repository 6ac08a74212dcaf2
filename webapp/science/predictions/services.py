"""Predictions: freezing a claim before the data, withdrawing it; and, from their own files, reviews and comments."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

import scaling
from scaling.course import Course
from webapp.base.errors import Conflict, Forbidden, InvalidInput
from webapp.identity.accounts.models import User
from webapp.identity.accounts.permissions import Permission, may
from webapp.identity.audit.services import record
from webapp.record.runs.models import Run
from webapp.science.curves import forecasts
from webapp.science.curves.fitting import Curve, Question, curve_of, fit_curve, try_fit
from webapp.science.curves.ranking.variation import seeds_of_tasks
from webapp.science.curves.run.forecast import forecast_of_run, noise_of
from webapp.science.curves.storing import outcome_of, store_fit
from webapp.science.predictions.checks import (
    FARTHEST,
    Claim,
    check_rival,
    claim_from,
    complete,
    level_from,
    question_from,
    text_from,
    unrounded,
)
from webapp.science.predictions.comments import comment, edit_comment, resolve_comment
from webapp.science.predictions.frozen import Proposal, Rival, frozen_of, says, target_hours
from webapp.science.predictions.known import Known, known_of, passed_already, same_recipe, unplaced_words
from webapp.science.predictions.locks import locked, refuse_closed
from webapp.science.predictions.models import Prediction, Review
from webapp.science.predictions.reviewing import ask_review, review
from webapp.science.predictions.status import review_of
from webapp.science.predictions.telling import tell

__all__ = [
    "Frozen", "Proposal", "ask_review", "comment", "edit_comment", "freeze", "freeze_once", "proposal",
    "resolve_comment", "review", "withdraw",
]  # fmt: skip

MAX_KEY = 200
REPLACEABLE = ("unreviewed", "asked", Review.Verdict.CHANGES)


@dataclass(frozen=True)
class _Found:
    """What a claim rests on, read under the lock of its run."""

    curve: Curve
    fit: "scaling.Fit"
    forecast: Course | None
    known: Known
    own: Proposal
    rival: Rival | None


def proposal(
    run: Run,
    question: Mapping[str, Any],
    statement: str,
    target: float,
    rival: Run | None = None,
    level: float = 0.9,
) -> Proposal:
    """What the forecast of this question says at the target, to begin a claim with; `problem` where it says nothing.

    Raises InvalidInput for a question, statement or target that cannot be used.
    """
    asked = question_from(question, level_from(level))
    claim = claim_from(
        statement=statement, target=target, level=level, value=None, lo=None, hi=None, probability=None
    )
    known = known_of(run, asked.x)
    horizon = claim.target / known.evaluated if known.evaluated > 0 else None
    fit, problem = try_fit(curve_of(run, asked.x, asked.metric), asked)
    if fit is None:
        return Proposal(horizon=horizon, problem=problem)
    other = _rival(rival, asked)
    return says(
        forecast_of_run(run, fit, asked), claim.statement, claim.target, noise_of(fit), other, horizon
    )


@dataclass(frozen=True)
class Frozen:
    """A prediction and whether this very call made it (False: the key was used before)."""

    prediction: Prediction
    created: bool


def freeze(**request: Any) -> Prediction:
    """The prediction of `freeze_once` alone."""
    return freeze_once(**request).prediction


def freeze_once(
    *,
    user: User,
    run: Run,
    question: Mapping[str, Any],
    statement: str,
    target: float,
    level: float = 0.9,
    value: float | None = None,
    lo: float | None = None,
    hi: float | None = None,
    rival: Run | None = None,
    probability: float | None = None,
    reasons: str,
    replaces: Prediction | None = None,
    key: str | None = None,
    is_proposed: bool = False,
) -> Frozen:
    """Store a claim that never changes, made before the data: the target lies beyond all that is stored of the run.

    What the person leaves out (value, lo and hi; or the probability) is what the forecast says. `is_proposed`: the
    numbers are what a page showed as the forecast's own; it is refused where that says something else of this target
    by now. With `key` a repeated request is the same prediction. Raises Forbidden, InvalidInput (statement, target,
    level, value, lo, hi, probability, rival, reasons, replaces, key, x, metric, form, window_lo, cutoff), and Conflict
    (target: the run has been there; value, probability: not what the forecast says; replaces: it cannot be replaced;
    key: used for another claim). On an error nothing is stored.
    """
    asked = question_from(question, level_from(level))
    claim = claim_from(
        statement=statement, target=target, level=level, value=value, lo=lo, hi=hi, probability=probability
    )
    check_rival(run, rival, statement)
    reasons = text_from("reasons", reasons)
    body = _digest(run, asked, claim, rival, reasons, replaces)
    key = _clean_key(key)
    try:
        with transaction.atomic():
            return _freeze(user, run, asked, claim, rival, reasons, replaces, key, body, is_proposed)
    except IntegrityError as error:
        raise _taken(error) from error


def _freeze(
    user: User,
    run: Run,
    question: Question,
    claim: Claim,
    rival: Run | None,
    reasons: str,
    replaces: Prediction | None,
    key: str | None,
    body: str,
    is_proposed: bool,
) -> Frozen:
    # The lock that ingest takes: what is read here is all there is until the claim is stored.
    run = Run.objects.select_for_update(of=("self",)).select_related("project").get(pk=run.pk)
    stored = Prediction.objects.filter(project=run.project_id, author=user, key=key).first() if key else None
    if stored is not None:
        if stored.body_digest != body:
            raise Conflict("This key was used for another claim.", field="key")
        return Frozen(stored, created=False)
    found = _found(run, question, claim, rival)
    claim = complete(unrounded(claim, found.own) if is_proposed else claim, found.own)
    if replaces is not None:
        replaces = _replaceable(replaces, user, run)
    prediction = Prediction.objects.create(
        project=run.project, author=user, replaces=replaces, run=run, revision_id=run.revision_id, task=run.task,
        model=run.model, rival=rival, reasons=reasons, key=key, body_digest=body,
        **_frozen_columns(run, question, claim, found), **_statement_columns(claim),
    )  # fmt: skip
    verb = "prediction.frozen" if replaces is None else "prediction.resubmitted"
    record(
        verb, actor=user, project=run.project, kind="prediction", key=prediction.pk, name=run.name,
        run=run.pk, statement=claim.statement, target=claim.target, replaces=replaces.pk if replaces else None,
    )  # fmt: skip
    if replaces is not None:
        _tell_reviewers(replaces, prediction)
    return Frozen(prediction, created=True)


def _found(run: Run, question: Question, claim: Claim, rival: Run | None) -> _Found:
    """Raises InvalidInput and Conflict where the claim was not made before the data, or rests on no curve."""
    if question.cutoff is not None and claim.target <= question.cutoff:
        raise InvalidInput("target", "target: a prediction is about what comes after the cutoff.")
    known = known_of(run, question.x)
    if claim.target <= known.trained:
        raise Conflict(
            f"target: this run has been at {known.trained:.6g} already; a prediction is made before the data.",
            field="target",
        )
    if not known.evaluated > 0:
        raise InvalidInput("cutoff", "cutoff: this run has no evaluation to rest a prediction on.")
    if known.unplaced:
        raise Conflict(f"target: {unplaced_words(known, question.x)}", field="target")
    if claim.target > FARTHEST * known.evaluated:
        raise InvalidInput("target", f"target must be at most {FARTHEST:g} times the newest evaluation.")
    curve = curve_of(run, question.x, question.metric)
    fit = _fit_or_refuse(curve, question)
    forecast, other = forecast_of_run(run, fit, question), _rival(rival, question)
    horizon = claim.target / known.evaluated
    own = says(forecast, claim.statement, claim.target, noise_of(fit), other, horizon)
    return _Found(curve, fit, forecast, known, own, other)


def _fit_or_refuse(curve: Curve, question: Question) -> "scaling.Fit":
    try:
        fit = fit_curve(curve, question)
    except scaling.InputError as error:
        raise InvalidInput("cutoff", f"cutoff: no curve can be fitted: {error.reason}.") from error
    if fit.params is None:
        raise InvalidInput("cutoff", f"cutoff: no curve can be fitted: {fit.message}.")
    return fit


def _rival(rival: Run | None, question: Question) -> Rival | None:
    """The rival's curve with all that is stored of it, in the same form."""
    if rival is None:
        return None
    whole = Question(x=question.x, metric=question.metric, form=question.form, level=question.level)
    fit, _ = try_fit(curve_of(rival, question.x, question.metric), whole)
    seeds = seeds_of_tasks(rival.project, question.x)[rival.task]
    return Rival(fit, forecast_of_run(rival, fit, whole), seeds)


def _frozen_columns(run: Run, question: Question, claim: Claim, found: _Found) -> dict[str, Any]:
    known = {
        "known_until": found.known.evaluated,
        "trained_until": found.known.trained,
        "seen": [pk for pk in passed_already(run, question.x, claim.target) if pk != run.pk],
    }
    return {
        "fit": store_fit(run, found.curve, question).fit,
        "frozen": frozen_of(found.fit, found.forecast, question, found.own, known),
        "metric": question.metric,
        "x": question.x,
        "window_lo": question.window_lo,
        "cutoff": found.fit.window[1],
        "known_until": found.known.evaluated,
        "data_digest": found.fit.digest,
        "target_hours": target_hours(found.curve, question.x, claim.target),
        "rival_frozen": _rival_frozen(found.rival),
    }


def _rival_frozen(rival: Rival | None) -> dict[str, Any] | None:
    if rival is None or rival.fit is None:
        return None
    forecast = forecasts.stored(rival.forecast) if rival.forecast else None
    named = {"form": rival.fit.form, "digest": rival.fit.digest, "level": rival.fit.level}
    return outcome_of(rival.fit) | named | {"forecast": forecast}


def _statement_columns(claim: Claim) -> dict[str, Any]:
    return {
        "statement": claim.statement,
        "target": claim.target,
        "level": claim.level,
        "value": claim.value,
        "lo": claim.lo,
        "hi": claim.hi,
        "probability": claim.probability,
    }


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


def _tell_reviewers(old: Prediction, new: Prediction) -> None:
    """Whoever reviewed the claim before learns that there is a new one."""
    for reviewer in User.objects.filter(reviews__prediction=old, is_active=True).distinct():
        text = f"{new.author} resubmitted a prediction that you reviewed, about {new.run.name}."
        tell(reviewer, new, "prediction_resubmitted", text)


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
    record(
        "prediction.withdrawn", actor=user, project=prediction.project, kind="prediction", key=prediction.pk,
        name=prediction.run.name, reason=reason[:300],
    )  # fmt: skip
    return prediction


def _clean_key(key: str | None) -> str | None:
    if not key:
        return None
    if len(key) > MAX_KEY or not key.isprintable():
        raise InvalidInput("key", f"key must have at most {MAX_KEY} characters, all of them printable.")
    return key


def _digest(
    run: Run, question: Question, claim: Claim, rival: Run | None, reasons: str, replaces: Prediction | None
) -> str:
    body = [
        run.pk, question.__dict__, claim.__dict__, rival.pk if rival else None, reasons,
        replaces.pk if replaces else None,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _taken(error: IntegrityError) -> Exception:
    """What two requests at the same time ran into; any other fault of the store is passed on."""
    if "prediction_key_once" in str(error):
        return Conflict("This key was used for another claim.", field="key")
    if "replaces" in str(error):
        return Conflict("replaces: that prediction was replaced meanwhile.", field="replaces")
    return error
