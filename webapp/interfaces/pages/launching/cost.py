"""What a launch costs and how long it waits, in words, and from what each number is known. Pure functions."""

from datetime import timedelta
from typing import Any

from training.schema import Recipe
from webapp.interfaces.pages.ages import duration
from webapp.interfaces.pages.cluster import Cluster
from webapp.record.runs.pace import Pace, Range
from webapp.record.runs.places import Prospect
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
