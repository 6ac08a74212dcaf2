"""The rows of the kill matrix: what is broken, where it shows, and what the run may come to."""

from dataclasses import dataclass

from tests.chaos import victims
from tests.chaos.victims import Find

MOMENTS = ("launching", "mid", "finishing")


@dataclass(frozen=True)
class Part:
    """`find`: its processes; None where it is no process. `waits`: it exists only once the run has begun to start.

    `health`: the word of /healthz that shows its end, or "web". `reason`: what the run's page may give as the reason
    for the end of an attempt, a regular expression; empty where the attempt has to go on.
    """

    words: str
    find: Find | None
    waits: bool = False
    health: str = ""
    reason: str = ""


GONE = r"killed|signal|exit code|died"

PARTS = {
    "web": Part("web server", victims.web, health="web"),
    "worker": Part("Celery worker", victims.worker, health="worker"),
    "beat": Part("beat", victims.beat),
    "redis": Part("Redis", victims.redis, health="broker"),
    "redis-data": Part("Redis, losing all its data", victims.redis_with_data, health="broker"),
    "postgres": Part("PostgreSQL", victims.postgres, health="database"),
    "ray": Part("Ray head", victims.ray_head, health="ray", reason=r"Ray|cluster|" + GONE),
    "driver": Part("job driver", victims.driver, waits=True, reason=GONE),
    "generator": Part("generator", victims.generator, waits=True, reason=rf"generator 0.*({GONE})"),
    "trainer": Part("trainer", victims.trainer, waits=True, reason=rf"trainer rank 0.*({GONE})"),
    "reward": Part("reward process", victims.reward, waits=True, reason=r"rewards' process"),
    "sender": Part("client's sender, with records unsent", victims.driver, waits=True, reason=GONE),
    "network": Part("network between trainer and web server", None),
    "disk": Part("disk of the journal, full", None, reason=r"cannot be written|No space left"),
}
SHORT = (("driver", "mid"),)
