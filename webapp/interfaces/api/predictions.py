"""/api/v1/predictions: claims made before the data, their reviews, comments and outcomes, and the calibration."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Annotated, Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from ninja import Body, Header, Query, Router, Status

from webapp.base.errors import InvalidInput, NotFound
from webapp.base.formats import csv_file
from webapp.identity.accounts.models import User
from webapp.interfaces.api.auth import READ, READ_HEAVY, WRITE, WRITE_AS_REVIEW, person_of, project_of, run_of
from webapp.interfaces.api.openapi import CSV, answers
from webapp.interfaces.api.paging import (
    Payload,
    page,
    page_of,
    rows_after,
    unless_known,
    version_of_predictions,
)
from webapp.interfaces.api.parsing import unchecked
from webapp.interfaces.api.payloads import (
    COLUMNS,
    comment_payload,
    outcome_payloads,
    prediction_detail,
    prediction_payload,
    prediction_row,
    reviews_payload,
)
from webapp.interfaces.api.prediction_schemas import (
    CalibrationOut,
    CalibrationQuery,
    CommentBody,
    CommentList,
    CommentOut,
    ForecastersOut,
    OutcomeList,
    PredictionBody,
    PredictionDetail,
    PredictionOut,
    PredictionQuery,
    ReviewBody,
    ReviewersBody,
    ReviewList,
    WithdrawBody,
)
from webapp.science.curves.fitting import Question
from webapp.science.predictions import calibration, selectors, services
from webapp.science.predictions.claims import Claim
from webapp.science.predictions.models import Comment, Prediction

router = Router(tags=["predictions"])


@router.get(
    "",
    auth=READ_HEAVY,
    response=page_of(PredictionOut),
    summary="List predictions, newest first",
    openapi_extra=answers(files=(CSV,), etag=True),
)
def list_predictions(request: HttpRequest, query: Query[PredictionQuery]) -> Payload | HttpResponse:
    """With format=csv as a table."""
    project = project_of(request)
    unless_known(request, version_of_predictions(project))
    rows = selectors.predictions_of(
        project, author=_author(request, query.author), status=query.status, recipe=query.recipe,
        run=query.run, task=query.task, model=query.model,
    )  # fmt: skip
    order = ["-created_at", "id"]
    if query.format == "csv":
        found = rows_after(rows, order=order, cursor=query.cursor, limit=query.most_rows)
        return csv_file("predictions", COLUMNS, map(prediction_row, found))
    return page(rows, query, order=order, payload=prediction_payload)


@router.post(
    "",
    auth=WRITE,
    response={200: PredictionDetail, 201: PredictionDetail},
    summary="Freeze a claim before the data",
    description="It never changes afterwards. Refused (409, field target) where the run has been at the target, "
    "superseded attempts included. With an Idempotency-Key the same request makes one prediction: 201 the first time, "
    "200 with the same one afterwards, 409 for another body.",
    openapi_extra=answers(404, 409),
)
def freeze_prediction(
    request: HttpRequest,
    body: Body[PredictionBody],
    idempotency_key: Annotated[str | None, Header(alias="Idempotency-Key")] = None,
) -> Status:
    question = Question(**body.question.model_dump()) if body.question else Question()
    claim = Claim(
        body.statement, body.target, replace(question, level=body.level), body.value, body.lo, body.hi,
        body.probability, _named("rival", run_of, request, body.rival),
    )  # fmt: skip
    made = services.freeze(
        claim, run=run_of(request, body.run), user=person_of(request), reasons=body.reasons,
        replaces=_named("replaces", _prediction, request, body.replaces), key=idempotency_key,
    )  # fmt: skip
    return Status(201 if made.created else 200, prediction_detail(_prediction(request, made.prediction.pk)))


@router.get(
    "/calibration", auth=READ_HEAVY, response=CalibrationOut, summary="Claimed against observed coverage"
)
def get_calibration(request: HttpRequest, query: Query[CalibrationQuery]) -> HttpResponse:
    """Each prediction once, by its primary outcome; every observed coverage with its exact interval. What was
    withdrawn, replaced, or cannot be checked is counted beside."""
    found = calibration.calibration(
        project_of(request), author=_author(request, query.author), recipe=query.recipe, horizon=query.horizon,
        task=query.task,
    )  # fmt: skip
    rows = [asdict(row) | {"words": row.words} for row in found.rows]
    return unchecked(
        {
            "confidence": found.confidence,
            "overall": asdict(found.overall) | {"words": found.overall.words},
            "rows": rows,
            "probabilities": asdict(found.probabilities),
            "counts": asdict(found.counts),
        }
    )


@router.get(
    "/forecasters", auth=READ_HEAVY, response=ForecastersOut, summary="People by their score, where wanted"
)
def get_forecasters(request: HttpRequest) -> HttpResponse:
    """Mean interval score over that of the frozen forecasts on the same outcomes; empty unless people are ranked."""
    project = project_of(request)
    items = [asdict(one) for one in calibration.forecasters(project)]
    return unchecked({"ranks": project.ranks_forecasters, "items": items})


@router.get(
    "/{prediction_id}",
    auth=READ,
    response=PredictionDetail,
    summary="One prediction",
    openapi_extra=answers(etag=True),
)
def get_prediction(request: HttpRequest, prediction_id: str) -> Payload:
    """With all that was frozen when it was made, and what came of it."""
    unless_known(request, version_of_predictions(project_of(request)))
    return prediction_detail(_prediction(request, prediction_id))


@router.post(
    "/{prediction_id}/withdraw",
    auth=WRITE,
    response=PredictionDetail,
    summary="Withdraw a claim",
    openapi_extra=answers(409),
)
def withdraw_prediction(request: HttpRequest, prediction_id: str, body: Body[WithdrawBody]) -> Payload:
    """Once, visibly, by its author or an admin, before its target is passed (else 409)."""
    services.withdraw(_prediction(request, prediction_id), user=person_of(request), reason=body.reason)
    return prediction_detail(_prediction(request, prediction_id))


@router.get("/{prediction_id}/reviews", auth=READ, response=ReviewList, summary="Every verdict")
def list_reviews(request: HttpRequest, prediction_id: str) -> Payload:
    """Oldest first, with who was asked to review and what the latest verdicts come to."""
    return reviews_payload(_prediction(request, prediction_id))


@router.post(
    "/{prediction_id}/reviews",
    auth=WRITE_AS_REVIEW,
    response={201: ReviewList},
    summary="Review a claim",
    openapi_extra=answers(409),
)
def add_review(request: HttpRequest, prediction_id: str, body: Body[ReviewBody]) -> Status:
    """Needs the role reviewer, and somebody else's prediction (else 403). The reviewer's latest verdict counts."""
    prediction = _prediction(request, prediction_id)
    services.review(prediction, user=person_of(request), verdict=body.verdict, reason=body.reason)
    return Status(201, reviews_payload(_prediction(request, prediction_id)))


@router.post(
    "/{prediction_id}/reviewers",
    auth=WRITE,
    response={201: ReviewList},
    summary="Ask people to review",
    openapi_extra=answers(409),
)
def ask_reviewers(request: HttpRequest, prediction_id: str, body: Body[ReviewersBody]) -> Status:
    """By username: members who may review (else 422). Its author asks, or an admin (else 403)."""
    prediction = _prediction(request, prediction_id)
    people = {person.get_username(): person for person in _members(request, body.reviewers)}
    unknown = next((name for name in body.reviewers if name not in people), None)
    if unknown is not None:
        raise InvalidInput("reviewers", f"reviewers: {unknown} is not a member of this project.")
    services.ask_review(prediction, user=person_of(request), reviewers=[people[n] for n in body.reviewers])
    return Status(201, reviews_payload(_prediction(request, prediction_id)))


@router.get("/{prediction_id}/comments", auth=READ, response=CommentList, summary="All comments")
def list_comments(request: HttpRequest, prediction_id: str) -> Payload:
    """In threads, each first comment followed by its answers."""
    threads = selectors.comments_of(_prediction(request, prediction_id))
    rows = [row for first in threads for row in (first, *first.answers)]  # type: ignore[attr-defined]
    return {"items": [comment_payload(row) for row in rows]}


@router.post(
    "/{prediction_id}/comments",
    auth=WRITE,
    response={201: CommentOut},
    summary="Comment",
    openapi_extra=answers(409),
)
def add_comment(request: HttpRequest, prediction_id: str, body: Body[CommentBody]) -> Status:
    """Plain text; @username mentions a member. `parent` makes it an answer to the first comment of a thread."""
    prediction = _prediction(request, prediction_id)
    parent = None
    if body.parent is not None:
        parent = Comment.objects.filter(pk=body.parent, prediction=prediction).first()
        if parent is None:
            raise InvalidInput("parent", f"parent: there is no comment {body.parent} on this prediction.")
    made = services.comment(
        prediction, user=person_of(request), text=body.text, parent=parent, anchor=body.anchor
    )
    return Status(201, comment_payload(made))


@router.get("/{prediction_id}/outcomes", auth=READ, response=OutcomeList, summary="What came of it")
def list_outcomes(request: HttpRequest, prediction_id: str) -> Payload:
    """In the order in which they were made. The one with `primary` counts in calibration."""
    return {"items": outcome_payloads(_prediction(request, prediction_id))}


def _prediction(request: HttpRequest, prediction_id: str) -> Prediction:
    return selectors.prediction_by_id(project_of(request), prediction_id)


def _members(request: HttpRequest, names: list[str]) -> list[User]:
    project = project_of(request)
    member = Q(memberships__project=project) | Q(owned_organisations=project.organisation_id)
    return list(User.objects.filter(member, username__in=names).distinct())


def _author(request: HttpRequest, name: str) -> User | None:
    """Raises InvalidInput (author) for somebody who predicted nothing here."""
    if not name:
        return None
    found = User.objects.filter(username=name, predictions__project=project_of(request)).first()
    if found is None:
        raise InvalidInput("author", "author: nobody of this name has made a prediction here.")
    return found


def _named(field: str, find: Callable[[HttpRequest, str], Any], request: HttpRequest, key: str | None) -> Any:
    """What a field of the body names, if it names anything. Raises InvalidInput (field) where that is not there."""
    if key is None:
        return None
    try:
        return find(request, key)
    except NotFound as error:
        raise InvalidInput(field, f"{field}: {error.message}") from error
