"""Where a prediction stands: what its reviewers say, and whether it is open, a projection, scored or gone.

Both are worked out in SQL, so that lists filter and show them without a query a row.
"""

from dataclasses import dataclass
from typing import Any

from django.db.models import (
    BooleanField,
    Case,
    CharField,
    Exists,
    F,
    FloatField,
    Func,
    OuterRef,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from webapp.record.runs.models import Run
from webapp.record.runs.states import ACTIVE
from webapp.science.predictions.models import Outcome, Pending, Prediction, Review, ReviewRequest

REVIEWS = ("unreviewed", "asked", "changes", "approved", "rejected")
LIVES = ("open", "projection", "scored", "withdrawn", "replaced")
REVIEW_WORDS = {
    "unreviewed": "nobody was asked to review it",
    "asked": "waits for review",
    "changes": "a reviewer asks for changes",
    "approved": "approved",
    "rejected": "rejected",
}
LIFE_WORDS = {
    "open": "Open",
    "projection": "Projection: no run on its way will reach the target",
    "scored": "Scored",
    "withdrawn": "Withdrawn",
    "replaced": "Replaced by a newer prediction",
}


@dataclass(frozen=True)
class Status:
    """review: one of REVIEWS; life: one of LIVES; words: both in a sentence."""

    review: str
    life: str
    words: str


def with_status(predictions: QuerySet[Prediction]) -> QuerySet[Any]:
    """Each with `review_state` and `life_state`."""
    return predictions.annotate(review_state=_review_state(), life_state=_life_state())


def status_of(prediction: Prediction) -> Status:
    """Where it stands; without a query for a prediction out of the selectors, else with one."""
    if not hasattr(prediction, "life_state"):
        prediction = with_status(Prediction.objects.filter(pk=prediction.pk)).only("pk").get()
    review, life = prediction.review_state, prediction.life_state  # type: ignore[attr-defined]
    return Status(review, life, f"{LIFE_WORDS[life]}; {REVIEW_WORDS[review]}.")


def review_of(prediction: Prediction) -> str:
    """What its reviewers say now, read anew: one of REVIEWS."""
    return (
        with_status(Prediction.objects.filter(pk=prediction.pk)).values_list("review_state", flat=True).get()
    )


def _review_state() -> Combinable:
    """Of each reviewer the latest verdict counts; a rejection outweighs asked changes, and these an approval."""
    later = Review.objects.filter(
        prediction=OuterRef("prediction"), reviewer=OuterRef("reviewer"), pk__gt=OuterRef("pk")
    )
    counts = Review.objects.filter(~Exists(later), prediction=OuterRef("pk"))
    asked = ReviewRequest.objects.filter(prediction=OuterRef("pk"))
    verdicts = (Review.Verdict.REJECTED, Review.Verdict.CHANGES, Review.Verdict.APPROVED)
    return Case(
        *(When(Exists(counts.filter(verdict=one)), then=Value(one.value)) for one in verdicts),
        When(Exists(asked), then=Value("asked")),
        default=Value("unreviewed"),
        output_field=CharField(),
    )


def _life_state() -> Combinable:
    replaced = Prediction.objects.filter(replaces=OuterRef("pk"))
    scored = Outcome.objects.filter(prediction=OuterRef("pk"))
    passed = Pending.objects.filter(prediction=OuterRef("pk"))  # a run was there; it could not be told yet
    return Case(
        When(withdrawn_at__isnull=False, then=Value("withdrawn")),
        When(Exists(replaced), then=Value("replaced")),
        When(Exists(scored), then=Value("scored")),
        When(Exists(passed) | Exists(_on_its_way()), then=Value("open")),
        default=Value("projection"),
        output_field=CharField(),
    )


def _on_its_way() -> QuerySet[Run]:
    """Runs of the recipe that are not finished, whose budget, if they have one, reaches the target, and that had not
    been there when the claim was made. Where the target's device-hours are not known, any budget may reach it."""
    own = Q(pk=OuterRef("run"))
    sister = Q(
        project=OuterRef("project"),
        revision=OuterRef("revision"),
        task=OuterRef("task"),
        model=OuterRef("model"),
    )
    hours = Coalesce(OuterRef("target_hours"), Value(0.0), output_field=FloatField())
    enough = Q(budget_hours=None) | Q(budget_hours__gte=hours)
    unfinished = Q(state__in=ACTIVE) | Q(refit_wanted_at__isnull=False)
    was_there = Func(OuterRef("frozen__seen"), F("pk"), function="jsonb_exists", output_field=BooleanField())
    return Run.objects.filter(own | sister, unfinished, enough).exclude(Q(was_there)).order_by()
