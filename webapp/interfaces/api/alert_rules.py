"""/api/v1/alerts/rules and /channels: what a project, or the token's owner, is alerted of.

What fired: alerts for programs.
"""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Body, Query, Router, Schema, Status
from pydantic import Field

from webapp.interfaces.api.auth import READ, READ_HEAVY, WRITE, WRITE_HEAVY, person_of, project_of, user_of
from webapp.interfaces.api.derived import fields_of
from webapp.interfaces.api.openapi import answers
from webapp.interfaces.api.paging import PageQuery, Payload, page, page_of
from webapp.interfaces.api.schemas import Body as StrictBody
from webapp.reporting.alerts import preview, rules, selectors
from webapp.reporting.alerts.models import AlertRule, Channel, Delivery, Firing

router = Router(tags=["alerts"])


class RuleBody(StrictBody):
    """What to watch for in which runs, and who is told."""

    name: str
    on: str = Field(
        description="state, metric, alarm, fit, budget or outcome; of the rules that everybody has: prediction."
    )
    condition: dict[str, Any] = Field(
        description='As `on` needs it: {"states": [...]}; {"metric", "comparison", "threshold", "in_a_row"}; {"level", '
        '"rule"}; {"event", "value", "certain", "in_a_row"}; {"percent"}; {"scored"}; {"event"}.'
    )
    runs: str = Field("", description="Filter of the list of runs; empty: every run.")
    to_page: bool = True
    channels: list[int] = Field(default_factory=list, max_length=40, description="Ids of channels.")
    critical: bool = False
    cooldown_minutes: int = Field(0, description="Of the same run at most one in so many minutes; 0: each.")
    enabled: bool = True


class NewRuleBody(RuleBody):
    shared: bool = Field(
        False, description="The project's, which an admin makes; else the token's owner's own."
    )


class ChangedRuleBody(RuleBody):
    version: int = Field(description="The version that this was made from; an older one is refused (409).")


@fields_of(
    AlertRule,
    "id name shared default on condition words runs to_page channels critical cooldown_minutes "
    "enabled version since",
)
class RuleOut(Schema):
    shared: bool
    default: bool = Field(description="Whether every member has it; it can be turned off, not deleted.")
    words: str = Field(description="The condition in words that follow “when”.")
    channels: list[int]
    since: datetime = Field(description="What happened before does not fire.")


@fields_of(Channel, "id name kind shown shared paused")
class ChannelOut(Schema):
    """A channel; of its address no more than pages show."""

    shared: bool
    paused: bool


class ChannelList(Schema):
    items: list[ChannelOut]


class TriedOut(Schema):
    way: str = Field(description='"page", or the name of a channel.')
    ok: bool
    error: str


class TestOut(Schema):
    items: list[TriedOut]


@router.get("/rules", auth=READ, response=page_of(RuleOut), summary="The project's rules, and one's own")
def list_rules(request: HttpRequest, query: Query[PageQuery]) -> Payload:
    """By id. Other people's own rules are not among them."""
    found = selectors.visible_rules(person_of(request), project_of(request))
    return page(found, query, order=["id"], payload=rule_payload)


@router.post("/rules", auth=WRITE, response={201: RuleOut}, summary="Make a rule", openapi_extra=answers(409))
def create_rule(request: HttpRequest, body: Body[NewRuleBody]) -> Status:
    """It watches from now on. A rule of the project needs the role admin (else 403)."""
    user, project = person_of(request), project_of(request)
    made = rules.create_rule(
        user=user, project=project, wanted=_wanted(body), shared=body.shared, enabled=body.enabled
    )
    return Status(201, rule_payload(made))


@router.get("/rules/{rule_id}", auth=READ, response=RuleOut, summary="One rule")
def get_rule(request: HttpRequest, rule_id: int) -> Payload:
    """404 for one of another person's own."""
    return rule_payload(_rule(request, rule_id))


@router.put(
    "/rules/{rule_id}",
    auth=WRITE,
    response=RuleOut,
    summary="Change a rule, turn it on or off",
    openapi_extra=answers(409),
)
def change_rule(request: HttpRequest, rule_id: int, body: Body[ChangedRuleBody]) -> Payload:
    """Where the condition or the runs change, it watches anew from now on. Its kind (`on`) cannot change."""
    _rule(request, rule_id)
    changed = rules.change_rule(
        rule_id, user=person_of(request), project=project_of(request), version=body.version, wanted=_wanted(body),
        enabled=body.enabled,
    )  # fmt: skip
    return rule_payload(changed)


@router.delete(
    "/rules/{rule_id}", auth=WRITE, response={204: None}, summary="Delete a rule", openapi_extra=answers(409)
)
def delete_rule(request: HttpRequest, rule_id: int) -> Status:
    """What it found stays. 409 for a rule that everybody has."""
    _rule(request, rule_id)
    rules.delete_rule(rule_id, user=person_of(request), project=project_of(request))
    return Status(204, None)


@router.post("/rules/{rule_id}/test", auth=WRITE_HEAVY, response=TestOut, summary="Send a test each way")
def test_rule(request: HttpRequest, rule_id: int) -> Payload:
    """For real, quiet hours or not; a channel at most once in five seconds. It says what came of each way."""
    _rule(request, rule_id)
    tried = preview.try_rule(rule_id, user=person_of(request), project=project_of(request))
    return {"items": [{"way": one.way, "ok": one.ok, "error": one.error} for one in tried]}


@router.get("/channels", auth=READ, response=ChannelList, summary="The project's channels, and one's own")
def list_channels(request: HttpRequest) -> Payload:
    """Of an address no more than pages show; of a secret nothing."""
    found = selectors.channels_of(person_of(request), project_of(request))
    return {"items": [channel_payload(channel) for channel in found]}


def rule_payload(rule: AlertRule) -> Payload:
    """A rule as the API gives it."""
    return {
        "id": rule.pk, "name": rule.name, "shared": rule.owner_id is None, "default": bool(rule.default_key),
        "on": rule.on, "condition": rule.condition, "words": selectors.words_of(rule), "runs": rule.runs,
        "to_page": rule.to_page, "channels": sorted(channel.pk for channel in rule.channels.all()),
        "critical": rule.critical, "cooldown_minutes": rule.cooldown_minutes, "enabled": rule.enabled,
        "version": rule.version, "since": rule.since,
    }  # fmt: skip


def channel_payload(channel: Channel) -> Payload:
    """A channel by its name; its address and its secret are never given."""
    return {
        "id": channel.pk, "name": channel.name, "kind": channel.kind, "shown": channel.shown,
        "shared": channel.owner_id is None, "paused": channel.paused_at is not None,
    }  # fmt: skip


def _wanted(body: RuleBody) -> rules.Wanted:
    return rules.Wanted(**body.model_dump(exclude={"shared", "version", "enabled"}))


def _rule(request: HttpRequest, rule_id: int) -> AlertRule:
    """Raises NotFound, also for a rule of another project or another person."""
    return selectors.rule_by_id(person_of(request), project_of(request), rule_id)


@fields_of(Delivery, "channel state tries sent_at error")
class DeliveryOut(Schema):
    """How a firing went through one channel."""

    channel: str
    error: str


@fields_of(Firing, "id rule run text critical muted happened_at created_at deliveries")
class FiringOut(Schema):
    """A rule that found what it watches for."""

    rule: str
    run: str | None
    deliveries: list[DeliveryOut]


@router.get(
    "",
    auth=READ_HEAVY,
    response=page_of(FiringOut),
    summary="What alerts found, newest first",
    operation_id="webapp_api_alerts_list_firings",
)
def list_firings(request: HttpRequest, query: Query[PageQuery]) -> dict[str, Any]:
    """By the project's rules, and by those of the token's owner."""
    firings = selectors.firings_of(project_of(request), user_of(request))
    return page(firings, query, order=["-id"], payload=firing_payload)


def firing_payload(firing: Firing) -> dict[str, Any]:
    """A firing as the API gives it; channels by their names, never their addresses."""
    return {
        "id": firing.pk, "rule": firing.rule_name, "run": firing.run_id, "text": firing.text,
        "critical": firing.critical, "muted": firing.muted, "happened_at": firing.happened_at,
        "created_at": firing.created_at,
        "deliveries": [
            {
                "channel": row.channel.name, "state": row.state, "tries": row.tries, "sent_at": row.sent_at,
                "error": row.last_error,
            }
            for row in firing.deliveries.all()
        ],
    }  # fmt: skip
