"""Reading the audit log: newest first, by keyset, so that page 2,000 is as quick as the first.

The audit log as files: CSV for spreadsheets, JSONL for programs; both line by line.

What verbs of the audit log mean in words, for its page. A verb that is not here is shown as it is.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Q, QuerySet

from webapp.base.errors import InvalidInput
from webapp.base.formats import lines, utc
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
    if not (text := query.get(name, "").strip()):
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


WORDS = {
    "account.changed": "changed account",
    "account.made": "made account",
    "alert_channel.changed": "changed channel",
    "alert_channel.created": "made channel",
    "alert_channel.deleted": "deleted channel",
    "alert_channel.resumed": "ended the pause of channel",
    "alert_channel.tested": "sent a test through channel",
    "alert_rule.changed": "changed alert rule",
    "alert_rule.created": "made alert rule",
    "alert_rule.deleted": "deleted alert rule",
    "alert_rule.turned_off": "turned off alert rule",
    "alert_rule.turned_on": "turned on alert rule",
    "audit.exported": "exported the audit log of",
    "decision.made": "decided:",
    "decision.noted": "added a note to decision",
    "example.removed": "removed example project",
    "identity.linked": "linked another way to sign in to",
    "identity.unlinked": "unlinked a way to sign in to",
    "import.finished": "finished the import of",
    "import.resumed": "resumed the import of",
    "import.started": "started the import of",
    "import.stopped": "could not import all of",
    "invitation.accepted": "accepted the invitation of",
    "invitation.made": "invited",
    "invitation.revoked": "took back the invitation of",
    "member.added": "added",
    "member.left": "left:",
    "member.removed": "removed",
    "member.role_changed": "changed the role of",
    "organisation.created": "made organisation",
    "organisation.owner_added": "made an owner of",
    "organisation.owner_removed": "ended the ownership of",
    "organisation.renamed": "renamed organisation",
    "passkey.added": "registered a passkey of",
    "passkey.removed": "removed a passkey of",
    "password.changed": "changed the password of",
    "password.link_made": "made a link for a new password of",
    "password.reset": "set by a link the password of",
    "prediction.comment_edited": "edited a comment on the prediction of",
    "prediction.comment_reopened": "reopened a thread on the prediction of",
    "prediction.comment_resolved": "resolved a thread on the prediction of",
    "prediction.commented": "commented on the prediction of",
    "prediction.frozen": "froze a prediction of",
    "prediction.resubmitted": "froze a changed prediction of",
    "prediction.review_asked": "asked for reviews of the prediction of",
    "prediction.reviewed": "reviewed the prediction of",
    "prediction.scored": "scored the prediction of",
    "prediction.withdrawn": "withdrew the prediction of",
    "project.changed": "changed project",
    "project.created": "created project",
    "project.exported": "exported project",
    "project.imported": "imported project",
    "project.queue_changed": "changed the places and the quota of project",
    "recipe.created": "created recipe",
    "recipe.revised": "revised recipe",
    "report.archived": "archived report",
    "report.created": "began report",
    "report.published": "published report",
    "report.unarchived": "unarchived report",
    "report.unpublished": "withdrew report",
    "run.archived": "archived run",
    "run.changed": "changed what is said of run",
    "run.deleted": "deleted run",
    "run.draft_deleted": "deleted draft",
    "run.drafted": "saved draft of run",
    "run.extended": "extended the budget of run",
    "run.files_deleted": "deleted files of",
    "run.meaning_stated": "said what the metrics mean of run",
    "run.launched": "launched run",
    "run.priority_changed": "changed the priority of run",
    "run.restored": "brought back deleted run",
    "run.resumed": "resumed run",
    "run.evaluated": "asked for a benchmark of run",
    "run.evaluation_cancelled": "cancelled a benchmark of run",
    "run.stopped": "stopped run",
    "run.tagged": "tagged run",
    "run.tracked": "began to track run",
    "run.unarchived": "unarchived run",
    "policy.changed": "changed what stops runs in",
    "retention.changed": "changed what is cleaned up in",
    "run.advised_by_policy": "advised by policy to stop run",
    "run.checkpoints_removed": "removed checkpoints of run",
    "run.stopped_by_policy": "stopped by policy the run",
    "run.untagged": "took a tag off run",
    "run.warned_by_policy": "warned by policy about run",
    "secret.deleted": "deleted secret",
    "secret.replaced": "replaced secret",
    "secret.set": "set secret",
    "share.closed": "closed link",
    "share.made": "made link",
    "sign_in.failed": "sign-in refused:",
    "sign_in.locked_out": "sign-in locked:",
    "sign_in.succeeded": "signed in:",
    "study.archived": "archived study",
    "study.created": "created study",
    "study.renamed": "renamed study",
    "study.run_added": "added a run to study",
    "study.run_removed": "took a run out of study",
    "study.seeds_launched": "launched seeds of study",
    "study.stopped": "stopped the runs of study",
    "study.unarchived": "unarchived study",
    "token.created": "made API token",
    "token.revoked": "revoked API token",
    "two_factor.codes_renewed": "renewed the recovery codes of",
    "two_factor.disabled": "turned off the two-factor sign-in of",
    "two_factor.enabled": "turned on the two-factor sign-in of",
    "view.shared": "shared view",
    "view.unshared": "stopped sharing view",
}


def words_of(verb: str, kind: str) -> str:
    """ "launched run"; of an unknown verb its own words ("prediction: frozen")."""
    if (known := WORDS.get(verb)) is not None:
        return known
    _, _, rest = verb.rpartition(".")
    return f"{kind.replace('_', ' ')}: {rest.replace('_', ' ')}:"


def detail_words(detail: dict) -> str:
    """ "role: viewer → admin, days: 7": what is stored beside the event, in its order."""
    return ", ".join(f"{_name(name)}{_value(value)}" for name, value in detail.items())


def _name(name: str) -> str:
    """A revision says what it is: "ScaleRL rev 2"."""
    return "" if name == "revision" else f"{name.replace('_', ' ')}: "


def _value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return detail_words(value)
    if isinstance(value, list):
        return " → ".join(str(one) for one in value) if len(value) == 2 else ", ".join(map(str, value))
    return str(value)
