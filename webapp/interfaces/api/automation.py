"""/api/v1/policies and /retention: what a project's runs are stopped for, and what is cleaned up after them."""

from typing import Any

from django.http import HttpRequest
from ninja import Body, Router, Schema
from pydantic import Field

from webapp.interfaces.api.auth import READ, WRITE_AS_ADMIN, person_of, project_of
from webapp.interfaces.api.schemas import Body as StrictBody
from webapp.record.retention.models import RetentionPolicy
from webapp.record.retention.selectors import policy_of
from webapp.record.retention.services import set_policy
from webapp.reporting.policies.models import BY_KEY, DEFAULT_DELTA
from webapp.reporting.policies.selectors import project_policy
from webapp.reporting.policies.services import set_project_policy

router = Router(tags=["automation"])


class PolicyBody(StrictBody):
    """What is done about each kind of finding, in runs without a policy of their own."""

    policies: dict[str, str] = Field(description="Kind -> action; a kind that is left out has its default.")
    advice_delta: float = Field(
        DEFAULT_DELTA, description="Of pass rate: less than this left to gain is not worth going on."
    )


class PolicyOut(Schema):
    policies: dict[str, str] = Field(description="Kind -> action, of every kind.")
    advice_delta: float
    choices: dict[str, list[str]] = Field(description="Kind -> the actions that it may have.")


class RetentionBody(StrictBody):
    """What is removed of ended runs, and when."""

    enabled: bool = Field(description="Without it nothing is removed by itself.")
    keep_newest: int = Field(description="Checkpoints of an ended run that stay.")
    checkpoint_days: int = Field(description="After the run's end; then these go, too.")
    log_days: int = Field(
        description="After an attempt's end its whole log goes, and a run's samples; 0: never."
    )
    under_pressure: bool = Field(description="Sooner, where the disk is low.")


class RetentionOut(Schema):
    enabled: bool
    keep_newest: int
    checkpoint_days: int
    log_days: int
    under_pressure: bool


@router.get("/policies", auth=READ, response=PolicyOut, summary="What the project's runs are stopped for")
def get_policies(request: HttpRequest) -> dict[str, Any]:
    """What is done about each kind of finding, in runs without a policy of their own, and what may be chosen."""
    policy = project_policy(project_of(request))
    return {
        "policies": policy.actions,
        "advice_delta": policy.advice_delta,
        "choices": {key: kind.actions for key, kind in BY_KEY.items()},
    }


@router.put(
    "/policies",
    auth=WRITE_AS_ADMIN,
    response=PolicyOut,
    summary="Set what the project's runs are stopped for",
)
def put_policies(request: HttpRequest, body: Body[PolicyBody]) -> dict[str, Any]:
    """All of it; it holds for what is found from now on. Needs the role admin (else 403)."""
    set_project_policy(
        project_of(request), actions=body.policies, advice_delta=body.advice_delta, user=person_of(request)
    )
    return get_policies(request)


@router.get("/retention", auth=READ, response=RetentionOut, summary="What is cleaned up of ended runs")
def get_retention(request: HttpRequest) -> RetentionPolicy:
    """Which checkpoints and logs go, and when. Nothing is removed by itself unless `enabled`."""
    return policy_of(project_of(request))


@router.put(
    "/retention", auth=WRITE_AS_ADMIN, response=RetentionOut, summary="Set what is cleaned up of ended runs"
)
def put_retention(request: HttpRequest, body: Body[RetentionBody]) -> RetentionPolicy:
    """All of it; it holds from the next step on, within a minute. Needs the role admin (else 403)."""
    set_policy(project_of(request), user=person_of(request), **body.model_dump())
    return get_retention(request)
