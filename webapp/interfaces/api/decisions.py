"""/api/v1/decisions"""

from typing import Annotated

from django.http import HttpRequest
from ninja import Body, Header, Query, Router, Schema, Status
from pydantic import Field

from webapp.interfaces.api.auth import READ, READ_HEAVY, WRITE, person_of, project_of
from webapp.interfaces.api.derived import fields_of
from webapp.interfaces.api.openapi import answers
from webapp.interfaces.api.paging import PageQuery, Payload, page, page_of
from webapp.interfaces.api.schemas import Body as StrictBody
from webapp.science.decisions import selectors
from webapp.science.decisions.models import Entry
from webapp.science.decisions.services import decide

router = Router(tags=["decisions"])


class DecisionBody(StrictBody):
    """What was decided of a run, prediction or study, and why."""

    kind: str = Field(description="continue, stop, switch or note.")
    about: str = Field(description="run, prediction or study.")
    object_id: str = Field(description="Its id.")
    reason: str
    to: str = Field("", description="What a switch goes to: a run, a recipe, or what else.")


@fields_of(Entry, "id kind about object_id name to reason decided_by decided_at state")
class DecisionOut(Schema):
    name: str = Field(description="What the object was called then.")
    decided_by: str
    state: Payload = Field(
        description="How it stood at that moment. Of a run pass rate, device-hours used and budget, ceiling and "
        "forecast at the budget; of a prediction or a study what its page said."
    )


class DecisionQuery(PageQuery):
    person: str = ""
    kind: str = ""
    about: str = Field("", description="run, prediction or study.")
    object_id: str = Field("", description="Id of a run, prediction or study.")


@router.get("", auth=READ_HEAVY, response=page_of(DecisionOut), summary="The decision log, newest first")
def list_decisions(request: HttpRequest, query: Query[DecisionQuery]) -> Payload:
    """A decision must match all parameters that are given."""
    filters = query.dict(exclude={"cursor", "limit"})
    rows = selectors.decisions_of(project_of(request), **filters)
    return page(rows, query, order=["-decided_at", "id"], payload=_payload)


@router.get("/{decision_id}", auth=READ, response=DecisionOut, summary="One decision")
def get_decision(request: HttpRequest, decision_id: str) -> Payload:
    """It never changes."""
    return _payload(selectors.decision_by_id(project_of(request), decision_id))


@router.post(
    "",
    auth=WRITE,
    response={201: DecisionOut},
    summary="Add a decision",
    description="It never changes. With an Idempotency-Key the same request adds one.",
    openapi_extra=answers(409),
)
def add_decision(
    request: HttpRequest,
    body: Body[DecisionBody],
    idempotency_key: Annotated[str | None, Header(alias="Idempotency-Key")] = None,
) -> Status:
    found = selectors.object_of(project_of(request), body.about, body.object_id)
    entry = decide(
        found,
        user=person_of(request),
        kind=body.kind,
        reason=body.reason,
        to=body.to,
        key=idempotency_key,
    )
    return Status(201, _payload(entry))


def _payload(entry: Entry) -> Payload:
    own = ("id", "kind", "about", "object_id", "name", "to", "reason", "decided_at", "state")
    return {name: getattr(entry, name) for name in own} | {"decided_by": entry.decided_by.username}
