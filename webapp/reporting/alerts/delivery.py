"""Sending what the outbox holds, and keeping book of it. Only the worker calls `deliver_due`.

A crash between sending and noting it sends again, with the same id in the header: at least once, told apart by the id.

Sending one message through one channel, and what came of it. Nothing is stored here.

The outbox: deliveries are written with what they carry, and claimed by workers one by one or as a digest.
"""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from smtplib import SMTPException, SMTPRecipientsRefused, SMTPSenderRefused
from uuid import uuid4

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models import F, Q
from django.urls import reverse
from django.utils import timezone

from webapp.base import claims, outbound, task_queue
from webapp.base.sealing import Unreadable, unseal
from webapp.identity.accounts.models import Role, User
from webapp.identity.accounts.permissions import role_in
from webapp.reporting.alerts import messages
from webapp.reporting.alerts.hours import quiet_of
from webapp.reporting.alerts.models import Channel, Delivery, Firing, Notice
from worker import names

FIRST_WAIT = timedelta(seconds=30)
LONGEST_WAIT = timedelta(hours=4)
MAX_TRIES = 13  # with the waits between them: some 20 hours
MOST_IN_DIGEST = 100
TIMEOUT_S = 10.0
TRY_AGAIN = {408, 425, 429}  # statuses of the caller's fault that may get better by waiting
NO_SERVER = "This server has no mail server: its operator sets HEADROOM_EMAIL_URL or HEADROOM_SMTP_HOST."
PAUSE_AFTER = 10  # failed tries in a row, of whatever deliveries
FINAL_COUNTS = 5  # a refusal for good counts as so many
KEPT = timedelta(days=1)  # what waited longer for a paused channel is no news


def enqueue(firing: Firing, channels: Iterable[Channel], now: datetime | None = None) -> None:
    """The firing's way through these channels, at once or after their quiet hours. Safe to repeat."""
    now = now or timezone.now()
    rows = []
    for channel in channels:
        through = firing.critical and channel.critical_through
        quiet = None if through else quiet_of(channel)
        until = quiet.until(now) if quiet is not None else None
        rows.append(Delivery(firing=firing, channel=channel, held=until is not None, next_at=until or now))
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)
    if any(not row.held for row in rows):
        task_queue.send(names.DELIVER)


def due(now: datetime | None = None) -> Q:
    """Deliveries that can be sent now."""
    now = now or timezone.now()
    return claims.is_free(now) & Q(state=Delivery.State.WAITING, next_at__lte=now, channel__paused_at=None)


@transaction.atomic
def claim(now: datetime | None = None) -> list[Delivery]:
    """Take one delivery, or all of a digest, for 60 s; empty where nothing is due. Of two workers each gets others.

    A digest keeps its members: it is the same one, with the same id, at its next try.
    """
    now = now or timezone.now()
    free = Delivery.objects.filter(due(now)).select_for_update(skip_locked=True, of=("self",))
    if (first := free.order_by("next_at", "created_at").first()) is None:
        return []
    rows = [first]
    if first.held:
        same = free.filter(channel=first.channel_id, held=True, batch=first.batch)
        rows = list(same.order_by("firing_id")[:MOST_IN_DIGEST])
    batch = first.batch or (uuid4() if first.held else None)
    Delivery.objects.filter(pk__in=[row.pk for row in rows]).update(
        claimed_until=now + claims.CLAIM, tries=F("tries") + 1, batch=batch
    )
    found = Delivery.objects.filter(pk__in=[row.pk for row in rows])
    return list(
        found.select_related("channel__owner", "firing__project", "firing__run", "firing__rule").order_by(
            "firing_id"
        )
    )


def wait_after(tries: int, chance: float | None = None) -> timedelta:
    """How long to wait after this many failed tries: doubling from 30 s to 4 h, give or take a fifth (by `chance`)."""
    chance = random.random() if chance is None else chance  # nosec B311  # no secret: it spreads retries
    return claims.wait_after(tries, first=FIRST_WAIT, longest=LONGEST_WAIT) * (0.8 + 0.4 * chance)


@dataclass(frozen=True)
class Outcome:
    """`status` of HTTP where there was an answer; `final`: trying again would not help; `seconds` it took."""

    ok: bool
    error: str = ""
    status: int | None = None
    final: bool = False
    seconds: float = 0.0


def send(channel: Channel, message: messages.Message) -> Outcome:
    """Send for real. Never raises for what the other side, the network or the stored address does wrong."""
    started = time.monotonic()
    try:
        outcome = _SENDERS[channel.kind](channel, unseal(channel.sealed_address), message)
    except (outbound.Refused, Unreadable) as error:
        outcome = Outcome(False, str(error)[:300], final=True)
    except outbound.Failed as error:
        outcome = Outcome(False, str(error)[:300])
    return Outcome(outcome.ok, outcome.error, outcome.status, outcome.final, time.monotonic() - started)


def _mail(channel: Channel, address: str, message: messages.Message) -> Outcome:
    if not settings.EMAIL_CONFIGURED:
        return Outcome(False, NO_SERVER)
    mail = EmailMessage(
        " ".join(message.title.split()), messages.as_text(message), settings.DEFAULT_FROM_EMAIL, [address],
        headers={messages.DELIVERY: message.id, "Auto-Submitted": "auto-generated"},
        connection=get_connection(timeout=TIMEOUT_S),
    )  # fmt: skip
    try:
        mail.send()
    except (SMTPRecipientsRefused, SMTPSenderRefused) as error:
        return Outcome(False, f"The mail server refused: {error}"[:300], final=True)
    except (SMTPException, OSError) as error:
        return Outcome(False, f"The mail server did not take it: {error or type(error).__name__}"[:300])
    return Outcome(True)


def _webhook(channel: Channel, url: str, message: messages.Message) -> Outcome:
    body = messages.as_json(message)
    headers = {
        "Content-Type": "application/json",
        messages.DELIVERY: message.id,
        messages.SIGNATURE: messages.signature(unseal(channel.sealed_secret), int(time.time()), body),
    }
    return _answered(outbound.request("POST", url, data=body, headers=headers, timeout_s=TIMEOUT_S))


def _slack(channel: Channel, url: str, message: messages.Message) -> Outcome:
    headers = {messages.DELIVERY: message.id}
    return _answered(
        outbound.request("POST", url, json=messages.as_slack(message), headers=headers, timeout_s=TIMEOUT_S)
    )


def _answered(response: outbound.Response) -> Outcome:
    if 200 <= response.status < 300:
        return Outcome(True, status=response.status)
    said = " ".join(response.body[:200].decode(errors="replace").split())
    error = f"It answered {response.status}{f': {said}' if said.isprintable() and said else ''}"
    final = 400 <= response.status < 500 and response.status not in TRY_AGAIN
    return Outcome(False, error[:300], response.status, final)


_SENDERS: dict[str, Callable[[Channel, str, messages.Message], Outcome]] = {
    Channel.Kind.MAIL: _mail,
    Channel.Kind.WEBHOOK: _webhook,
    Channel.Kind.SLACK: _slack,
}


def deliver_due(*, seconds: float = 40.0, now: datetime | None = None) -> int:
    """Send until nothing is due or the time is over; returns how many messages went out or failed."""
    until, done = time.monotonic() + seconds, 0
    while time.monotonic() < until and (rows := claim(now)):
        deliver(rows)
        done += 1
    return done


def deliver(rows: Sequence[Delivery]) -> None:
    """Send claimed deliveries of one channel as one message, as far as they may go, and note what came of it."""
    channel = rows[0].channel
    kept = [
        row for row in rows if channel.owner is None or role_in(channel.owner, row.firing.project) is not None
    ]
    if len(kept) < len(rows):
        Delivery.objects.filter(pk__in=[row.pk for row in rows if row not in kept]).update(
            state=Delivery.State.DROPPED,
            last_error="Its receiver is no member of the project any more.",
            claimed_until=None,
        )
    if not kept:
        return
    outcome = send(channel, message_of(kept))
    if outcome.ok:
        _sent(channel, kept, outcome)
    else:
        _failed(channel, kept, outcome)


def message_of(rows: Sequence[Delivery]) -> messages.Message:
    """The rows of one delivery, or of a digest, as they are sent."""
    items = [item_of(row.firing) for row in rows]
    return messages.Message(str(rows[0].batch or rows[0].pk), "digest" if len(rows) > 1 else "alert", items)


def item_of(firing: Firing) -> messages.Item:
    """A firing as it is sent."""
    return messages.Item(
        firing.rule_name, firing.project.name, firing.run_id, firing.text, absolute(firing.url), firing.critical,
        firing.happened_at, firing.rule.on if firing.rule else None, firing.episode,
    )  # fmt: skip


def absolute(path: str) -> str:
    """A path of this server as a link from elsewhere."""
    return f"{(settings.HEADROOM_URL or '').rstrip('/')}{path}"


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
    over = outcome.final or max(row.tries for row in rows) >= MAX_TRIES
    Delivery.objects.filter(pk__in=[row.pk for row in rows]).update(
        state=Delivery.State.FAILED if over else Delivery.State.WAITING,
        next_at=timezone.now() + wait_after(max(row.tries for row in rows)),
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
