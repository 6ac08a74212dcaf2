"""Adding to the audit log: inside the transaction of the change, so that neither is stored without the other.

Every event that a request leads to names the address that it came from, as far as it can be known.
"""

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from ipaddress import ip_address
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from webapp.identity.audit.models import Event

if TYPE_CHECKING:
    from webapp.identity.accounts.models import Organisation, Project, User

SYSTEM = "system"
BATCH = 1000
NOTHING: Mapping[object, dict[str, Any]] = MappingProxyType({})
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
    own: Mapping[object, dict[str, Any]] = NOTHING,
    **detail: Any,
) -> None:
    """Note the same change of many things, each (key, name) as an event of its own; in a few statements. `own`: more
    detail of a thing, by its key."""
    events = [
        _event(verb, actor, project, (kind, key, name), {**detail, **own.get(key, {})})
        for key, name in things
    ]
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


def client_address(request: HttpRequest) -> str | None:
    """The address that the nearest trusted proxy saw; without proxies, that of the connection.

    Each proxy appends the address that it saw to X-Forwarded-For, so with `TRUSTED_PROXIES` = n the n-th from the
    right was written by a proxy of ours; whatever stands left of it the client may have made up. None where there is
    no valid address.
    """
    direct = request.META.get("REMOTE_ADDR", "")
    if not (proxies := settings.TRUSTED_PROXIES):
        return _valid(direct)
    forwarded = [
        part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",") if part.strip()
    ]
    return _valid(forwarded[-proxies]) if len(forwarded) >= proxies else _valid(direct)


def _valid(text: str) -> str | None:
    """The address without port and zone; None where it is none."""
    bare = text.strip().removeprefix("[").partition("]")[0].partition("%")[0]
    if bare.count(":") == 1:  # an IPv4 address with a port
        bare = bare.partition(":")[0]
    try:
        return str(ip_address(bare))
    except ValueError:
        return None


class AddressOfRequest:
    """Sets `webapp.identity.audit.services.address_of_request` for as long as the request is answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        before = address_of_request.set(client_address(request))
        try:
            return self.get_response(request)
        finally:
            address_of_request.reset(before)
