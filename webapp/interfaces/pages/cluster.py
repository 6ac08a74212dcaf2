"""What stands between a launch and its start: the worker, asked with a time-out and remembered for some seconds, and
the Ray cluster as a worker last saw it. Ray itself is asked by no page."""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.core.cache import cache
from django.utils import timezone

from stack import environment
from webapp.interfaces.api import health
from webapp.interfaces.pages.ages import duration
from webapp.record.health.models import ClusterSeen
from webapp.reporting.status.troubles import CLUSTER_OLD

CACHED_SECONDS = 15
NOT_SEEN, REFUSES, OLD = "not seen", "refuses", "old"


@dataclass(frozen=True)
class Cluster:
    """`worker`: as /healthz says it. `ray`: the same, or NOT_SEEN, REFUSES, OLD, by what a worker wrote down.

    `gpus`, `cpus`: of all nodes that were alive `age` ago; None where none was, or no worker has ever seen them.
    """

    worker: str
    ray: str
    gpus: int | None = None
    cpus: int | None = None
    age: timedelta | None = None

    @property
    def troubles(self) -> list[str]:
        """What keeps launched runs from starting, as sentences."""
        found = [_worker_trouble(self.worker)] if self.worker != health.OK else []
        return found + ([RAY_TROUBLES[self.ray] + self._before] if self.ray != health.OK else [])

    @property
    def _before(self) -> str:
        """Not in seconds: the overview would say something new each time that it looks."""
        if self.age is None or self.age < CLUSTER_OLD:
            return ""
        return f" What is known of its nodes is {duration(self.age)} old."


def _worker_trouble(answer: str) -> str:
    if answer == health.NOT_CONFIGURED:
        return "No broker is configured, so no worker hands runs to Ray: launched runs wait until one does."
    return "The worker does not answer: launched runs wait, and curves are not refitted, until it is back."


RAY_TROUBLES = {
    health.NOT_CONFIGURED: "No Ray cluster is known: launched runs wait until there is one (make up starts one here).",
    NOT_SEEN: "What the cluster has is not known: no worker has seen it yet.",
    REFUSES: "Ray does not tell the worker how its nodes are: launched runs wait.",
    OLD: "No worker has asked Ray lately how its nodes are.",
}


def cluster_now() -> Cluster:
    """One query, and at most a second for the worker; its answer holds for the next CACHED_SECONDS."""
    seen = ClusterSeen.objects.first()
    worker, ray = _worker(), _ray(seen)
    if seen is None or seen.seen_at is None:
        return Cluster(worker, ray)
    alive = [node for node in seen.nodes if node["alive"]]
    if not alive:  # a cluster that is away or starts, not one that is too small
        return Cluster(worker, ray)
    gpus, cpus = (sum(node[kind] for node in alive) for kind in ("gpus", "cpus"))
    return Cluster(worker, ray, gpus, cpus, timezone.now() - seen.seen_at)


def _worker() -> str:
    key = f"worker-{hash(settings.CELERY_BROKER_URL)}"
    known = cache.get(key)
    if known is None:
        known = health.worker()
        cache.set(key, known, CACHED_SECONDS)
    return known


def _ray(seen: ClusterSeen | None) -> str:
    if seen is None or seen.error:
        if not environment.services().ray_address:
            return health.NOT_CONFIGURED
        return REFUSES if seen else NOT_SEEN
    return OLD if timezone.now() - seen.asked_at > CLUSTER_OLD else health.OK
