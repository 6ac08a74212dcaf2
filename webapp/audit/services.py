"""Adding to the audit log: inside the transaction of the change, so that neither is stored without the other."""

from contextvars import ContextVar
from typing import Any

from webapp.accounts.models import Organisation, Project, User
from webapp.audit.models import Event

SYSTEM = "system"
address_of_request: ContextVar[str | None] = ContextVar("address_of_request", default=None)


def record(
    verb: str,
    *,
    actor: User | None,
    project: Project | None = None,
    organisation: Organisation | None = None,
    kind: str,
    key: object,
    name: str = "",
    **detail: Any,
) -> None:
    """Note one change. `kind`, `key`, `name` say of what; `detail` (JSON-ready, no secrets) says what changed."""
    Event.objects.create(
        organisation=organisation or (project.organisation if project is not None else None),
        project=project,
        actor=actor,
        actor_name=actor.get_username() if actor is not None else SYSTEM,
        verb=verb,
        object_kind=kind,
        object_id=str(key)[:64],
        object_name=name[:200],
        detail=detail,
        address=address_of_request.get(),
    )
