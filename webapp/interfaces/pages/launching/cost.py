"""What a launch costs and how long it waits, in words, and from what each number is known. Pure functions.

What stands between a launch and its start: the worker, asked with a time-out and remembered for some seconds, and
the Ray cluster as a worker last saw it. Ray itself is asked by no page.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.utils import timezone

from stack import environment
from training.schema import Recipe
from webapp.interfaces.api import health
from webapp.interfaces.pages.ages import duration
from webapp.record.health.models import ClusterSeen
from webapp.record.runs.pace import Pace, Range
from webapp.record.runs.places import Prospect
from webapp.reporting.status.troubles import CLUSTER_OLD
from webapp.science.curves import words

CACHED_SECONDS = 15
NOT_SEEN, REFUSES, OLD = "not seen", "refuses", "old"
RAY_TROUBLES = {
    health.NOT_CONFIGURED: "No Ray cluster is known: launched runs wait until there is one (make up starts one here).",
    NOT_SEEN: "What the cluster has is not known: no worker has seen it yet.",
    REFUSES: "Ray does not tell the worker how its nodes are: launched runs wait.",
    OLD: "No worker has asked Ray lately how its nodes are.",
}
Payload = dict[str, Any]
LEVELS = ("least", "middle", "greatest")


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


def devices_words(recipe: Recipe) -> str:
    """ "2 CPU cores", "80 GPUs"."""
    count = recipe.resources.devices
    has_gpus = bool(recipe.resources.generator_gpus + recipe.resources.trainer_gpus)
    return words.count(count, "GPU" if has_gpus else "CPU core")


def cost(recipe: Recipe, num_runs: int, pace: Pace | None, recipe_name: str) -> Payload:
    """Compute, time and what is done with it. `lines`: (what, value, remark)."""
    hours, devices = recipe.budget.device_hours, recipe.resources.devices
    training = hours / devices
    total = f"{words.count(num_runs, 'run')} × {words.amount(hours)}" if num_runs > 1 else "one run"
    each = " each" if num_runs > 1 else ""
    lines = [
        (
            "Compute",
            f"{words.amount(num_runs * hours)} device-hours",
            f"{total} on {devices_words(recipe)}{each}",
        ),
        ("Training, by the clock", _hours(training), "budget ÷ devices; start and evaluation come on top"),
    ]
    if pace is not None:
        lines.append(
            ("With evaluation", _span(pace.overhead * training, _hours), "a run, from its start to its end")
        )
        lines += _counts(recipe, pace)
    return {"lines": lines, "source": _source(pace, recipe, recipe_name), "known": pace is not None}


def _hours(value: float) -> str:
    return duration(timedelta(hours=value))


def _counts(recipe: Recipe, pace: Pace) -> list[tuple[str, str, str]]:
    hours, limit = recipe.budget.device_hours, recipe.budget.max_steps
    lines = []
    for name, rate in (("Updates", pace.steps), ("Tokens", pace.tokens), ("FLOPs", pace.flops)):
        if rate is not None:
            early = name == "Updates" and limit is not None and rate.middle * hours > limit
            remark = f"stops at {limit:,} updates, before the budget is spent" if early else "a run"
            lines.append((name, f"about {_span(rate * hours, _count)}", remark))
    return lines


def _count(value: float) -> str:
    return words.amount(value) if value >= 100 else f"{value:.0f}"


def _span(range_: Range, show: Any) -> str:
    """The median, and the ends where they read differently."""
    least, middle, greatest = (show(getattr(range_, level)) for level in LEVELS)
    return middle if least == greatest else f"{middle} ({least} to {greatest})"


def _source(pace: Pace | None, recipe: Recipe, recipe_name: str) -> str:
    where = f"on {recipe.task.name} with {recipe.model}"
    if pace is None:
        return f"No run {where} has ended well yet, so nothing is known of updates, tokens or the time of evaluations."
    of = f"of {recipe_name}" if pace.same_recipe else "of other recipes"
    return (
        f"Measured on {words.count(pace.runs, 'run')} {of} {where} that ended well; "
        "settings that differ from theirs may change it."
    )


def wait(num_runs: int, prospect: Prospect, cluster: Cluster) -> Payload:
    """Sentences on what stands between the launch and its start. `level`: "", "warn" or "bad"."""
    said, level = list(cluster.troubles), "warn" if cluster.troubles else ""
    if prospect.undelivered:
        reason = prospect.undelivered.rstrip(".")
        said.append(f"The last hand-over to Ray failed and is tried again: {reason}.")
        level = "warn"
    if prospect.in_vain:
        return {"sentences": [*said, f"It {prospect.waits}: it would wait in vain."], "level": "bad"}
    if cluster.gpus is None:
        said += [] if said else ["What the cluster has is not known."]
    else:
        said.append(_place(num_runs, prospect))
    return {"sentences": said, "level": level}


def _place(num_runs: int, prospect: Prospect) -> str:
    at_once = prospect.handed_over
    if at_once == num_runs:
        return (
            "There is room: the worker hands it over at once." if num_runs == 1 else "There is room for all."
        )
    who = f"{at_once} of {num_runs} {'goes' if at_once == 1 else 'go'} at once, the next" if at_once else "It"
    return f"{who} {prospect.waits}."
