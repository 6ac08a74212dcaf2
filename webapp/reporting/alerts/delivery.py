"""Sending what the outbox holds, and keeping book of it. Only the worker calls `deliver_due`.

A crash between sending and noting it sends again, with the same id in the header: at least once, told apart by the id.
"""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.urls import reverse
from django.utils import timezone

from webapp.identity.accounts.models import Role, User
from webapp.identity.accounts.permissions import role_in
from webapp.reporting.alerts import outbox, senders
from webapp.reporting.alerts.messages import Item, Message
from webapp.reporting.alerts.models import Channel, Delivery, Firing, Notice
from webapp.reporting.alerts.senders import Outcome

PAUSE_AFTER = 10  # failed tries in a row, of whatever deliveries
FINAL_COUNTS = 5  # a refusal for good counts as so many
KEPT = timedelta(days=1)  # what waited longer for a paused channel is no news


def deliver_due(*, seconds: float = 40.0, now: datetime | None = None) -> int:
    """Send until nothing is due or the time is over; returns how many messages went out or failed."""
    until, done = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        rows = outbox.claim(now)
        if not rows:
            break
        deliver(rows)
        done += 1
    return done


def deliver(rows: Sequence[Delivery]) -> Outcome | None:
    """Send claimed deliveries of one channel as one message and note what came of it; None where none may go."""
    channel = rows[0].channel
    kept = [row for row in rows if _still_member(channel, row.firing)]
    _drop([row for row in rows if row not in kept], "Its receiver is no member of the project any more.")
    if not kept:
        return None
    outcome = senders.send(channel, message_of(kept))
    if outcome.ok:
        _sent(channel, kept, outcome)
    else:
        _failed(channel, kept, outcome)
    return outcome


def message_of(rows: Sequence[Delivery]) -> Message:
    """The rows of one delivery, or of a digest, as they are sent."""
    items = [item_of(row.firing) for row in rows]
    return Message(str(rows[0].batch or rows[0].pk), "digest" if len(rows) > 1 else "alert", items)


def item_of(firing: Firing) -> Item:
    """A firing as it is sent."""
    return Item(
        firing.rule_name, firing.project.name, firing.run_id, firing.text, absolute(firing.url), firing.critical,
        firing.happened_at, firing.rule.on if firing.rule else None, firing.episode,
    )  # fmt: skip


def absolute(path: str) -> str:
    """A path of this server as a link from elsewhere."""
    return f"{(settings.HEADROOM_URL or '').rstrip('/')}{path}"


def _still_member(channel: Channel, firing: Firing) -> bool:
    return channel.owner is None or role_in(channel.owner, firing.project) is not None


def _drop(rows: Sequence[Delivery], why: str) -> None:
    if rows:
        Delivery.objects.filter(pk__in=[row.pk for row in rows]).update(
            state=Delivery.State.DROPPED, last_error=why, claimed_until=None
        )


@transaction.atomic
def _sent(channel: Channel, rows: Sequence[Delivery], outcome: Outcome) -> None:
    now = timezone.now()
    Delivery.objects.filter(pk__in=[row.pk for row in rows]).update(
        state=Delivery.State.SENT, sent_at=now, claimed_until=None, last_error="", last_status=outcome.status
    )
    Channel.objects.filter(pk=channel.pk).update(failures=0, last_error="", sent_at=now)


@transaction.atomic
def _failed(channel: Channel, rows: Sequence[Delivery], outcome: Outcome) -> None:
    """Later again, unless that would not help or it was tried often enough; a channel that keeps failing is paused."""
    over = outcome.final or max(row.tries for row in rows) >= outbox.MAX_TRIES
    Delivery.objects.filter(pk__in=[row.pk for row in rows]).update(
        state=Delivery.State.FAILED if over else Delivery.State.WAITING,
        next_at=timezone.now() + outbox.wait_after(max(row.tries for row in rows)),
        claimed_until=None,
        last_error=outcome.error,
        last_status=outcome.status,
    )
    Channel.objects.filter(pk=channel.pk).update(
        failures=F("failures") + (FINAL_COUNTS if outcome.final else 1), last_error=outcome.error
    )
    paused = Channel.objects.filter(pk=channel.pk, paused_at=None, failures__gte=PAUSE_AFTER).update(
        paused_at=timezone.now()
    )
    if paused:
        _tell_paused(channel, rows[0].firing, outcome)


def _tell_paused(channel: Channel, firing: Firing, outcome: Outcome) -> None:
    """To the page only: to the channel's owner, or to the admins of its project."""
    people: Sequence[User] = [channel.owner] if channel.owner is not None else []
    if channel.project is not None:
        admins = channel.project.memberships.filter(role=Role.ADMIN, user__is_active=True).select_related(
            "user"
        )
        people = [row.user for row in admins]
    text = f"The channel {channel.name} is paused after repeated failure: {outcome.error}"[:300]
    Notice.objects.bulk_create(
        [
            Notice(
                user=person,
                project=channel.project or firing.project,
                kind="channel_paused",
                text=text,
                url=reverse("alerts"),
            )
            for person in people
        ]
    )


def drop_old(now: datetime | None = None) -> int:
    """What waited for a paused channel for more than a day is given up; returns how many."""
    now = now or timezone.now()
    stale = Delivery.objects.filter(
        state=Delivery.State.WAITING, channel__paused_at__isnull=False, next_at__lt=now - KEPT
    )
    return Delivery.objects.filter(pk__in=stale.values("pk")).update(
        state=Delivery.State.DROPPED, last_error="Its channel was paused for more than a day."
    )
