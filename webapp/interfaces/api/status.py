"""/api/v1/status: how the installation is. /healthz is for load balancers; this says what waits, and why."""

from datetime import datetime
from typing import Any, cast

from django.http import HttpRequest
from ninja import Field, Router, Schema

from webapp.identity.accounts.models import Role
from webapp.interfaces.api.auth import READ_HEAVY, ApiRequest
from webapp.reporting.status.status import status_now
from webapp.reporting.status.troubles import status_payload

router = Router(tags=["status"])


class TroubleOut(Schema):
    bad: bool = Field(description="Runs do not start or do not go on; else something to look at.")
    text: str


class BrokerOut(Schema):
    configured: bool
    answers: bool
    queued: int | None = Field(description="Hints that no worker has taken yet.")


class UnsentOut(Schema):
    count: int
    oldest_seconds: float | None


class WorkerOut(Schema):
    name: str = Field(description="Host and process for admins, else a number.")
    alive: bool
    version: str
    other_version: bool = Field(description="It runs other code than this web server.")
    started_at: datetime
    seen_at: datetime


class RoundOut(Schema):
    began_at: datetime
    seconds: float
    failures: dict[str, str]


class NodeOut(Schema):
    id: str
    address: str | None = Field(None, description="For admins.")
    alive: bool
    is_head: bool
    cpus: int
    gpus: int


class ClusterOut(Schema):
    asked_at: datetime
    seen_at: datetime | None
    answers: bool
    nodes: list[NodeOut] = Field(description="As they were at seen_at.")
    cpus: int
    gpus: int


class DiskOut(Schema):
    free: int
    total: int
    least_free: int = Field(description="Below it nothing is launched.")
    low: bool


class StatusOut(Schema):
    at: datetime
    healthy: bool
    troubles: list[TroubleOut]
    release: str = Field(description="Headroom's version, of the web server.")
    version: str = Field(description="A digest of the code that the web server runs.")
    runs: dict[str, int] = Field(description="Launched ones that are waiting, starting and running.")
    unsent: dict[str, UnsentOut]
    oldest_unsent_seconds: float | None
    broker: BrokerOut
    workers: list[WorkerOut]
    reconciliation: RoundOut | None
    cluster: ClusterOut | None
    database_bytes: int
    disk: DiskOut | None


@router.get("/status", auth=READ_HEAVY, response=StatusOut, summary="How the installation is")
def get_status(request: HttpRequest) -> dict[str, Any]:
    """Counts are of all projects; addresses are for tokens of admins."""
    is_admin = cast(ApiRequest, request).auth.role == Role.ADMIN
    return status_payload(status_now(), is_admin=is_admin)
