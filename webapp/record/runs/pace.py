"""How fast earlier runs went, and when a running one will end: only from what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from django.core.cache import cache

from training.schema import Resources
from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Point, Run, State
from webapp.record.runs.selectors import span_of_runs

MOST_RUNS = 40  # newest ones
OVERHEAD_SECONDS = 60.0
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


@dataclass(frozen=True)
class Measured:
    """A run that ended well in its first attempt: its recipe, what it had used at its newest evaluation, the hours by
    the clock that it lasted and those of them from its first to its newest evaluation."""

    recipe: str
    newest: Point
    devices: int
    lasted: float
    trained: float


def pace_of(project: Project, *, recipe: str, task: str, model: str) -> Pace | None:
    """Of runs of this recipe (slug) on this task with this model; else of any recipe on them; None without any."""
    measured = measured_runs(project, task=task, model=model)
    overheads = overheads_of(measured)
    for same_recipe in (True, False):
        if chosen := [i for i, run in enumerate(measured) if run.recipe == recipe or not same_recipe]:
            points = [measured[i].newest for i in chosen]
            rates = (_rate(points, name) for name in RATES)
            return Pace(len(chosen), same_recipe, _range([overheads[i] for i in chosen]), *rates)
    return None


def measured_runs(project: Project | int, **narrowed: str) -> list[Measured]:
    """The newest MOST_RUNS of the project that say how long a run lasts. Two queries."""
    ended = Run.objects.filter(
        project=project, origin=Run.Origin.LAUNCHED, state=State.SUCCEEDED, attempt_number=1,
        started_at__isnull=False, ended_at__isnull=False, **narrowed,
    ).order_by("-ended_at")  # fmt: skip
    columns = ("pk", "revision__recipe__slug", "started_at", "ended_at", "config__resources")
    rows = list(ended.values_list(*columns)[:MOST_RUNS])
    spans = span_of_runs([pk for pk, *_ in rows]) if rows else {}
    measured = [
        Measured(
            recipe, spans[pk][1], devices_of(resources), _hours(end - start), _hours(_between(spans[pk]))
        )
        for pk, recipe, start, end, resources in rows
        if pk in spans
    ]
    return [run for run in measured if run.devices and run.newest.device_hours and run.lasted > 0]


def longest_overhead(project: int) -> float | None:
    """Hours by the clock for an hour of training, of the slowest of the project's newest runs that ended well; None
    without any. Two queries, remembered for OVERHEAD_SECONDS."""
    longest = lambda: max(overheads_of(measured_runs(project)), default=0.0)
    return cache.get_or_set(f"longest-overhead-{project}", longest, OVERHEAD_SECONDS) or None


def overheads_of(measured: Sequence[Measured]) -> list[float]:
    """Hours by the clock for an hour of training, of each: its start, evaluations and end are in it.

    The wait for a place on a full cluster is not: of what runs last outside of their evaluations, the shortest counts
    for all.
    """
    outside = min((run.lasted - run.trained for run in measured), default=0.0)
    return [
        max(1.0, (run.trained + max(0.0, outside)) * run.devices / (run.newest.device_hours or 1))
        for run in measured
    ]


def _between(span: tuple[Point, Point]) -> timedelta:
    first, newest = span
    return newest.time - first.time


def _hours(time: timedelta) -> float:
    return time.total_seconds() / HOUR


RATES = ("step", "tokens", "flops")


def _rate(points: Sequence[Point], name: str) -> Range | None:
    """A count a device-hour."""
    rates = [getattr(point, name) / point.device_hours for point in points if getattr(point, name)]
    return _range(rates) if rates else None


def _range(values: Sequence[float]) -> Range:
    return Range(min(values), median(values), max(values))


def time_left(run: Run, used_hours: float | None, span: tuple[Point, Point] | None) -> timedelta | None:
    """Until a running run has spent its budget, at the speed between the first and the newest evaluation of its
    attempt (`span_of_runs`), so that neither a wait for a place nor a pause counts; None where not known.
    """
    if run.state != State.RUNNING or not run.budget_hours or not used_hours or span is None:
        return None
    first, newest = span
    used = (newest.device_hours or 0.0) - (first.device_hours or 0.0)
    if newest.attempt != run.attempt_number or used <= 0 or _between(span) < SHORTEST:
        return None
    return max(timedelta(), _between(span) * ((run.budget_hours - used_hours) / used))
