"""What the worker and the Ray cluster say of themselves now: asked with a time-out, remembered for some seconds."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
from django.conf import settings
from django.core.cache import cache

from stack import environment
from webapp.api import health

CACHED_SECONDS = 15
ALIVE = "ALIVE"
_askers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="cluster")


@dataclass(frozen=True)
class Cluster:
    """`worker`, `ray`: as /healthz says it. `gpus`, `cpus`: of all nodes together; None where Ray did not say."""

    worker: str
    ray: str
    gpus: int | None = None
    cpus: int | None = None

    @property
    def troubles(self) -> list[str]:
        """What keeps launched runs from starting, as sentences."""
        return [TROUBLES[part](answer) for part, answer in self._answers().items() if answer != health.OK]

    def _answers(self) -> dict[str, str]:
        return {"worker": self.worker, "ray": self.ray}


def _worker_trouble(answer: str) -> str:
    if answer == health.NOT_CONFIGURED:
        return "No broker is configured, so no worker hands runs to Ray: launched runs wait until one does."
    return "The worker does not answer: launched runs wait, and curves are not refitted, until it is back."


def _ray_trouble(answer: str) -> str:
    if answer == health.NOT_CONFIGURED:
        return "No Ray cluster is known: launched runs wait until there is one (make up starts one here)."
    return f"Ray cannot be asked ({answer}): what the cluster has is not known, and launched runs wait."


TROUBLES: dict[str, Callable[[str], str]] = {"worker": _worker_trouble, "ray": _ray_trouble}


def cluster_now() -> Cluster:
    """At most a second; the same answer for the next CACHED_SECONDS."""
    key = f"cluster-{hash((settings.CELERY_BROKER_URL, environment.services().ray_address))}"
    known = cache.get(key)
    if known is None:
        known = _ask()
        cache.set(key, known, CACHED_SECONDS)
    return known


def _ask() -> Cluster:
    worker, ray = _askers.submit(health.worker), _askers.submit(health.ray)
    nodes = _askers.submit(_amounts) if environment.services().ray_address else None
    amounts = nodes.result() if nodes else None
    if amounts is None:
        return Cluster(worker.result(), ray.result())
    return Cluster(worker.result(), ray.result(), round(amounts.get("GPU", 0)), round(amounts.get("CPU", 0)))


def _amounts() -> dict[str, float] | None:
    """Resources of all nodes that are alive; None where Ray does not say."""
    address = environment.services().ray_address or ""
    url = address.rstrip("/") if "://" in address else f"http://{address}"
    try:
        response = httpx.get(f"{url}/api/v0/nodes", headers=health.ray_headers(), timeout=health.PART_SECONDS)
        return sum_of_nodes(response.json()) if response.is_success else None
    except (httpx.HTTPError, ValueError):
        return None


def sum_of_nodes(answer: Any) -> dict[str, float] | None:
    """Resources of Ray's answer for its nodes, summed over those that are alive; None for another answer."""
    total: Counter[str] = Counter()
    try:
        for node in answer["data"]["result"]["result"]:
            if node["state"] == ALIVE:
                total.update({name: float(amount) for name, amount in node["resources_total"].items()})
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return dict(total)
