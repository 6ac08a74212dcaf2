"""The list of predictions: its parts, filter, order, and the rows as CSV. A constant number of queries.

What a prediction says otherwise than the one that it replaces.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Q, QuerySet
from django.http import QueryDict

from webapp.base.formats import utc
from webapp.identity.accounts.models import Project, User
from webapp.science.curves.words import AXES
from webapp.science.predictions import selectors
from webapp.science.predictions.claims import STATEMENTS, Statement, claim_of
from webapp.science.predictions.models import Outcome, Prediction
from webapp.science.predictions.status import REVIEWS, with_status

SORTS: dict[str, tuple[str, list[Any]]] = {
    "": ("newest first", ["-created_at", "id"]),
    "oldest": ("oldest first", ["created_at", "id"]),
    "horizon": ("farthest first", [(F("target") / F("known_until")).desc(), "id"]),
    "author": ("by author", ["author__username", "-created_at", "id"]),
    "recipe": ("by recipe", [F("revision__recipe__name").asc(nulls_last=True), "-created_at", "id"]),
}


MOST_OF_RUN = 8
CSV_COLUMNS = (
    "id", "created_at", "author", "run", "recipe", "revision", "task", "model", "metric", "x", "window_lo", "cutoff",
    "known_until", "form", "data_digest", "statement", "target", "level", "value", "lo", "hi", "rival", "probability",
    "life", "review", "replaces", "withdrawn_at", "outcome_run", "actual", "actual_lo", "actual_hi", "error", "inside",
    "interval_score", "happened", "probability_score", "reasons",
)  # fmt: skip
OF_OUTCOME = (
    "actual", "actual_lo", "actual_hi", "error", "inside", "interval_score", "happened", "probability_score",
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A part of the list. `lives`: what is in it; `words`: what it is, for people."""

    title: str
    lives: tuple[str, ...]
    words: str
    empty: str


PARTS = {
    "open": Part(
        "Open", ("open",), "", "No claim waits for its data now."
    ),
    "mine": Part(
        "Awaiting my review", ("open", "projection"), "You were asked to judge these, and have not.",
        "Nothing waits for your review.",
    ),
    "scored": Part(
        "Scored", ("scored",), "A run passed the target: this is what came of them.", "Nothing is scored yet."
    ),
    "projections": Part(
        "Projections", ("projection",),
        "No run on its way reaches the target, so nobody can check these. They are kept apart: they say nothing about "
        "how good a forecaster is, and enter no calibration.",
        "No projection: every open claim has a run on its way to its target.",
    ),
    "withdrawn": Part(
        "Withdrawn", ("withdrawn", "replaced"),
        "Taken back by their authors, or replaced by a changed claim; never scored.",
        "Nothing was withdrawn or replaced.",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Listing:
    """What is asked of the list; what cannot be read is as if it were not asked."""

    part: str = "open"
    author: str = ""
    recipe: str = ""
    review: str = ""
    sort: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> "Listing":
        known: dict[str, Callable[[str], bool]] = {
            "part": PARTS.__contains__, "sort": SORTS.__contains__, "review": REVIEWS.__contains__,
        }  # fmt: skip
        said = {name: query.get(name, "") for name in cls.__dataclass_fields__}
        return cls(**{name: text for name, text in said.items() if text and known.get(name, bool)(text)})

    @property
    def filtered(self) -> bool:
        return bool(self.author or self.recipe or self.review)

    def rows(self, project: Project, reader: User) -> QuerySet[Prediction]:
        """The predictions of this part that the filter leaves, in their order."""
        found = (
            selectors.awaiting_review(reader, project)
            if self.part == "mine"
            else selectors.predictions_of(project)
        )
        if self.part != "mine":
            found = found.filter(Q(life_state__in=PARTS[self.part].lives))
        if self.author:
            found = found.filter(author__username=self.author)
        if self.recipe:
            found = found.filter(revision__recipe__slug=self.recipe)
        if self.review:
            found = found.filter(Q(review_state=self.review))
        return named(found).order_by(*SORTS[self.sort][1])


def named(rows: QuerySet[Prediction]) -> QuerySet[Prediction]:
    """With what their sentences name of rivals: a list asks no more of a claim about one."""
    heavy = ("rival__revision__config", "rival__revision__recipe__description")
    return rows.select_related("rival__revision__recipe").defer(*heavy)


def counts_of(project: Project, reader: User) -> dict[str, int]:
    """Part -> how many. Two queries."""
    grouped = with_status(Prediction.objects.filter(project=project)).order_by().values_list("life_state")
    lives = dict(grouped.annotate(n=Count("pk")))
    found = {name: sum(lives.get(life, 0) for life in part.lives) for name, part in PARTS.items()}
    return found | {"mine": selectors.awaiting_review(reader, project).count()}


def choices_of(project: Project) -> dict[str, list[tuple[str, str]]]:
    """The authors and recipes that there are, for the filter. Two queries."""
    here = Prediction.objects.filter(project=project)
    authors = here.order_by("author__username").values_list("author__username", flat=True).distinct()
    recipes = here.filter(revision__isnull=False).order_by("revision__recipe__name")
    named = recipes.values_list("revision__recipe__slug", "revision__recipe__name").distinct()
    return {"authors": [(name, name) for name in authors], "recipes": list(named)}


def csv_rows(predictions: Iterable[Prediction]) -> Iterable[list[Any]]:
    """One row an outcome, or one for a prediction without any, in the order of CSV_COLUMNS; unrounded."""
    for one in predictions:
        status = selectors.status_of(one)
        said = vars(one) | {
            "created_at": utc(one.created_at),
            "author": one.author.username,
            "run": one.run_id,
            "recipe": one.revision.recipe.slug if one.revision else None,
            "revision": one.revision.number if one.revision else None,
            "form": one.frozen.get("form"),
            "rival": one.rival_id,
            "life": status.life,
            "review": status.review,
            "replaces": one.replaces_id,
            "withdrawn_at": utc(one.withdrawn_at) if one.withdrawn_at else None,
        }
        outcomes: list[Outcome | None] = [*one.outcomes.all()]
        for outcome in outcomes or [None]:
            came = {name: getattr(outcome, name, None) for name in OF_OUTCOME}
            came["outcome_run"] = outcome.run_id if outcome else None
            yield [(said | came).get(name) for name in CSV_COLUMNS]


def of_run(project: Project, run: str) -> list[Prediction]:
    """The newest predictions made of a run's curve. Four queries; one for a run without any, as most are."""
    if not Prediction.objects.filter(project=project, run=run).exists():
        return []
    return list(named(selectors.predictions_of(project, run=run))[:MOST_OF_RUN])


def differences(old: Prediction, new: Prediction) -> list[dict[str, str]]:
    """What changed from a prediction to the one that replaces it; what stayed is left out."""
    return [
        {"what": what, "before": before, "now": now}
        for (what, before), (_, now) in zip(_facts(old), _facts(new), strict=True)
        if before != now
    ]


def _facts(prediction: Prediction) -> list[tuple[str, str]]:
    claim, axis = claim_of(prediction), AXES[prediction.x]
    start = "the start" if prediction.window_lo is None else axis.amount(prediction.window_lo)
    frozen: dict[str, Any] = prediction.frozen
    return [
        ("Statement", str(STATEMENTS[Statement(prediction.statement)])),
        ("Target", claim.at),
        ("Claimed", claim.number),
        ("Interval", claim.interval),
        ("Rival", claim.passed or "–"),
        ("Known up to", axis.text(prediction.known_until)),
        ("Fitted up to", axis.text(prediction.cutoff)),
        ("Window starts at", start),
        ("Form", str(frozen.get("form", "–"))),
        ("Curve", prediction.metric),
        ("Data digest", prediction.data_digest[:10]),
        ("Reasons", prediction.reasons),
    ]
