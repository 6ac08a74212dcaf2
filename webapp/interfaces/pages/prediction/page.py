"""What the page of one prediction shows besides its tabs, and when it has changed."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, Model, OuterRef, Subquery

from webapp.identity.accounts.models import User
from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.pages.prediction import talk
from webapp.interfaces.pages.prediction.differences import differences
from webapp.interfaces.pages.prediction.form import hidden_fields
from webapp.interfaces.pages.prediction.preview import reviewers_of
from webapp.record.runs.states import ENDED
from webapp.science.curves.fitting import curve_of
from webapp.science.predictions import claims, selectors
from webapp.science.predictions.figure import parameter_rows, prediction_figure
from webapp.science.predictions.frozen_curve import question_of
from webapp.science.predictions.locks import newly_passed
from webapp.science.predictions.models import Comment, Outcome, Pending, Prediction, Review, ReviewRequest

Context = dict[str, Any]
REGIONS = {  # what is written anew while the page is open
    "actions": "predictions/_actions.html",
    "status": "predictions/_status.html",
    "verdicts": "predictions/_verdicts.html",
    "talk": "predictions/_talk.html",
    "history": "predictions/_history.html",
}
VERDICTS = {
    Review.Verdict.APPROVED: ("Approve", "The claim is well made. You need not believe it."),
    Review.Verdict.CHANGES: ("Ask for changes", "Say what; the author makes a new claim in its place."),
    Review.Verdict.REJECTED: ("Reject", "Say why it should not count."),
}
CLOSED = {"withdrawn", "replaced", "scored"}


def version_of(prediction: Prediction) -> str:
    """Changes with everything that the page shows. Two queries."""
    newest = {model.__name__: _newest(model) for model in (Review, ReviewRequest, Outcome, Pending, Comment)}
    here = Prediction.objects.filter(pk=prediction.pk).values_list(
        "run__version", "run__state", "withdrawn_at", "replaced_by", *newest.values()
    )
    comments = prediction.comments.aggregate(Max("edited_at"), Max("resolved_at"), Count("resolved_at"))
    return "~".join(_short(value) for value in (*here.get(), *comments.values()))


def _newest(model: type[Model]) -> Subquery:
    """The newest row of a prediction; rows are only added."""
    return Subquery(model._default_manager.filter(prediction=OuterRef("pk")).order_by("-pk").values("pk")[:1])


def _short(value: Any) -> str:
    if value is None:
        return ""
    return f"{value.timestamp():.6f}" if isinstance(value, datetime) else str(value)


def page_context(prediction: Prediction, reader: User, may: Collection[Permission]) -> Context:
    """Everything but the tabs, for this reader."""
    version = version_of(prediction)  # read before the rows: what comes meanwhile is asked for again
    prediction = selectors.prediction_by_id(prediction.project, prediction.pk)
    curve = curve_of(prediction.run, prediction.x, prediction.metric)
    outcomes = list(prediction.outcomes.select_related("run").order_by("created_at", "pk"))
    threads = talk.threads_of(prediction)
    status = selectors.status_of(prediction)
    figure = prediction_figure(prediction, curve, outcomes, talk.anchors_of(threads))
    is_author, is_closed = prediction.author_id == reader.pk, status.life in CLOSED
    figure |= {"version": version, "ended": prediction.run.state in ENDED and is_closed}
    is_closed = is_closed or bool(newly_passed(prediction))  # its score may wait for a rival
    return {
        "prediction": prediction,
        "claim": claims.claim_of(prediction),
        "sentence": claims.sentence(prediction),
        "status": status,
        "figure": figure,
        "outcomes": [(outcome, claims.outcome_words(outcome)) for outcome in outcomes],
        "parameters": parameter_rows(prediction),
        "threads": threads,
        "people": talk.people_of(prediction),
        "history": selectors.history_of(prediction),
        "replacement": getattr(prediction, "replaced_by", None),
        "differences": differences(prediction.replaces, prediction) if prediction.replaces else [],
        "verdicts": VERDICTS.items(),
        "review_refusal": review_refusal(prediction, reader, may, is_closed),
        "can_withdraw": (is_author or Permission.ADMIN in may)
        and Permission.CONTRIBUTE in may
        and not is_closed,
        "can_replace": is_author
        and Permission.CONTRIBUTE in may
        and not is_closed
        and status.review in REPLACEABLE,
        "replace_query": replace_query(prediction),
        "can_talk": Permission.CONTRIBUTE in may,
        "reader": reader,
        "to_ask": to_ask(prediction, may, is_author and not is_closed),
        "asked": [
            request.reviewer for request in prediction.requests.select_related("reviewer").order_by("pk")
        ],
    }


def replace_query(prediction: Prediction) -> str:
    """What asks the form for a changed claim: the same question, of all that is known by now."""
    question = replace(question_of(prediction), cutoff=None)
    return urlencode([("run", prediction.run_id), ("replaces", prediction.pk), *hidden_fields(question)])


REPLACEABLE = {"unreviewed", "asked", "changes"}


def review_refusal(prediction: Prediction, reader: User, may: Collection[Permission], is_closed: bool) -> str:
    """Why this reader cannot judge it; "" where they can."""
    if prediction.author_id == reader.pk:
        return "This is your own prediction: somebody else has to judge it."
    if Permission.REVIEW not in may:
        return "Reviewers of this project judge predictions; your role reads them."
    return "It is closed: there is nothing left to judge." if is_closed else ""


def to_ask(prediction: Prediction, may: Collection[Permission], is_open_author: bool) -> list[User]:
    """Who can still be asked for a review, by its author."""
    if not is_open_author or Permission.CONTRIBUTE not in may:
        return []
    asked = set(prediction.requests.values_list("reviewer_id", flat=True))
    return [user for user in reviewers_of(prediction.project, prediction.author) if user.pk not in asked]
