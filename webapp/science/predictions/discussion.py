"""Reviews of a prediction, asked for and given; and comments: threads of one level, tied to points of the chart, with
mentions of members.

Telling people about a prediction: only who may still see its project.

One change of a prediction at a time, and which predictions take no change any more.
"""

import math
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from webapp.base.errors import Conflict, Forbidden, InvalidInput, refuse
from webapp.identity.accounts.models import User, notify
from webapp.identity.accounts.permissions import Permission, may
from webapp.identity.audit.services import record
from webapp.science.predictions.claims import text_from
from webapp.science.predictions.frozen import passed_already
from webapp.science.predictions.models import Comment, Outcome, Prediction, Review, ReviewRequest

MAX_TEXT = 5_000
MAX_EARLIER = 50  # texts that are kept; one more edit is refused
MAX_MENTIONS = 20
SAME_WITHIN = timedelta(minutes=1)
# A mail address is no mention; a name may hold dots, but does not end with one.
MENTION = re.compile(r"(?<![\w.@+-])@(\w(?:[\w.@+-]*[\w@+-])?)")
MAX_REVIEWERS = 20
VERDICTS = {
    Review.Verdict.APPROVED: "approved",
    Review.Verdict.CHANGES: "asked for changes of",
    Review.Verdict.REJECTED: "rejected",
}


def locked(prediction: Prediction) -> Prediction:
    """The prediction as it is now, until this transaction ends nobody else's."""
    rows = Prediction.objects.select_for_update(of=("self",)).select_related("project", "run", "author")
    return rows.get(pk=prediction.pk)


def refuse_closed(prediction: Prediction, verb: str, field: str | None = None) -> None:
    """Raises Conflict where it was withdrawn, replaced or scored, or where a run has passed its target."""
    at = f"{field}: " if field else ""
    ends = (
        (prediction.withdrawn_at is not None, "this prediction was withdrawn; it"),
        (Prediction.objects.filter(replaces=prediction).exists(), "this prediction was replaced; it"),
        (Outcome.objects.filter(prediction=prediction).exists(), "this prediction was scored; it"),
        (newly_passed(prediction), "a run has passed its target; the claim"),
    )
    for has_come, said in ends:
        if has_come:
            raise Conflict(f"{at}{said} cannot be {verb}.", field=field)


def newly_passed(prediction: Prediction) -> list[str]:
    """The runs of its recipe that passed the target after the claim was made."""
    seen = set(prediction.frozen["seen"])
    return [pk for pk in passed_already(prediction.run, prediction.x, prediction.target) if pk not in seen]


def record_prediction(verb: str, prediction: Prediction, user: User | None, **detail: Any) -> None:
    """Note in the audit log what somebody did to a prediction."""
    record(
        verb, actor=user, project=prediction.project, kind="prediction", key=prediction.pk, name=prediction.run.name,
        **detail,
    )  # fmt: skip


def address(prediction: Prediction) -> str:
    """The path of the prediction's page."""
    return f"/predictions/{prediction.pk}"


def tell(person: User, prediction: Prediction, kind: str, text: str, *, at: str = "") -> bool:
    """A notice for this person, with a link to the prediction, at `at` ("#comment-3"). False for no member."""
    if not may(person, prediction.project, Permission.VIEW):
        return False
    words = " ".join(text.split())
    notify(person, project=prediction.project, kind=kind, text=words, url=address(prediction) + at)
    return True


@transaction.atomic
def comment(
    prediction: Prediction,
    *,
    user: User,
    text: str,
    parent: Comment | None = None,
    anchor: Sequence[float] | None = None,
) -> Comment:
    """Add a comment; `anchor` (x, y) ties it to a point of the chart, `parent` makes it an answer.

    The same comment by the same person within a minute is the stored one. Members who are mentioned by @username are
    told. Text is plain: pages escape it. Raises InvalidInput (text, parent, anchor).
    """
    text = text_from("text", text, most=MAX_TEXT)
    if parent is not None:
        is_elsewhere = parent.prediction_id != prediction.pk
        refuse(
            (is_elsewhere, "parent", "parent: that comment is about another prediction."),
            (parent.parent_id is not None, "parent", "parent: answer the first comment of the thread."),
        )
    x, y = _anchor(anchor)
    if parent is not None and x is not None:
        raise InvalidInput("anchor", "anchor: an answer stands where its thread does.")
    prediction = locked(prediction)
    fields = {"prediction": prediction, "author": user, "parent": parent, "anchor_x": x, "anchor_y": y}
    recent = Comment.objects.filter(**fields, text=text, created_at__gt=timezone.now() - SAME_WITHIN)
    if (stored := recent.order_by("-id").first()) is not None:
        return stored
    made = Comment.objects.create(**fields, text=text)
    told = _mention(made, user, before=set())
    people = {made.prediction.author_id: made.prediction.author}
    if made.parent is not None:
        people[made.parent.author_id] = made.parent.author
    for pk, person in people.items():
        if pk != user.pk and pk not in told:
            _notify(made, person, "prediction_comment", f"{user} commented: {made.text}")
    record_prediction("prediction.commented", prediction, user, comment=made.pk)
    return made


@transaction.atomic
def edit_comment(comment: Comment, *, user: User, text: str) -> Comment:
    """Change the text; what it said before is kept and can be read. Who is mentioned now for the first time is told.

    Raises Forbidden for anybody but its author, InvalidInput (text).
    """
    if comment.author_id != user.pk:
        raise Forbidden("Only its author can change a comment.")
    text = text_from("text", text, most=MAX_TEXT)
    comment = _locked(comment)
    if comment.text == text:
        return comment
    if len(comment.earlier) >= MAX_EARLIER:
        raise InvalidInput("text", f"text: this comment was changed {MAX_EARLIER} times; write a new one.")
    now = timezone.now()
    comment.earlier = [*comment.earlier, {"text": comment.text, "until": now.isoformat()}]
    comment.text, comment.edited_at = text, now
    comment.save(update_fields=["text", "edited_at", "earlier"])
    _mention(comment, user, before=set(comment.mentions.values_list("pk", flat=True)))
    record_prediction("prediction.comment_edited", comment.prediction, user, comment=comment.pk)
    return comment


@transaction.atomic
def resolve_comment(comment: Comment, *, user: User, resolved: bool) -> Comment:
    """Mark a thread as settled, or open it again. Safe to repeat. Raises InvalidInput for an answer."""
    if comment.parent_id is not None:
        raise InvalidInput("resolved", "resolved: a thread is settled at its first comment.")
    comment = _locked(comment)
    if (comment.resolved_at is not None) == resolved:
        return comment
    comment.resolved_at = timezone.now() if resolved else None
    comment.resolved_by = user if resolved else None
    comment.save(update_fields=["resolved_at", "resolved_by"])
    verb = "prediction.comment_resolved" if resolved else "prediction.comment_reopened"
    record_prediction(verb, comment.prediction, user, comment=comment.pk)
    return comment


def mentioned_names(text: str) -> list[str]:
    """The usernames after an @, each once, in order; at most MAX_MENTIONS."""
    return list(dict.fromkeys(MENTION.findall(text)))[:MAX_MENTIONS]


def _locked(comment: Comment) -> Comment:
    rows = Comment.objects.select_for_update(of=("self",)).select_related("prediction__project", "author")
    return rows.get(pk=comment.pk)


def _mention(comment: Comment, user: User, before: set[int]) -> set[int]:
    """Tie the comment to the members whom it names, and tell those who were not named before; returns who was told."""
    project = comment.prediction.project
    names = mentioned_names(comment.text)
    member = Q(memberships__project=project) | Q(owned_organisations=project.organisation_id)
    people = list(User.objects.filter(member, username__in=names, is_active=True).distinct())
    comment.mentions.set(people)
    told = set()
    for person in people:
        if person.pk not in before and person.pk != user.pk:
            _notify(comment, person, "mention", f"{user} mentioned you: {comment.text}")
            told.add(person.pk)
    return told


def _notify(comment: Comment, person: User, kind: str, text: str) -> None:
    tell(person, comment.prediction, kind, text, at=f"#comment-{comment.pk}")


def _anchor(anchor: Any) -> tuple[float | None, float | None]:
    if anchor is None:
        return None, None
    pair = list(anchor) if isinstance(anchor, list | tuple) else []
    numbers = [v for v in pair if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(pair) != 2 or len(numbers) != 2 or not all(abs(v) < 1e300 and math.isfinite(v) for v in numbers):
        raise InvalidInput("anchor", "anchor must be a point of the chart: two finite numbers.")
    if numbers[0] < 0 or not -1.0 <= numbers[1] <= 2.0:
        raise InvalidInput("anchor", "anchor lies outside of the chart.")
    return float(numbers[0]), float(numbers[1])


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
        record_prediction("prediction.review_asked", prediction, user, reviewer=person.get_username())
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
    record_prediction("prediction.reviewed", prediction, user, verdict=verdict)
    return made
