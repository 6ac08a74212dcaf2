"""/api/v1/decisions"""

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Body, Header, Query, Router, Schema, Status
from pydantic import Field

from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Project
from webapp.interfaces.api.auth import READ, READ_HEAVY, WRITE, person_of, project_of
from webapp.interfaces.api.openapi import answers
from webapp.interfaces.api.paging import page
from webapp.interfaces.api.schemas import Body as StrictBody
from webapp.interfaces.api.schemas import PageQuery
from webapp.record.recipes.models import Revision
from webapp.record.runs.models import Run
from webapp.science.decisions import selectors, services
from webapp.science.decisions.models import Decision
from webapp.science.decisions.table import revised_by
from webapp.science.predictions.models import Prediction

router = Router(tags=["decisions"])
Payload = dict[str, Any]


class DecisionBody(StrictBody):
    """What was decided of which runs, and why."""

    kind: str = Field(description="continue, stop or switch.")
    runs: list[str] = Field(max_length=services.MOST_RUNS, description="Ids of the runs that it is of.")
    reason: str
    to_run: str | None = Field(None, description="The run that a switch goes to.")
    to_recipe: str | None = Field(None, description='Or a recipe, as "slug@revision".')
    prediction: str | None = Field(None, description="The prediction that it rests on.")
    revises: str | None = Field(None, description="The decision that this one revises.")


class SubjectOut(Schema):
    part: str = Field(description="of: what was decided about; to: what a switch goes to.")
    run: str
    name: str
    recipe: str
    task: str
    model: str
    state: Payload = Field(description="How it stood at that moment; hours are device-hours.")


class CameOut(Schema):
    sentence: str
    held: bool | None


class DecisionOut(Schema):
    id: str
    kind: str
    decided_by: str
    decided_at: datetime
    reason: str
    prediction: str | None
    to_recipe: str | None
    revises: str | None
    revised_by: str | None
    runs: list[SubjectOut]
    came_of_it: list[CameOut] = Field(description="Worked out from what is stored now.")


class DecisionPage(Schema):
    items: list[DecisionOut]
    next: str | None


class DecisionQuery(PageQuery):
    person: str = ""
    run: str = ""
    kind: str = ""


@router.get("", auth=READ_HEAVY, response=DecisionPage, summary="The decision log, newest first")
def list_decisions(request: HttpRequest, query: Query[DecisionQuery]) -> Payload:
    """A decision must match all parameters that are given."""
    rows = selectors.decisions_of(project_of(request), person=query.person, run=query.run, kind=query.kind)
    found = page(
        rows, order=["-decided_at", "id"], cursor=query.cursor, limit=query.limit, payload=lambda row: row
    )
    return found | {"items": [_payload(entry) for entry in selectors.entries(found["items"])]}


@router.get("/{decision_id}", auth=READ, response=DecisionOut, summary="One decision and what came of it")
def get_decision(request: HttpRequest, decision_id: str) -> Payload:
    """The decision never changes; `came_of_it` is worked out from what is stored now."""
    return _one(project_of(request), decision_id)


@router.post(
    "",
    auth=WRITE,
    response={201: DecisionOut},
    summary="Add a decision",
    description="Rows never change: send another with `revises`. With an Idempotency-Key the same request adds one.",
    openapi_extra=answers(404, 409),
)
def add_decision(
    request: HttpRequest,
    body: Body[DecisionBody],
    idempotency_key: Annotated[str | None, Header(alias="Idempotency-Key")] = None,
) -> Status:
    project = project_of(request)
    decision = Decision(
        kind=body.kind,
        reason=body.reason,
        to_revision=_revision(project, body.to_recipe) if body.to_recipe else None,
        prediction=_prediction(project, body.prediction) if body.prediction else None,
        revises=selectors.decision_by_id(project, body.revises) if body.revises else None,
    )
    runs = [_run(project, one, "runs") for one in body.runs]
    to_run = _run(project, body.to_run, "to_run") if body.to_run else None
    made = services.decide(
        decision, runs, to_run, user=person_of(request), project=project, key=idempotency_key
    )
    return Status(201, _one(project, made.pk))


def _run(project: Project, key: str, field: str) -> Run:
    found = Run.objects.filter(project=project, pk=key).select_related("revision__recipe").first()
    if found is None:
        raise InvalidInput(field, f"There is no run {key} in this project.")
    return found


def _revision(project: Project, token: str) -> Revision:
    slug, _, number = token.rpartition("@")
    known = number.isascii() and number.isdecimal() and len(number) < 10
    found = Revision.objects.select_related("recipe").filter(
        recipe__project=project, recipe__slug=slug, number=int(number) if known else 0
    )
    if (revision := found.first()) is None:
        raise InvalidInput("to_recipe", f"There is no recipe {token} in this project.")
    return revision


def _prediction(project: Project, key: str) -> Prediction:
    found = Prediction.objects.filter(project=project, pk=key).first()
    if found is None:
        raise InvalidInput("prediction", f"There is no prediction {key} in this project.")
    return found


def _one(project: Project, key: str) -> Payload:
    return _payload(selectors.entries([selectors.decision_by_id(project, key)])[0])


def _payload(entry: selectors.Entry) -> Payload:
    decision: Decision = entry.decision
    to = decision.to_revision
    return {
        "id": decision.pk,
        "kind": decision.kind,
        "decided_by": decision.decided_by.username,
        "decided_at": decision.decided_at,
        "reason": decision.reason,
        "prediction": decision.prediction_id,
        "to_recipe": f"{to.recipe.slug}@{to.number}" if to else None,
        "revises": decision.revises_id,
        "revised_by": revised_by(decision),
        "runs": [
            {"part": one.part, "run": one.run_key, "name": one.name, "recipe": one.recipe, "task": one.task,
             "model": one.model, "state": one.state}
            for one in decision.subjects.all()
        ],
        "came_of_it": [{"sentence": one.sentence, "held": one.held} for one in entry.came],
    }  # fmt: skip
