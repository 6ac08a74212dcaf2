"""What the page of one prediction shows and when it has changed; its comments as numbered threads; and in tabs the
analyses that a reviewer asks for: window sensitivity, forms side by side, the record of author and recipe.

The earlier record of a prediction's author and of its recipe, as a reviewer reads it.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, Model, OuterRef, Subquery

from webapp.identity.accounts.models import User
from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.pages.prediction.calibration import apart, headline, verdict
from webapp.interfaces.pages.prediction.form import hidden_fields, reviewers_of
from webapp.interfaces.pages.prediction.listing import differences
from webapp.interfaces.pages.run.tabs import forms_context, window_context
from webapp.record.runs.states import ENDED
from webapp.science.curves import words
from webapp.science.curves.fitting import curve_of
from webapp.science.curves.words import AXES
from webapp.science.predictions import claims, selectors
from webapp.science.predictions.calibration import Record
from webapp.science.predictions.discussion import newly_passed
from webapp.science.predictions.figure import Anchor, known_of, parameter_rows, prediction_figure, question_of
from webapp.science.predictions.models import Comment, Outcome, Pending, Prediction, Review, ReviewRequest

MOST = 8
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
REPLACEABLE = {"unreviewed", "asked", "changes"}


def record_rows(prediction: Prediction) -> list[dict[str, Any]]:
    """First the author's, then the recipe's; a tracked run has no recipe."""
    project = prediction.project
    record = selectors.record_of_author(prediction.author, project)
    own = _told(f"Of {prediction.author.username}", record)
    found = [own | {"earlier": _earlier(prediction, author=prediction.author)}]
    if prediction.revision is not None:
        recipe = prediction.revision.recipe
        record = selectors.record_of_recipe(prediction.revision, project)
        row = _told(f"Of predictions about {recipe.name}", record)
        found.append(row | {"earlier": _earlier(prediction, recipe=recipe.slug)})
    return found


def _told(title: str, record: Record) -> dict[str, Any]:
    told, row = record.probabilities, record.intervals
    brier = "" if told.brier is None else f", mean Brier score {told.brier:.3f}"
    errors = ""
    if row.mean_error is not None and row.mean_abs_error is not None:
        errors = f"Mean error {words.signed(row.mean_error)}, mean absolute error {row.mean_abs_error:.3f}."
    return {
        "title": title,
        "headline": headline(row) if row.n else "",
        "errors": errors,
        "verdict": verdict(row),
        "probabilities": f"{words.count(told.n, 'claim')} that a rival is passed{brier}." if told.n else "",
        "apart": apart(record.counts),
        "total": record.counts.total,
    }


def _earlier(prediction: Prediction, **about: Any) -> list[tuple[Prediction, list[Outcome]]]:
    """The newest scored claims besides this one, each with what came. Three queries."""
    scored = selectors.predictions_of(prediction.project, status="scored", **about).exclude(pk=prediction.pk)
    return [(one, list(one.outcomes.all())) for one in scored[:MOST]]


def threads_of(prediction: Prediction) -> list[Context]:
    """In the order in which they were begun: each comment with its replies and the words for its point. One query."""
    comments = list(prediction.comments.select_related("author", "resolved_by").order_by("created_at", "pk"))
    roots = [comment for comment in comments if comment.parent_id is None]
    return [
        {
            "number": number,
            "root": root,
            "place": place_words(prediction, root),
            "replies": [comment for comment in comments if comment.parent_id == root.pk],
        }
        for number, root in enumerate(roots, start=1)
    ]


def place_words(prediction: Prediction, comment: Comment) -> str:
    """ "0.512 at 4.00 h"."""
    if comment.anchor_x is None or comment.anchor_y is None:
        return ""
    return f"{comment.anchor_y:.3f} at {AXES[prediction.x].short_text(comment.anchor_x)}"


def anchors_of(threads: Sequence[Context]) -> list[Anchor]:
    """The threads that the chart marks."""
    numbered = [(thread["number"], thread["root"]) for thread in threads]
    return [
        Anchor(root.pk, number, root.anchor_x, root.anchor_y, root.resolved_at is not None)
        for number, root in numbered
        if root.anchor_x is not None and root.anchor_y is not None
    ]


def people_of(prediction: Prediction) -> list[str]:
    """Who can be mentioned: everybody in the project, by name."""
    project = prediction.project
    members = User.objects.filter(memberships__project=project)
    owners = User.objects.filter(owned_organisations=project.organisation_id)
    found = (members | owners).filter(is_active=True).distinct()
    return list(found.order_by("username").values_list("username", flat=True))


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
    threads = threads_of(prediction)
    status = selectors.status_of(prediction)
    figure = prediction_figure(prediction, curve, outcomes, anchors_of(threads))
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
        "people": people_of(prediction),
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


def _window(prediction: Prediction) -> Context:
    """Other windows on what was known when it was frozen, whatever has come since."""
    known = known_of(prediction, curve_of(prediction.run, prediction.x, prediction.metric))
    return window_context(known.curve, known.question) | {"intact": known.intact}


def _forms(prediction: Prediction) -> Context:
    """The other forms on the frozen points; the error after the cutoff once something came."""
    curve = curve_of(prediction.run, prediction.x, prediction.metric)
    known = known_of(prediction, curve)
    found = forms_context(curve, replace(known.question, form="sigmoid"), prediction.target)
    return found | {"intact": known.intact}


TABS = {"record": "Record", "window": "Window sensitivity", "forms": "Forms"}
HEAVY = {"window", "forms"}  # they take many fits, so the page is there first
CONTEXTS: dict[str, Callable[[Prediction], Context]] = {
    "record": lambda prediction: {"records": record_rows(prediction)},
    "window": _window,
    "forms": _forms,
}


def tab_context(tab: str, prediction: Prediction) -> Context:
    """The context of one tab's template."""
    return CONTEXTS[tab](prediction) | {"tabs": TABS}
