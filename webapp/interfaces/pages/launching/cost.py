"""What a launch costs and how long it waits, in words, and from what each number is known. Pure functions."""

from datetime import timedelta
from typing import Any

from training.schema import Recipe
from webapp.interfaces.pages.cluster import Cluster
from webapp.interfaces.pages.durations import duration
from webapp.record.runs.pace import Pace, Range
from webapp.record.runs.queue import Queue, asked
from webapp.science.curves import words

Payload = dict[str, Any]
LEVELS = ("least", "middle", "greatest")


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


def wait(recipe: Recipe, num_runs: int, queue: Queue, cluster: Cluster) -> Payload:
    """Sentences on what stands between the launch and its start. `level`: "", "warn" or "bad"."""
    said, level = list(cluster.troubles), "warn" if cluster.troubles else ""
    if queue.undelivered:
        said.append(f"The last hand-over to Ray failed and is tried again: {queue.undelivered.rstrip('.')}.")
        level = "warn"
    too_large = _too_large(recipe, cluster)
    if too_large:
        said.append(too_large)
        level = "bad"
    said.append(_before(queue))
    if not said[:-1]:
        said.append(_place(recipe, num_runs, queue, cluster))
    return {"sentences": [sentence for sentence in said if sentence], "level": level}


def _before(queue: Queue) -> str:
    if not queue.waiting and not queue.working:
        return "No run is queued or working on the cluster."
    waiting = words.count(queue.waiting, "run") if queue.waiting else "No run"
    working = words.count(queue.working, "run") if queue.working else "none"
    verb = "wait" if queue.waiting > 1 else "waits"
    return f"{waiting} {verb} before it, {working} at work{_first_end(queue)}."


def _first_end(queue: Queue) -> str:
    left = [run.left for run in queue.held if run.left is not None]
    return f"; the first of them ends in about {duration(min(left))}" if left else ""


def _too_large(recipe: Recipe, cluster: Cluster) -> str:
    """Where the whole cluster could never hold the run."""
    gpus, cpus = asked(recipe.resources)
    if cluster.gpus is not None and gpus > cluster.gpus:
        return f"It asks for {words.count(gpus, 'GPU')} and the cluster has {cluster.gpus}: it would wait in vain."
    if cluster.cpus is not None and cpus > cluster.cpus:
        return f"It asks for {words.count(cpus, 'CPU core')} and the cluster has {cluster.cpus}: it would wait in vain."
    return ""


def _place(recipe: Recipe, num_runs: int, queue: Queue, cluster: Cluster) -> str:
    """Whether there is a place at once, by what Ray last said that it has and what our runs hold."""
    if cluster.gpus is None or cluster.cpus is None:
        return "What the cluster has is not known."
    gpus, cpus = (num_runs * count for count in asked(recipe.resources))
    before = [
        run for run in queue.held if run.gpus <= cluster.gpus and run.cpus <= cluster.cpus
    ]  # others never go
    free_gpus = cluster.gpus - sum(run.gpus for run in before)
    free_cpus = cluster.cpus - sum(run.cpus for run in before)
    has = f"{words.count(cluster.gpus, 'GPU')} and {words.count(cluster.cpus, 'CPU core')}"
    if gpus <= free_gpus and cpus <= free_cpus:
        place = "enough of them free: it starts as soon as the worker hands it over."
    else:
        free = f"{max(0, free_gpus)} and {max(0, free_cpus)}"
        place = f"{free} left by the runs before it: it waits for a place."
    said = f" Ray said so {duration(cluster.age)} ago." if cluster.age is not None else ""
    return f"The cluster has {has}, {place}{said}"
