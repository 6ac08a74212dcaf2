"""Adding to the audit log: inside the transaction of the change, so that neither is stored without the other."""

from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from webapp.identity.audit.models import Event

if TYPE_CHECKING:
    from webapp.identity.accounts.models import Organisation, Project, User

SYSTEM = "system"
BATCH = 1000
address_of_request: ContextVar[str | None] = ContextVar("address_of_request", default=None)


def record(
    verb: str,
    *,
    actor: "User | None",
    project: "Project | None" = None,
    organisation: "Organisation | None" = None,
    kind: str,
    key: object,
    name: str = "",
    **detail: Any,
) -> None:
    """Note one change. `kind`, `key`, `name` say of what; `detail` (JSON-ready, no secrets) says what changed."""
    event = _event(verb, actor, project, (kind, key, name), detail)
    if organisation is not None:
        event.organisation = organisation
    event.save(force_insert=True)


def record_each(
    verb: str,
    *,
    actor: "User | None",
    project: "Project",
    kind: str,
    things: Iterable[tuple[object, str]],
    **detail: Any,
) -> None:
    """Note the same change of many things, each (key, name) as an event of its own; in a few statements."""
    events = [_event(verb, actor, project, (kind, key, name), detail) for key, name in things]
    Event.objects.bulk_create(events, batch_size=BATCH)


def _event(
    verb: str,
    actor: "User | None",
    project: "Project | None",
    thing: tuple[str, object, str],
    detail: dict[str, Any],
) -> Event:
    kind, key, name = thing
    return Event(
        organisation_id=project.organisation_id if project else None,
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
