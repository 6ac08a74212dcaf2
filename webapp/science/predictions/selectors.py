"""Reading predictions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet

from webapp.base.errors import InvalidInput, NotFound
from webapp.identity.accounts.models import Project, User
from webapp.record.recipes.models import Revision
from webapp.science.predictions.calibration import Record, record_of
from webapp.science.predictions.models import Comment, Outcome, Pending, Prediction, Review
from webapp.science.predictions.status import LIVES, REVIEWS, Status, status_of, with_status

__all__ = [
    "Entry", "Record", "Status", "awaiting_review", "comments_of", "history_of",
    "prediction_by_id", "predictions_of", "record_of_author", "record_of_recipe", "status_of",
]  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One thing that happened to a prediction. kind: frozen, asked, reviewed, commented, withdrawn, replaced, scored.
    `thing`: the row of the kind (Prediction, ReviewRequest, Review, Comment, Outcome); `person` None: the server."""

    at: datetime
    kind: str
    person: User | None
    words: str
    thing: Any


def predictions_of(
    project: Project,
    *,
    author: User | None = None,
    status: str | None = None,
    recipe: str | None = None,
    run: str | None = None,
    task: str | None = None,
    model: str | None = None,
) -> QuerySet[Prediction]:
    """The project's predictions, newest first, with author, run, recipe, status and outcomes: a list asks no more.

    `status` is one of LIVES or REVIEWS; `recipe` a slug. Raises InvalidInput (status).
    """
    asked = {
        "author": author, "revision__recipe__slug": recipe, "run": run, "task": task, "model": model,
    }  # fmt: skip
    about = {name: value for name, value in asked.items() if value}
    rows = with_status(Prediction.objects.filter(project=project, **about))
    if status:
        rows = _of_status(rows, status)
    return _for_lists(rows).order_by("-created_at", "id")


def _of_status(rows: QuerySet[Any], status: str) -> QuerySet[Any]:
    if status in LIVES:
        return rows.filter(life_state=status)
    if status in REVIEWS:
        return rows.filter(review_state=status)
    raise InvalidInput("status", f"status must be one of {', '.join((*LIVES, *REVIEWS))}.")


def _for_lists(rows: QuerySet[Prediction]) -> QuerySet[Prediction]:
    related = ("author", "run", "rival__revision__recipe", "revision__recipe", "replaces", "replaced_by")
    heavy = (
        "run__config", "rival__config", "revision__config", "revision__recipe__description", "replaces__frozen",
        "replaced_by__frozen", "rival__revision__config", "rival__revision__recipe__description",
    )  # fmt: skip
    outcomes = Prefetch("outcomes", Outcome.objects.order_by("id"))
    pendings = Prefetch("pendings", Pending.objects.order_by("id"))
    return rows.select_related(*related).defer(*heavy).prefetch_related(outcomes, pendings)


def prediction_by_id(project: Project, prediction_id: str) -> Prediction:
    """A prediction of this project, with status and outcomes. Raises NotFound, also for one of another project."""
    rows = with_status(Prediction.objects.filter(project=project, pk=prediction_id))
    if (found := _for_lists(rows).select_related("project", "fit").first()) is None:
        raise NotFound(f"There is no prediction {prediction_id}.")
    return found


def awaiting_review(user: User, project: Project) -> QuerySet[Prediction]:
    """What this person was asked to judge and has not, where a verdict still counts; longest waiting first."""
    judged = Review.objects.filter(prediction=OuterRef("pk"), reviewer=user)
    asked = with_status(Prediction.objects.filter(project=project, requests__reviewer=user))
    waiting = asked.filter(~Exists(judged), life_state__in=("open", "projection"))
    return _for_lists(waiting).order_by("requests__asked_at", "id")


def comments_of(prediction: Prediction) -> list[Comment]:
    """The first comments of the threads in the order of time, each with `answers` (a list) and its mentions."""
    rows = prediction.comments.select_related("author", "resolved_by").prefetch_related("mentions")
    threads: dict[int, Comment] = {}
    for row in rows.order_by("id"):
        if row.parent_id is None:
            row.answers = []  # type: ignore[attr-defined]
            threads[row.pk] = row
        else:
            threads[row.parent_id].answers.append(row)  # type: ignore[attr-defined]
    return list(threads.values())


def record_of_author(user: User, project: Project) -> Record:
    """What became of this person's predictions in the project."""
    return record_of(project, Q(author=user))


def record_of_recipe(revision: Revision, project: Project) -> Record:
    """What became of the predictions about all revisions of this recipe."""
    return record_of(project, Q(revision__recipe=revision.recipe_id))


def history_of(prediction: Prediction) -> list[Entry]:
    """All that happened to the prediction in the order of time; every verdict is in it."""
    entries = [Entry(prediction.created_at, "frozen", prediction.author, "froze the claim", prediction)]
    if prediction.replaces is not None:
        words = f"froze the claim, in place of {prediction.replaces.pk}"
        entries = [Entry(prediction.created_at, "frozen", prediction.author, words, prediction)]
    for asked in prediction.requests.select_related("reviewer", "asked_by"):
        words = f"asked {asked.reviewer} for a review"
        entries.append(Entry(asked.asked_at, "asked", asked.asked_by, words, asked))
    said = {"approved": "approved", "changes": "asked for changes", "rejected": "rejected it"}
    for verdict in prediction.reviews.select_related("reviewer"):
        entries.append(
            Entry(verdict.created_at, "reviewed", verdict.reviewer, said[verdict.verdict], verdict)
        )
    for one in prediction.comments.select_related("author"):
        words = "commented" if one.parent_id is None else "answered"
        entries.append(Entry(one.created_at, "commented", one.author, words, one))
    for outcome in prediction.outcomes.select_related("run").defer("run__config"):
        words = outcome.how.get("words", f"{outcome.run.name} passed the target")
        entries.append(Entry(outcome.created_at, "scored", None, words, outcome))
    entries += _ends(prediction)
    order = ("frozen", "asked", "reviewed", "commented", "replaced", "withdrawn", "scored")
    return sorted(entries, key=lambda entry: (entry.at, order.index(entry.kind)))


def _ends(prediction: Prediction) -> list[Entry]:
    found = []
    newer = Prediction.objects.filter(replaces=prediction).select_related("author").first()
    if newer is not None:
        words = f"replaced it by {newer.pk}"
        found.append(Entry(newer.created_at, "replaced", newer.author, words, newer))
    if prediction.withdrawn_at is not None:
        words = f"withdrawn: {prediction.withdrawn_reason}"
        found.append(Entry(prediction.withdrawn_at, "withdrawn", None, words, prediction))
    return found
