"""How long a trainer's client should gather records before its next batch, so that many runs do not mean many requests.

A request costs the server much the same whether it brings one record or fifty. So the batches a second are held at
`HEADROOM_BATCHES_PER_SECOND`: the more runs report, the longer each gathers. With few runs nobody waits, and their
charts follow within a second.
"""

import random
from datetime import timedelta

from django.conf import settings
from django.core.cache import cache
from django.utils import timezone

from webapp.record.runs.models import Run, State

LEAST_SECONDS = 0.2  # what clients take where nothing is said
MOST_SECONDS = 30.0  # below the 60 s of silence after which a run that was launched here is asked about
REPORTED_WITHIN = timedelta(seconds=90)
LOOK_SECONDS = 5  # how often a process counts
SPREAD = 0.2  # clients that began together do not come together for ever
_KEY = "runs-that-report"


def gather_seconds(runs: int, batches_per_second: float) -> float:
    """Seconds that each of so many runs gathers, so that all of them together keep to the rate as far as they may."""
    return min(max(LEAST_SECONDS, runs / batches_per_second), MOST_SECONDS)


def asked_of_a_client() -> float:
    """What the answer to a batch says, in seconds: of the runs that report now, up to a fifth more or less."""
    seconds = gather_seconds(reporting_runs(), settings.BATCHES_PER_SECOND)
    if seconds > LEAST_SECONDS:
        seconds *= random.uniform(1 - SPREAD, 1 + SPREAD)  # nosec B311  # spreads requests
    return round(min(max(LEAST_SECONDS, seconds), MOST_SECONDS), 2)


def reporting_runs() -> int:
    """How many running runs have spoken lately; counted at most every few seconds in each process."""
    known = cache.get(_KEY)
    if known is None:
        known = count_reporting_runs()
        cache.set(_KEY, known, timeout=LOOK_SECONDS)
    return known


def count_reporting_runs() -> int:
    """One look at the index of running runs."""
    since = timezone.now() - REPORTED_WITHIN
    return Run.objects.filter(state=State.RUNNING, heartbeat_at__gte=since).count()
