"""Every write to the decision log. Nothing here changes a row that is stored."""

from django.db import IntegrityError, transaction

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import User
from webapp.identity.audit.services import record
from webapp.science.decisions.models import DecisionKind, Entry
from webapp.science.decisions.moment import moment_of
from webapp.science.decisions.selectors import Object, about_of

LONGEST = 4000  # characters of a reason
LONGEST_TARGET = 300  # of what a switch goes to


def decide(
    found: Object, *, user: User, kind: str, reason: str, to: str = "", key: str | None = None
) -> Entry:
    """Store what was decided of a run, prediction or study, with how it stands; the same `key` is the same entry.

    It changes nothing else: stopping a run is done on its page. to: what a switch goes to. Raises
    InvalidInput (kind, reason, to, key), and Conflict (key) where the key was used for another entry.
    """
    entry = Entry(
        project=found.project, decided_by=user, about=about_of(found), object_id=found.pk, kind=kind,
        reason=reason.replace("\r\n", "\n").strip(), to=to.strip(), key=key,
    )  # fmt: skip
    _check(entry)
    if before := _stored(entry):
        return before
    entry.name, entry.state = moment_of(found)
    try:
        with transaction.atomic():
            entry.save(force_insert=True)
            record(
                "decision.made", actor=user, project=entry.project, kind="decision", key=entry.pk, name=kind,
                about=entry.about, object=entry.object_id,
            )  # fmt: skip
    except IntegrityError:  # sent twice at once
        if before := _stored(entry):
            return before
        raise
    return entry


def _check(entry: Entry) -> None:
    if entry.kind not in DecisionKind.values:
        raise InvalidInput("kind", f"kind must be one of {', '.join(DecisionKind.values)}.")
    if not entry.reason:
        raise InvalidInput("reason", "A reason is required.")
    if len(entry.reason) > LONGEST:
        raise InvalidInput("reason", f"A reason must have at most {LONGEST:,} characters.")
    if len(entry.to) > LONGEST_TARGET:
        raise InvalidInput("to", f"What a switch goes to must have at most {LONGEST_TARGET} characters.")
    if bool(entry.to) != (entry.kind == DecisionKind.SWITCH):
        raise InvalidInput("to", "Say of a switch, and of nothing else, what it goes to.")
    if entry.key is not None and not 1 <= len(entry.key) <= 64:
        raise InvalidInput("key", "The key must have 1 to 64 characters.")


def _stored(entry: Entry) -> Entry | None:
    """What this key stored before. Raises Conflict where that was something else."""
    before = Entry.objects.filter(project=entry.project, key=entry.key).first() if entry.key else None
    said = ("decided_by_id", "about", "object_id", "kind", "reason", "to")
    if before is not None and any(getattr(before, name) != getattr(entry, name) for name in said):
        raise Conflict("This key was used for another decision.", field="key")
    return before
