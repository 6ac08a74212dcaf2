"""What fired: alerts for programs."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Schema

from webapp.interfaces.api.auth import READ_HEAVY, project_of, user_of
from webapp.interfaces.api.paging import page
from webapp.interfaces.api.schemas import PageQuery
from webapp.reporting.alerts.models import Firing
from webapp.reporting.alerts.selectors import firings_of

router = Router(tags=["alerts"])


class DeliveryOut(Schema):
    """How a firing went through one channel."""

    channel: str
    state: str
    tries: int
    sent_at: datetime | None
    error: str


class FiringOut(Schema):
    """A rule that found what it watches for."""

    id: int
    rule: str
    run: str | None
    text: str
    critical: bool
    muted: bool
    happened_at: datetime
    created_at: datetime
    deliveries: list[DeliveryOut]


class FiringPage(Schema):
    items: list[FiringOut]
    next: str | None


@router.get("", auth=READ_HEAVY, response=FiringPage, summary="What alerts found, newest first")
def list_firings(request: HttpRequest, query: Query[PageQuery]) -> dict[str, Any]:
    """By the project's rules, and by those of the token's owner."""
    firings = firings_of(project_of(request), user_of(request))
    return page(firings, order=["-id"], cursor=query.cursor, limit=query.limit, payload=firing_payload)


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
