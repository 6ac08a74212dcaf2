"""Asking for reviews, and giving them."""

from collections.abc import Sequence

from django.db import transaction

from webapp.base.errors import Forbidden, InvalidInput
from webapp.identity.accounts.models import User
from webapp.identity.accounts.permissions import Permission, may
from webapp.identity.audit.services import record
from webapp.science.predictions.checks import text_from
from webapp.science.predictions.locks import locked, refuse_closed
from webapp.science.predictions.models import Prediction, Review, ReviewRequest
from webapp.science.predictions.telling import tell

MAX_REVIEWERS = 20
VERDICTS = {
    Review.Verdict.APPROVED: "approved",
    Review.Verdict.CHANGES: "asked for changes of",
    Review.Verdict.REJECTED: "rejected",
}


@transaction.atomic
def ask_review(prediction: Prediction, *, user: User, reviewers: Sequence[User]) -> list[ReviewRequest]:
    """Ask people to judge the claim, and tell them. Who was asked before is not told again.

    Raises Forbidden for anybody but its author and admins, InvalidInput (reviewers) for nobody, too many, the author,
    or people who may not review in this project, and Conflict where there is nothing to review any more.
    """
    if prediction.author_id != user.pk and not may(user, prediction.project, Permission.ADMIN):
        raise Forbidden("Only its author and admins of the project can ask for a review.")
    people = list(dict.fromkeys(reviewers))
    if not 1 <= len(people) <= MAX_REVIEWERS:
        raise InvalidInput("reviewers", f"reviewers: choose 1 to {MAX_REVIEWERS} people.")
    for person in people:
        if person.pk == prediction.author_id:
            raise InvalidInput("reviewers", "reviewers: nobody reviews a prediction of their own.")
        if not may(person, prediction.project, Permission.REVIEW):
            raise InvalidInput("reviewers", f"reviewers: {person} may not review in this project.")
    prediction = locked(prediction)
    refuse_closed(prediction, "reviewed")
    return [_ask(prediction, user, person) for person in people]


def _ask(prediction: Prediction, user: User, person: User) -> ReviewRequest:
    request, new = ReviewRequest.objects.get_or_create(
        prediction=prediction, reviewer=person, defaults={"asked_by": user}
    )
    if new:
        text = f"{user} asks you to review a prediction about {prediction.run.name}."
        tell(person, prediction, "review_asked", text)
        record(
            "prediction.review_asked", actor=user, project=prediction.project, kind="prediction", key=prediction.pk,
            name=prediction.run.name, reviewer=person.get_username(),
        )  # fmt: skip
    return request


@transaction.atomic
def review(prediction: Prediction, *, user: User, verdict: str, reason: str = "") -> Review:
    """Judge the claim of somebody else; every verdict stays, the reviewer's latest counts. The author is told.

    The same verdict with the same reason again is the stored one. Raises Forbidden without the permission or for a
    prediction of one's own, InvalidInput (verdict; reason, unless approved), and Conflict for a prediction that was
    withdrawn, replaced or scored.
    """
    if prediction.author_id == user.pk:
        raise Forbidden("Nobody reviews a prediction of their own.")
    if verdict not in Review.Verdict.values:
        raise InvalidInput("verdict", f"verdict must be one of {', '.join(Review.Verdict.values)}.")
    reason = text_from("reason", reason, required=verdict != Review.Verdict.APPROVED)
    prediction = locked(prediction)
    refuse_closed(prediction, "reviewed")
    latest = Review.objects.filter(prediction=prediction, reviewer=user).order_by("-id").first()
    if latest is not None and (latest.verdict, latest.reason) == (verdict, reason):
        return latest
    made = Review.objects.create(prediction=prediction, reviewer=user, verdict=verdict, reason=reason)
    text = f"{user} {VERDICTS[Review.Verdict(verdict)]} your prediction about {prediction.run.name}."
    tell(prediction.author, prediction, "prediction_reviewed", text)
    record(
        "prediction.reviewed", actor=user, project=prediction.project, kind="prediction", key=prediction.pk,
        name=prediction.run.name, verdict=verdict,
    )  # fmt: skip
    return made
