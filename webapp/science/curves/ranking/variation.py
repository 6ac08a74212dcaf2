"""How far the seeds of a project's recipes differ, by task: what every comparison of recipes rests on."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from django.core.cache import cache

import scaling
from scaling.course import Course
from scaling.ranking import variation_of
from scaling.seeds import CORPUS, Between
from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import latest_of_runs
from webapp.science.curves import estimates, fitting
from webapp.science.curves.axes import DEFAULT_AXIS, DEFAULT_METRIC
from webapp.science.curves.models import Fit
from webapp.science.curves.record.recalibrating import NOTHING, Record, record_of

MOST_RUNS = 2000  # the newest of a project's runs
KEPT_SECONDS = 60


MOST_NOW = 6  # forecasts that a page works out itself, of runs whose refit has not come yet: 0.1 s each


@lru_cache(maxsize=128)
def forecast_now(fit: "scaling.Fit") -> Course | None:
    """The forecast that its refit will store."""
    return fitting.read(fitting.forecast_of(fit))


Units = Callable[[str], float | None]  # run -> device-hours that one unit of an axis took it so far


def units(run_ids: Sequence[str], x: str) -> Units:
    """None for a run whose compute is not known on axis `x`. One query, none on device-hours."""
    if x == DEFAULT_AXIS:
        return lambda pk: 1.0
    newest = latest_of_runs(run_ids, DEFAULT_METRIC)

    def hours(pk: str) -> float | None:
        point = newest.get(pk)
        spent = getattr(point, x, None) if point else None
        return point.device_hours / spent if point and spent and point.device_hours else None

    return hours


def course(run_id: str, forecast: Course | None, unit: Units, record: Record = NOTHING) -> Course | None:
    """A run's forecast on the axis of `unit`, recalibrated by the project's record; None where it has none there."""
    each = unit(run_id)
    if forecast is None or each is None:
        return None
    widened = record.recalibrated(forecast, run_id)
    return widened if each == 1.0 else widened.on_axis(each)


def courses_of(
    project: Project, run_ids: Sequence[str], x: str, live: "Mapping[str, scaling.Fit | None] | None" = None
) -> dict[str, Course | None]:
    """Of each run its stored forecast on axis `x`; of a few without one, what their `live` fits on that axis say.

    Intervals are recalibrated as the project's record asks for. Four queries at most, one more on axes other than
    device-hours.
    """
    stored, unit, record = estimates.latest(run_ids), units(run_ids, x), record_of(project)
    found = {
        pk: course(pk, stored[pk].fit.forecast if pk in stored else None, unit, record) for pk in run_ids
    }
    fits = [
        (pk, fit)
        for pk, known in found.items()
        if known is None and (fit := (live or {}).get(pk)) is not None
    ]
    here = units((), DEFAULT_AXIS)  # a fit on that axis is forecast on it
    return found | {pk: course(pk, forecast_now(fit), here, record) for pk, fit in fits[:MOST_NOW]}


def seeds_of_tasks(project: Project, x: str = DEFAULT_AXIS) -> Mapping[str, Between]:
    """Task -> how far seeds differ there, from all its recipes with several runs; CORPUS for a task without one.

    Kept until the project's next fit, a minute at most; else four queries.
    """
    newest = Fit.objects.filter(run__project=project).order_by("-id").values_list("id", "created_at").first()
    if newest is None:
        return defaultdict(lambda: CORPUS)
    key = f"seeds-{project.pk}-{x}-{newest[0]}-{newest[1].timestamp()}"
    known = cache.get(key)
    if known is None:
        known = _by_task(project, x)
        cache.set(key, known, KEPT_SECONDS)
    return defaultdict(lambda: CORPUS, known)


def _by_task(project: Project, x: str) -> dict[str, Between]:
    several = _recipes_with_seeds(project)
    ids = [pk for runs in several.values() for pk in runs]
    stored, unit = estimates.latest(ids), units(ids, x) if ids else None
    by_task: dict[str, list[list[Course | None]]] = defaultdict(list)
    for (task, *_), runs in several.items():
        known = [(pk, stored[pk].fit.forecast) for pk in runs if pk in stored]
        by_task[task].append([course(pk, forecast, unit) for pk, forecast in known if unit is not None])
    return {task: variation_of(recipes) for task, recipes in by_task.items()}


def _recipes_with_seeds(project: Project) -> dict[tuple, list[str]]:
    """(task, model, revision or name) -> its runs, where it has more than one."""
    rows: Iterable = (
        Run.objects.filter(project=project)
        .order_by("-created_at", "id")
        .values_list("pk", "task", "model", "revision_id", "name")[:MOST_RUNS]
    )
    found: dict[tuple, list[str]] = defaultdict(list)
    for pk, task, model, revision, name in rows:
        found[task, model, revision or name].append(pk)
    return {key: runs for key, runs in found.items() if len(runs) > 1}
