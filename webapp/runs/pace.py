"""How fast earlier runs went, and when a running one will end: only from what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from django.utils import timezone

from training.schema import Resources
from webapp.accounts.models import Project
from webapp.runs.models import Point, Run, State
from webapp.runs.selectors import latest_of_runs

MOST_RUNS = 10  # newest ones
HOUR = 3600.0
SHORTEST = timedelta(seconds=10)  # of a speed that says anything


@dataclass(frozen=True)
class Range:
    """Least, median and greatest of what was measured."""

    least: float
    middle: float
    greatest: float

    def __mul__(self, factor: float) -> "Range":
        return Range(factor * self.least, factor * self.middle, factor * self.greatest)


@dataclass(frozen=True)
class Pace:
    """What ended runs took. `overhead`: hours by the clock for an hour of training (start and evaluation come on top).
    The others are counts a device-hour; None where they were not reported."""

    runs: int
    same_recipe: bool
    overhead: Range
    steps: Range | None
    tokens: Range | None
    flops: Range | None


def devices_of(resources: object) -> int:
    """What a stored `resources` section holds: GPUs where there are any, else CPU cores; 0 where it is none."""
    try:
        return Resources.model_validate(resources).devices
    except ValueError:
        return 0


def pace_of(project: Project, *, recipe: str, task: str, model: str) -> Pace | None:
    """Of runs of this recipe (slug) on this task with this model; else of any recipe on them; None without any."""
    ended = Run.objects.filter(
        project=project, origin=Run.Origin.LAUNCHED, state=State.SUCCEEDED, task=task, model=model,
        attempt_number=1, started_at__isnull=False, ended_at__isnull=False,
    ).order_by("-ended_at")  # fmt: skip
    for same_recipe in (True, False):
        chosen = ended.filter(revision__recipe__slug=recipe) if same_recipe else ended
        rows = list(chosen.values_list("pk", "started_at", "ended_at", "config__resources")[:MOST_RUNS])
        pace = _pace(rows, same_recipe)
        if pace is not None:
            return pace
    return None


def _pace(rows: Sequence[tuple], same_recipe: bool) -> Pace | None:
    newest = latest_of_runs([pk for pk, *_ in rows]) if rows else {}
    measured = [
        (newest[pk], (ended - started).total_seconds() / HOUR, devices_of(resources))
        for pk, started, ended, resources in rows
        if pk in newest and newest[pk].device_hours
    ]
    measured = [(point, hours, devices) for point, hours, devices in measured if devices and hours > 0]
    if not measured:
        return None
    overheads = [max(1.0, hours * devices / (point.device_hours or 1)) for point, hours, devices in measured]
    points = [point for point, _, _ in measured]
    return Pace(len(measured), same_recipe, _range(overheads), *(_rate(points, name) for name in RATES))


RATES = ("step", "tokens", "flops")


def _rate(points: Sequence[Point], name: str) -> Range | None:
    """A count a device-hour."""
    rates = [getattr(point, name) / point.device_hours for point in points if getattr(point, name)]
    return _range(rates) if rates else None


def _range(values: Sequence[float]) -> Range:
    return Range(min(values), median(values), max(values))


def time_left(run: Run, used_hours: float | None) -> timedelta | None:
    """Until a running run has spent its budget, at the speed that it had since its start; None where not known.

    The time of a run that was resumed says nothing: it stood still in between.
    """
    if run.state != State.RUNNING or not run.budget_hours or not used_hours or run.attempt_number != 1:
        return None
    if run.started_at is None:
        return None
    elapsed = (run.heartbeat_at or timezone.now()) - run.started_at
    if elapsed < SHORTEST:
        return None
    return max(timedelta(), elapsed * (run.budget_hours / used_hours - 1))
