"""What is wrong with a configuration, each problem beside its setting, and whether a run of it can begin.

What a launch costs and how long it waits, in words, and from what each number is known. Pure functions.

What stands between a launch and its start: the worker, asked with a time-out and remembered for some seconds, and
the Ray cluster as a worker last saw it. Ray itself is asked by no page.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.utils import timezone
from pydantic import ValidationError

from stack import environment
from training.hints import Hint, hints
from training.recipe import RecipeError, check_runnable, content_hash
from training.schema import Recipe
from webapp.base.errors import InvalidInput, sentence
from webapp.base.formats import strange
from webapp.interfaces.api import health
from webapp.interfaces.pages.launching.specs import Config, by_path, sections
from webapp.interfaces.pages.marks import duration
from webapp.record.health.models import ClusterSeen, LastRound
from webapp.record.recipes.selectors import parameters_of
from webapp.record.recipes.services import check_model_place, misplaced
from webapp.record.runs.bounds import check_budget
from webapp.record.runs.pace import Pace, Range
from webapp.record.runs.places import Prospect
from webapp.reporting.troubles import CLUSTER_OLD
from webapp.science.curves import words

LIVE_PATIENCE_SECONDS = 0.5  # for data of the hub, while a person types; the download goes on
CACHED_SECONDS = 15
WHOLE_NUMBER = re.compile(r"(\d+)\.0\b")
TOP = ""  # the key of problems that belong to no single setting


@dataclass
class Checked:
    """The outcome. `problems`: path -> sentences; a key may also be a section, or TOP. `recipe`: None where invalid."""

    recipe: Recipe | None = None
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    hints: list[Hint] = field(default_factory=list)
    parameters: int | None = None  # of the model; None: not known

    def add(self, path: str, message: str) -> None:
        """One more problem, as a sentence."""
        self.problems[path].append(as_sentence(message))

    @property
    def on_top(self) -> list[str]:
        """What belongs to no single setting, with the section that it is about."""
        titles = {section.key: section.title for section in sections()}
        return [
            f"{titles[key]}: {message[0].lower()}{message[1:]}" if key in titles else message
            for key, messages in self.problems.items()
            if key not in by_path()
            for message in messages
        ]


def as_sentence(text: str) -> str:
    """With a capital and a full stop; names of settings and repositories keep their small letter."""
    first = text.split(" ", 1)[0]
    is_name = "_" in first or "/" in first or "." in first.rstrip(".,:")
    start = text[:1] if is_name else text[:1].upper()
    return f"{start}{text[1:]}".rstrip(".") + "."


def check(config: Config, *, live: bool) -> Checked:
    """All problems of a configuration at once; where there are none, whether a run of it can begin, and hints.

    `live`: while a person types. What is slow to find out (data, model) is then remembered for some seconds.
    """
    checked = Checked()
    if problem := strange(config):
        checked.add(TOP, f"the configuration {problem}")
        return checked
    try:
        checked.recipe = Recipe.model_validate(config)
    except ValidationError as error:
        for found in error.errors():
            checked.add(path_of(found["loc"]), _words(dict(found)))
        return checked
    try:
        check_budget(checked.recipe.budget.device_hours)
    except InvalidInput as error:  # nothing more is known of a run that is never accepted
        checked.add("budget.device_hours", error.message.removeprefix("budget_hours "))
        checked.recipe = None
        return checked
    found_problem = _remembered(checked.recipe) if live else runnable_problem(checked.recipe)
    if found_problem is not None:
        checked.add(*found_problem)
    checked.parameters = parameters_of(checked.recipe.model)
    checked.hints = hints(checked.recipe, checked.parameters)
    return checked


def path_of(location: tuple[Any, ...]) -> str:
    """The setting that a place in a configuration belongs to, else its section, else TOP."""
    names = [str(part) for part in location]
    for length in range(len(names), 0, -1):
        if (path := ".".join(names[:length])) in by_path():
            return path
    return names[0] if names and names[0] in {section.key for section in sections()} else TOP


def _words(problem: dict[str, Any]) -> str:
    cause = (problem.get("ctx") or {}).get("error")
    if problem["type"] == "value_error" and cause is not None:
        return str(cause)
    unknown = problem["type"] == "extra_forbidden" or path_of(problem["loc"]) == TOP
    item = next((part for part in problem["loc"] if isinstance(part, int)), None)
    where = (
        ".".join(map(str, problem["loc"])) + " "
        if unknown
        else f"item {item + 1} "
        if item is not None
        else ""
    )
    return where + WHOLE_NUMBER.sub(r"\1", sentence(problem))


def runnable_problem(recipe: Recipe, *, patience: float | None = None) -> tuple[str, str] | None:
    """(setting, why a run could not begin), or None: task, its data, the model, this machine's engine and devices."""
    if wrong := misplaced(recipe):
        return wrong
    try:
        check_model_place(recipe.model)
        if patience is None:
            check_runnable(recipe, settings.HEADROOM_HOME)
        else:
            check_runnable(recipe, settings.HEADROOM_HOME, patience=patience)
    except RecipeError as error:
        return setting_of(error.field, error.reason), error.reason
    return None


def setting_of(field_name: str, reason: str) -> str:
    """The setting that an error of the training code is about."""
    if field_name == "task":
        return "task.options" if reason.startswith("option ") else "task.name"
    if field_name.startswith("config."):
        field_name = field_name.removeprefix("config.")
    return path_of(tuple(field_name.split("."))) if field_name else TOP


def _remembered(recipe: Recipe) -> tuple[str, str] | None:
    """As `runnable_problem`, asked once in a while for the same settings. Any of them may decide what fits."""
    key = f"runnable-{content_hash(recipe)}"
    ask = lambda: [runnable_problem(recipe, patience=LIVE_PATIENCE_SECONDS)]
    return cache.get_or_set(key, ask, CACHED_SECONDS)[0]  # type: ignore[index]


NOT_SEEN, REFUSES, OLD, SILENT = "not seen", "refuses", "old", "does not answer"
NO_WORKER = "The worker does not answer: launched runs wait, and curves are not refitted, until it is back."
WORKER_TROUBLES = {health.NOT_CONFIGURED: "No broker is configured: launched runs wait."}
RAY_TROUBLES = {
    health.NOT_CONFIGURED: "No Ray cluster is known: launched runs wait (make up starts one).",
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
        found = [] if self.worker == health.OK else [WORKER_TROUBLES.get(self.worker, NO_WORKER)]
        if self.ray == health.OK:
            return found
        if (
            self.age is None or self.age < CLUSTER_OLD
        ):  # in seconds, the overview would say something new each time
            return [*found, RAY_TROUBLES[self.ray]]
        return [*found, f"{RAY_TROUBLES[self.ray]} What is known of its nodes is {duration(self.age)} old."]


def cluster_now(*, asks_worker: bool = True) -> Cluster:
    """One query, and at most a second for the worker; its answer holds for the next CACHED_SECONDS. Where it is not
    asked, a second query."""
    seen = ClusterSeen.objects.first()
    worker, ray = _worker() if asks_worker else _worker_noted(), _ray(seen)
    if seen is None or seen.seen_at is None:
        return Cluster(worker, ray)
    alive = [node for node in seen.nodes if node["alive"]]
    if not alive:  # a cluster that is away or starts, not one that is too small
        return Cluster(worker, ray)
    gpus, cpus = (sum(node[kind] for node in alive) for kind in ("gpus", "cpus"))
    return Cluster(worker, ray, gpus, cpus, timezone.now() - seen.seen_at)


def _worker() -> str:
    key = f"worker-{hash(settings.CELERY_BROKER_URL)}"
    return str(cache.get_or_set(key, health.worker, CACHED_SECONDS))


def _worker_noted() -> str:
    """Without asking: by the newest round of reconciliation."""
    if not settings.CELERY_BROKER_URL:
        return health.NOT_CONFIGURED
    return health.OK if health.of_round(LastRound.objects.first()) == health.OK else SILENT


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
