"""Work that stands in rows: a worker takes one for a while (`claimed_until`), and tries what failed again later."""

from datetime import datetime, timedelta

from django.db.models import Q

CLAIM = timedelta(seconds=60)


def is_free(now: datetime) -> Q:
    """Rows that no worker has: a claim that ran out may be taken over."""
    return Q(claimed_until=None) | Q(claimed_until__lt=now)


def wait_after(tries: int, *, first: timedelta, longest: timedelta, factor: int = 2) -> timedelta:
    """How long to wait after this many failed tries: `first`, then `factor` times as long each, up to `longest`."""
    return min(longest, first * factor ** min(max(tries, 1) - 1, 20))
