"""Reading predictions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet

from webapp.base.errors import InvalidInput, first_of
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
    found = _for_lists(rows).select_related("project", "fit")
    return first_of(found, f"There is no prediction {prediction_id}.")


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
    frozen = prediction
    instead = f", in place of {frozen.replaces.pk}" if frozen.replaces is not None else ""
    requests = frozen.requests.select_related("reviewer", "asked_by")
    reviews, comments = frozen.reviews.select_related("reviewer"), frozen.comments.select_related("author")
    outcomes = frozen.outcomes.select_related("run").defer("run__config")
    newer = Prediction.objects.filter(replaces=frozen).select_related("author")[:1]
    said = {"approved": "approved", "changes": "asked for changes", "rejected": "rejected it"}
    came = lambda one: one.how.get("words", f"{one.run.name} passed the target")
    entries = [
        Entry(frozen.created_at, "frozen", frozen.author, f"froze the claim{instead}", frozen),
        *(Entry(one.asked_at, "asked", one.asked_by, f"asked {one.reviewer} for a review", one) for one in requests),
        *(Entry(one.created_at, "reviewed", one.reviewer, said[one.verdict], one) for one in reviews),
        *(Entry(one.created_at, "commented", one.author, "answered" if one.parent_id else "commented", one)
          for one in comments),
        *(Entry(one.created_at, "scored", None, came(one), one) for one in outcomes),
        *(Entry(one.created_at, "replaced", one.author, f"replaced it by {one.pk}", one) for one in newer),
    ]  # fmt: skip
    if frozen.withdrawn_at is not None:
        words = f"withdrawn: {frozen.withdrawn_reason}"
        entries.append(Entry(frozen.withdrawn_at, "withdrawn", None, words, frozen))
    order = ("frozen", "asked", "reviewed", "commented", "replaced", "withdrawn", "scored")
    return sorted(entries, key=lambda entry: (entry.at, order.index(entry.kind)))
