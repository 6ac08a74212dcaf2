"""Reading the audit log: newest first, by keyset, so that page 2,000 is as quick as the first.

The audit log as files: CSV for spreadsheets, JSONL for programs; both line by line.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Q, QuerySet

from webapp.base.errors import InvalidInput
from webapp.base.spreadsheets import lines
from webapp.base.times import utc
from webapp.identity.audit.models import Event

if TYPE_CHECKING:
    from webapp.identity.accounts.models import Organisation, Project

PAGE_SIZE = 50
CHUNK = 2000  # rows that an export holds at a time
COLUMNS = ("id", "at", "actor", "verb", "kind", "key", "name", "project", "address", "detail")


@dataclass(frozen=True)
class EventFilter:
    """What is looked for; an empty text or None asks for nothing. Days are UTC's, both included."""

    person: str = ""
    verb: str = ""  # "run.launched", or all of a kind of thing: "run"
    object: str = ""  # its id, or a part of its name
    since: date | None = None
    until: date | None = None


def asked_by(query: Mapping[str, str]) -> EventFilter:
    """Out of an address. Raises InvalidInput (since, until) for what is no day."""
    texts = {name: query.get(name, "").strip()[:200] for name in ("person", "verb", "object")}
    return EventFilter(**texts, since=_day(query, "since"), until=_day(query, "until"))


def _day(query: Mapping[str, str], name: str) -> date | None:
    text = query.get(name, "").strip()
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidInput(name, f"{name}: a day is written like 2026-05-31.") from None


def events_of_project(project: "Project") -> QuerySet[Event]:
    """Everything of one project."""
    return Event.objects.filter(project=project)


def events_of_organisation(organisation: "Organisation") -> QuerySet[Event]:
    """Everything of an organisation and of all its projects, sign-ins of its people included."""
    return Event.objects.filter(organisation=organisation)


def narrowed(events: QuerySet[Event], asked: EventFilter) -> QuerySet[Event]:
    """Those that are asked for, newest first."""
    if asked.person:
        events = events.filter(actor_name=asked.person)
    if asked.verb:
        events = events.filter(_of_verb(asked.verb))
    if asked.object:
        events = _of_object(events, asked.object)
    if asked.since is not None:
        events = events.filter(at__gte=_midnight(asked.since))
    if asked.until is not None:
        events = events.filter(at__lt=_midnight(asked.until) + timedelta(days=1))
    return events.order_by("-at", "-id")


def _of_object(events: QuerySet[Event], text: str) -> QuerySet[Event]:
    """By its id, which an index finds; a part of a name is looked for in all events of the project."""
    by_id = events.filter(object_id=text)
    return by_id if by_id.exists() else events.filter(object_name__icontains=text)


def _of_verb(verb: str) -> Q:
    """One verb, or with a thing's kind alone all that happened to things of this kind."""
    kind = verb.rstrip(".")
    if "." in kind:
        return Q(verb=verb)
    return Q(verb__startswith=f"{kind}.") | Q(
        object_kind=kind
    )  # early events of reports have verbs without a kind


def _midnight(day: date) -> datetime:
    """The day's begin. A day after which there is none cannot be asked for."""
    return datetime.combine(min(day, date(9998, 12, 31)), time(), tzinfo=UTC)


def page_of(events: QuerySet[Event], *, before: int | None = None) -> tuple[list[Event], int | None]:
    """At most PAGE_SIZE events older than the one with the id `before`, and where the next page begins; None: nowhere.

    An id that is none begins with the newest.
    """
    found = list(_older_than(events, before).select_related("project")[: PAGE_SIZE + 1])
    shown = found[:PAGE_SIZE]
    return shown, shown[-1].pk if len(found) > PAGE_SIZE else None


def _older_than(events: QuerySet[Event], before: int | None) -> QuerySet[Event]:
    at = Event.objects.filter(pk=before).values_list("at", flat=True).first() if before is not None else None
    if at is None:
        return events
    return events.filter(Q(at__lt=at) | Q(at=at, id__lt=before), at__lte=at)


def rows_of(events: QuerySet[Event]) -> Iterator[dict[str, Any]]:
    """Each event as plain values (COLUMNS), newest first, read in chunks: an export of any size takes little memory."""
    for event in events.select_related("project").iterator(chunk_size=CHUNK):
        yield {
            "id": event.pk,
            "at": utc(event.at, exact=True),
            "actor": event.actor_name,
            "verb": event.verb,
            "kind": event.object_kind,
            "key": event.object_id,
            "name": event.object_name,
            "project": event.project.slug if event.project else "",
            "address": event.address or "",
            "detail": event.detail,
        }


def csv_lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """With a header; `detail` as JSON. No text becomes a formula in a spreadsheet."""
    yield lines([COLUMNS])
    for row in rows:
        cells = row | {"detail": json.dumps(row["detail"], ensure_ascii=False)}
        yield lines([[cells[name] for name in COLUMNS]])


def jsonl_lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """An object a line."""
    for row in rows:
        yield json.dumps(row, ensure_ascii=False) + "\n"
