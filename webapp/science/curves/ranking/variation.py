"""How far the seeds of a project's recipes differ, by task: what every comparison of recipes rests on.

Recipes that cannot be told apart: which climbs faster, all refitted with their mean A held fixed (section 2.1).

Faster is called what its B exceeds by more than noise and seeds explain, as everywhere (`scaling.ranking`).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from django.core.cache import cache

import scaling
from scaling import ranking
from scaling.course import Course
from scaling.fitting import fit_points
from scaling.seeds import CORPUS, CORPUS_LOG_B, Between
from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import latest_of_runs
from webapp.science.curves import estimates, fitting
from webapp.science.curves.models import Fit
from webapp.science.curves.ranking.standing import name_of
from webapp.science.curves.record.recalibrating import NOTHING, Record, record_of
from webapp.science.curves.words import DEFAULT_AXIS, DEFAULT_LEVEL, DEFAULT_METRIC, Payload, rate

MOST_RUNS = 2000  # the newest of a project's runs
KEPT_SECONDS = 60


MOST_NOW = 6  # forecasts that a page works out itself, of runs whose refit has not come yet: 0.1 s each
Units = Callable[[str], float | None]  # run -> device-hours that one unit of an axis took it so far
MOST_REFITTED = 36  # of one tie that are fitted again; the newest of them


@lru_cache(maxsize=128)
def forecast_now(fit: "scaling.Fit") -> Course | None:
    """The forecast that its refit will store."""
    return fitting.read(fitting.forecast_of(fit))


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
    known = cache.get_or_set(key, lambda: _by_task(project, x), KEPT_SECONDS)
    return defaultdict(lambda: CORPUS, known or {})


def _by_task(project: Project, x: str) -> dict[str, Between]:
    several = _recipes_with_seeds(project)
    ids = [pk for runs in several.values() for pk in runs]
    stored, unit = estimates.latest(ids), units(ids, x) if ids else None
    by_task: dict[str, list[list[Course | None]]] = defaultdict(list)
    for (task, *_), runs in several.items():
        known = [(pk, stored[pk].fit.forecast) for pk in runs if pk in stored]
        by_task[task].append([course(pk, forecast, unit) for pk, forecast in known if unit is not None])
    return {task: ranking.variation_of(recipes) for task, recipes in by_task.items()}


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


def efficiencies(rows: Sequence[Payload]) -> list[Payload]:
    """For each tie among the rows of a leaderboard's group: the shared ceiling, B of each row there, and a verdict.

    One query. Fits are kept, so that asking again costs little until there are new evaluations.
    """
    ties: dict[int, list[Payload]] = {}
    for row in rows:
        if row["tied"] and row["A"] is not None:
            ties.setdefault(row["tie_group"], []).append(row)
    curves = fitting.curves_of([pk for tie in ties.values() for row in tie for pk in _runs(row, len(tie))])
    fits, crashed = fitting.fits_of(curves)
    return [_tie(tie, fits, set(crashed)) for tie in ties.values() if len(tie) > 1]


def _runs(row: Payload, tied: int) -> list[str]:
    return row["runs"][: max(1, MOST_REFITTED // tied)]


def _tie(tie: Sequence[Payload], fits: "dict[str, scaling.Fit]", crashed: set[str]) -> Payload:
    shared = float(np.mean([row["A"] for row in tie]))
    fixed = [_refitted(row, len(tie), shared, fits) for row in tie]
    found = [_pooled(each) for each in fixed]
    return {
        "shared": shared,
        "shared_text": rate(shared),
        "rows": [
            {"name": name_of(row), "B": b[0], "lo": b[1], "hi": b[2], "text": _text(b)}
            for row, b in zip(tie, found, strict=True)
        ],
        "sentence": _verdict([name_of(row) for row in tie], [b[0] for b in found], slopes(fixed)),
        "crash_note": fitting.crash_note(
            [f"run {pk} of {name_of(row)}" for row in tie for pk in _runs(row, len(tie)) if pk in crashed]
        ),
    }


def _refitted(row: Payload, tied: int, shared: float, fits: "dict[str, scaling.Fit]") -> "list[scaling.Fit]":
    """A recipe's runs that identify A, with A held at `shared`."""
    pinned = [fit for pk in _runs(row, tied) if (fit := fits.get(pk)) is not None and fit.status == "ok"]
    return [fixed for fit in pinned if (fixed := at_ceiling(fit, shared)).params is not None]


def _pooled(fixed: "Sequence[scaling.Fit]") -> estimates.Estimate | tuple[None, None, None]:
    """B of a recipe, its seeds pooled."""
    usable = [one for fit in fixed if (one := estimates.of_live(fit)) is not None]
    value, lo, hi = estimates.parameters([usable], "B")[0]
    return (value, lo, hi) if np.isfinite(value) else (None, None, None)


@lru_cache(maxsize=512)
def at_ceiling(fit: "scaling.Fit", ceiling: float) -> "scaling.Fit":
    """The same points fitted with the ceiling held fixed."""
    assert fit.data is not None
    return fit_points(fit.data, form=fit.form, level=fit.level, **{**fit.options, "a": ceiling})


def _text(b: estimates.Estimate | tuple[None, None, None]) -> str:
    value, lo, hi = b
    if value is None:
        return "–"
    ends = ("open" if end is None else f"{end:.2f}" for end in (lo, hi))
    return f"{value:.2f} ({' to '.join(ends)})"


@dataclass(frozen=True)
class Slopes:
    """log B of recipes at one ceiling, in the order given (None: no run has a closed interval), and how far seeds
    differ in it."""

    means: list[ranking.Mean | None]
    between: Between

    def steeper(self, first: int, second: int) -> bool:
        """Whether B of the first is really higher than that of the second."""
        a, b = self.means[first], self.means[second]
        return a is not None and b is not None and ranking.gap(a, b, self.between).lo > 0.0


def slopes(recipes: "Sequence[Sequence[scaling.Fit]]") -> Slopes:
    """From the fits of each recipe's runs, refitted at one ceiling."""
    known = [[said for fit in fits if (said := _log_b(fit)) is not None] for fits in recipes]
    level = next((fit.level for fits in recipes for fit in fits), DEFAULT_LEVEL)
    between = ranking.seeds_of(known, CORPUS_LOG_B, level=level)
    return Slopes([ranking.mean_of(runs, between, level=level) if runs else None for runs in known], between)


def _log_b(fit: "scaling.Fit") -> ranking.Forecast | None:
    lo, hi = fit.interval("B")
    if fit.params is None or not lo or not hi:
        return None
    b = math.log(fit.params["B"])
    return b, min(math.log(lo), b), max(math.log(hi), b)


def _verdict(names: Sequence[str], values: Sequence[float | None], found: Slopes) -> str:
    """Who is more efficient than whom, as far as noise and seeds allow to say."""
    known = [
        index for index, mean in enumerate(found.means) if mean is not None and values[index] is not None
    ]
    if len(known) < 2:
        return "There is no second recipe here that can be fitted at the shared ceiling."
    known.sort(key=lambda index: -(values[index] or 0.0))
    best, rest = known[0], known[1:]
    if not (slower := [names[index] for index in rest if found.steeper(best, index)]):
        return (
            f"{names[best]} has the highest B, but not by more than noise and seeds explain: none is known to be more "
            "efficient."
        )
    others = "all of the others" if len(slower) == len(rest) and len(rest) > 1 else ", ".join(slower)
    return f"{names[best]} is more efficient than {others}, by more than noise and seeds explain."
