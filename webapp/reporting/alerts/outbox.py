"""The outbox: deliveries are written with what they carry, and claimed by workers one by one or as a digest."""

import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import uuid4

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from webapp.base import claims, nudge
from webapp.reporting.alerts.hours import quiet_of
from webapp.reporting.alerts.models import Channel, Delivery, Firing
from worker import names

FIRST_WAIT = timedelta(seconds=30)
LONGEST_WAIT = timedelta(hours=4)
MAX_TRIES = 13  # with the waits between them: some 20 hours
MOST_IN_DIGEST = 100


def enqueue(firing: Firing, channels: Iterable[Channel], now: datetime | None = None) -> list[Delivery]:
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
        nudge.send(names.DELIVER)
    return rows


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
    first = free.order_by("next_at", "created_at").first()
    if first is None:
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
