"""Every write to the decision log. Nothing here changes a row that is stored."""

from collections.abc import Sequence

from django.db import IntegrityError, transaction

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.identity.audit.services import record
from webapp.record.runs.models import Run
from webapp.record.runs.names import label_of
from webapp.science.decisions.models import Decision, DecisionKind, Note, Subject
from webapp.science.decisions.moment import standing
from webapp.science.predictions.scoring import open_predictions

MOST_RUNS = 20
LONGEST = 4000  # characters of a reason or a note


def decide(
    decision: Decision,
    runs: Sequence[Run],
    to_run: Run | None = None,
    *,
    user: User,
    project: Project,
    key: str | None = None,
) -> Decision:
    """Store a decision with the state of its runs at this moment; the same `key` is the same decision. `decision` says
    kind, reason and, where there are, to_revision, prediction and revises.

    It changes no run: stopping one is done on its page. Raises InvalidInput (kind, runs, to, reason, prediction,
    revises, key) and Conflict where the decision named in `revises` was revised before, or the key is that of another.
    """
    runs = list(dict.fromkeys(runs))
    decision.project, decision.decided_by, decision.key = project, user, key
    decision.reason = _text("reason", "A reason", decision.reason)
    _check(decision, runs, to_run)
    if key is not None and not 1 <= len(key) <= 64:
        raise InvalidInput("key", "The key must have 1 to 64 characters.")
    if key is not None and (before := _same(decision, runs)):
        return before
    _check_still_stands(decision)  # after the key: what is sent again was checked when it was made
    try:
        with transaction.atomic():
            decision.save(force_insert=True)
            _store_subjects(decision, runs, to_run)
            record(
                "decision.made", actor=user, project=project, kind="decision", key=decision.pk, name=decision.kind,
                runs=[run.pk for run in runs], revises=decision.revises_id,
            )  # fmt: skip
    except IntegrityError:
        if key is not None and (before := _same(decision, runs)):
            return before
        raise Conflict("This decision was revised by somebody else meanwhile.", field="revises") from None
    return decision


def _check(decision: Decision, runs: Sequence[Run], to_run: Run | None) -> None:
    if decision.kind not in DecisionKind.values:
        raise InvalidInput("kind", f"kind must be one of {', '.join(DecisionKind.values)}.")
    if not 1 <= len(runs) <= MOST_RUNS:
        raise InvalidInput("runs", f"A decision is of 1 to {MOST_RUNS} runs.")
    if any(run.project_id != decision.project_id for run in runs):
        raise InvalidInput("runs", "A decision is of runs of one project.")
    _check_switch(decision, runs, to_run)
    if decision.prediction is not None and decision.prediction.project_id != decision.project_id:
        raise InvalidInput("prediction", "There is no such prediction in this project.")
    if decision.revises is not None and decision.revises.project_id != decision.project_id:
        raise InvalidInput("revises", "There is no such decision in this project.")


def _check_still_stands(decision: Decision) -> None:
    """Raises InvalidInput for a prediction that was withdrawn or replaced, Conflict for a decision that was revised."""
    prediction, revises = decision.prediction_id, decision.revises_id
    if prediction is not None and not open_predictions().filter(pk=prediction).exists():
        raise InvalidInput(
            "prediction",
            "This prediction was withdrawn or replaced by a newer claim: a decision rests on one that stands.",
        )
    if revises is not None and (later := Decision.objects.filter(revises=revises).first()):
        raise Conflict(f"This decision was revised before, by {later.pk}: revise that one.", field="revises")


def _check_switch(decision: Decision, runs: Sequence[Run], to_run: Run | None) -> None:
    to_revision = decision.to_revision
    named = sum(to is not None for to in (to_run, to_revision))
    if decision.kind != DecisionKind.SWITCH:
        if named:
            raise InvalidInput("to", "Only a switch goes to another run or recipe.")
        return
    if named != 1:
        raise InvalidInput("to", "A switch goes to one other run or one recipe: say which.")
    if to_run is not None and (to_run.project_id != decision.project_id or to_run in runs):
        raise InvalidInput("to", "A switch goes to another run of this project.")
    if to_revision is not None and to_revision.recipe.project_id != decision.project_id:
        raise InvalidInput("to", "There is no such recipe in this project.")


def _same(decision: Decision, runs: Sequence[Run]) -> Decision | None:
    """What its key decided before. Raises Conflict where that was something else."""
    found = Decision.objects.filter(project=decision.project_id, key=decision.key).first()
    if found is None:
        return None
    of = set(found.subjects.filter(part=Subject.Part.OF).values_list("run_key", flat=True))
    said = lambda one: (one.decided_by_id, one.kind, one.reason)
    if said(found) == said(decision) and of == {run.pk for run in runs}:
        return found
    raise Conflict("This key was used for another decision.", field="key")


def _store_subjects(decision: Decision, runs: Sequence[Run], to_run: Run | None) -> None:
    parts = [(run, Subject.Part.OF) for run in runs] + ([(to_run, Subject.Part.TO)] if to_run else [])
    states = standing([run for run, _ in parts])
    Subject.objects.bulk_create(
        Subject(
            decision=decision, position=place, part=part, run=run, run_key=run.pk, name=label_of(run),
            recipe=str(run.revision) if run.revision else "", task=run.task, model=run.model,
            fit=states[run.pk][1], state=states[run.pk][0],
        )
        for place, (run, part) in enumerate(parts)
    )  # fmt: skip


@transaction.atomic
def add_note(decision: Decision, *, user: User, text: str) -> Note:
    """A note below a decision. The same person's same last note is not stored twice. Raises InvalidInput (text)."""
    text = _text("text", "A note", text)
    Decision.objects.select_for_update().get(pk=decision.pk)  # two sends of one form follow each other
    last = decision.notes.order_by("-pk").first()
    if last is not None and (last.author_id, last.text) == (user.pk, text):
        return last
    note = Note.objects.create(decision=decision, author=user, text=text)
    record(
        "decision.noted",
        actor=user,
        project=decision.project,
        kind="decision",
        key=decision.pk,
        name=decision.kind,
    )
    return note


def _text(field: str, what: str, text: str) -> str:
    text = text.replace("\r\n", "\n").strip()
    if not text:
        raise InvalidInput(field, f"{what} is required.")
    if len(text) > LONGEST:
        raise InvalidInput(field, f"{what} must have at most {LONGEST:,} characters.")
    return text
