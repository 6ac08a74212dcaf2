"""Outcomes: made once for each prediction and run that passed its target, by the worker, never by a request."""

import logging
from collections.abc import Iterable

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from webapp.identity.audit.services import record
from webapp.record.runs.models import Run
from webapp.record.runs.states import bump
from webapp.science.predictions.claims import outcome_sentence
from webapp.science.predictions.frozen import evaluated_until
from webapp.science.predictions.judging import Judgement, judge
from webapp.science.predictions.locks import locked, newly_passed
from webapp.science.predictions.models import Outcome, Pending, Prediction
from webapp.science.predictions.telling import tell

log = logging.getLogger(__name__)


def open_predictions() -> QuerySet[Prediction]:
    """Those that may still be scored: neither withdrawn nor replaced."""
    replaced = Prediction.objects.filter(replaces=OuterRef("pk"))
    rows = Prediction.objects.filter(~Exists(replaced), withdrawn_at=None)
    return rows.select_related("project", "run", "rival", "author").order_by("created_at", "id")


def score_run(run_id: str) -> list[Outcome]:
    """Score every claim that this run's new evaluations decide, as the run of a claim or as its rival. Safe to repeat;
    one claim's trouble is logged and keeps no other from its score. Returns the outcomes that are new."""
    run = Run.objects.select_related("project").filter(pk=run_id).first()
    if run is None:
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
    judgement = judge(prediction, run)
    if judgement is None:
        Pending.objects.filter(prediction=prediction, run=run).delete()
        return None
    if judgement.reason:
        _wait(prediction, run, judgement.reason)
        return None
    return _store(prediction, run, judgement)


def _wait(prediction: Prediction, run: Run, reason: str) -> None:
    same = Pending.objects.filter(prediction=prediction, run=run, reason=reason)
    if not same.exists():
        Pending.objects.update_or_create(prediction=prediction, run=run, defaults={"reason": reason})


@transaction.atomic
def _store(prediction: Prediction, run: Run, judgement: Judgement) -> Outcome | None:
    current = locked(prediction)
    if current.withdrawn_at is not None or Prediction.objects.filter(replaces=current).exists():
        return None
    outcome, new = Outcome.objects.get_or_create(prediction=current, run=run, defaults=judgement.columns)
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
