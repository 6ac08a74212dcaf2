"""Intervals that learn from their record: half widths multiplied by what earlier runs of the project ask for.

Conformal: the factor of a level is the quantile, at that level, of how many half widths what came lay from the value,
over earlier forecasts of the project. Each run weighs as much as another, however many forecasts it has, for those of
one run hang together; the level is raised by (n + 1) / n for n runs, as in split conformal prediction (Vovk, Gammerman
and Shafer 2005; Lei et al., J. American Statistical Association 113, 2018). A run's own do not count for itself.

What the forecast and simpler methods say of one compute from the same evaluations, with intervals of LEVELS.

| key | method |
|---|---|
| forecast | forms averaged (`scaling.extrapolate`) |
| last | the mean of the last five evaluations, with its t interval |
| eq1 | Eq. 1 alone, with the interval of its curve |
| paper | the grid of arXiv 2510.13786, A.5, in proportion to the compute known; a value without an interval |
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from cachetools import LRUCache
from django.db import transaction
from django.db.models import QuerySet

from scaling import calibration
from scaling.course import Course
from scaling.extrapolate import at_levels
from scaling.paper import fit_grid
from webapp.identity.accounts.models import Project
from webapp.science.curves.fitting import Curve, short
from webapp.science.curves.models import ForecastOrigin, ForecastOutcome, Recalibration
from webapp.science.curves.words import Payload

LEVELS = (0.5, 0.8, 0.9)
METHODS = {"forecast": "Forecast", "last": "Last value", "eq1": "Eq. 1 alone", "paper": "The paper's grid"}
NODES = 24
REACH = 20.0  # times the compute known
GRID_STEP = 0.01  # of A
GRID_C_MID = (
    np.linspace(100.0, 40_000.0, 25) / 16_000.0
)  # of the compute known: the paper's runs had 16,000 GPU-hours
MIN_RUNS = 20  # judged runs of a project before its intervals are recalibrated
MOST_RUNS = 500  # the newest count
_lock = Lock()


def key(level: float) -> str:
    """A level as a key of JSON."""
    return f"{level:g}"


def forecast(curve: Curve) -> tuple[str, str, Payload | None]:
    """(status, message, what is stored) of the forecast from these evaluations, from the last one on."""
    last = float(curve.x[-1])
    grid = np.geomspace(last, REACH * last, NODES)
    said = at_levels(curve.x, curve.y, grid, LEVELS, work=curve.work)
    any_level = said[-1]
    if any_level.status == "failed":
        return "failed", any_level.message, None
    ends = {key(one.level): {"lo": short(one.lo), "hi": short(one.hi)} for one in said}
    stored = {"compute": short(grid), "value": short(any_level.value), "levels": ends}
    return any_level.status, any_level.message, stored


def at(stored: Payload, compute: float) -> Payload:
    """{"value", "levels", "reached"} of a stored forecast at one compute; beyond what is kept, its end. reached: lower
    end of each level at the last compute known."""
    nodes, where = np.log(stored["compute"]), math.log(compute)
    read = lambda column: float(np.interp(where, nodes, column))
    levels = {level: [read(ends["lo"]), read(ends["hi"])] for level, ends in stored["levels"].items()}
    reached = {level: ends["lo"][0] for level, ends in stored["levels"].items()}
    return {"value": read(stored["value"]), "levels": levels, "reached": reached}


def last_value(curve: Curve) -> Payload:
    """The mean of the last five."""
    return _payload(calibration.mean_of_last(curve.y, LEVELS))


def eq1(curve: Curve, compute: float) -> Payload | None:
    """Eq. 1 alone; None where it cannot be fitted."""
    said = calibration.eq1(curve.x, curve.y, compute, LEVELS, r0_observed=list(curve.start) or None)
    return None if said is None else _payload(said)


def _payload(said: calibration.IntervalForecast) -> Payload:
    levels = zip(LEVELS, said.intervals, strict=True)
    return {"value": said.value, "levels": {key(level): list(interval) for level, interval in levels}}


def paper(curve: Curve, compute: float) -> Payload | None:
    """The paper's procedure; R0 is the first evaluation's. None where no cell of the grid converges. Takes a second."""
    last = float(curve.x[-1])
    r0 = min(float(np.mean(curve.start)) if curve.start else float(curve.y[0]), 1.0 - 1e-9)
    lowest = max(float(curve.y[-calibration.RECENT :].mean()) - 0.05, GRID_STEP)
    a_grid = np.linspace(0.0, 1.0, round(1 / GRID_STEP) + 1)[math.ceil(lowest / GRID_STEP) :]
    found = fit_grid(curve.x / last, curve.y, r0=r0, a_grid=a_grid, c_mid_grid=GRID_C_MID)
    if found is None:
        return None
    value = found.r0 + (found.a - found.r0) / (1.0 + (found.c_mid * last / compute) ** found.b)
    return {"value": float(value), "levels": {}}


LEAST, MOST = 0.5, 5.0  # of a factor: what is beyond is a broken record rather than an answer


@dataclass(frozen=True)
class Record:
    """The ratios of a project's judged forecasts: `runs` [n] of each, and of each level [n]. With is_on and stamp
    everything that rests on it changes."""

    runs: np.ndarray
    ratios: Mapping[str, np.ndarray]
    is_on: bool = True
    stamp: int = 0

    @property
    def n_runs(self) -> int:
        """Different runs."""
        return len(set(self.runs.tolist()))

    def factor(self, level: float, without: str | None = None) -> float | None:
        """What half widths of `level` are multiplied by, by the other runs; None for fewer than MIN_RUNS runs in all.

        The nearest of LEVELS stands for a level that is not kept.
        """
        if self.n_runs < MIN_RUNS:
            return None
        kept = self.runs != (without or "")
        nearest = min(LEVELS, key=lambda one: abs(one - level))
        found = conformal(self.ratios[key(nearest)][kept], self.runs[kept], nearest)
        return float(np.clip(found, LEAST, MOST))

    def widening(self, level: float, without: str | None = None) -> "Widening":
        """The same as it is applied, with its words; none where the project has switched it off."""
        factor = self.factor(level, without) if self.is_on else None
        if factor is None:
            return Widening()
        return Widening(factor, self.n_runs - (without in set(self.runs.tolist())))

    def recalibrated(self, course: Course, run_id: str) -> Course:
        """A run's forecast as the other runs ask for."""
        return course.widened(self.widening(course.level, without=run_id).factor)


@dataclass(frozen=True)
class Widening:
    """What half widths are multiplied by, from the forecasts of `runs` other runs; 1 where nothing is recalibrated."""

    factor: float = 1.0
    runs: int = 0

    @property
    def sentence(self) -> str:
        """What was done, in words; empty where nothing was."""
        if not self.runs:
            return ""
        way = "widened" if self.factor >= 1 else "narrowed"
        return (
            f"{way.capitalize()} by {self.factor:.2f}, by how forecasts of {self.runs} other runs came out."
        )


def conformal(ratios: np.ndarray, runs: np.ndarray, level: float) -> float:
    """The quantile of ratios [n] at `level`, raised for few runs; each of `runs` [n] has the same weight. n > 0."""
    names, place, counts = np.unique(runs, return_inverse=True, return_counts=True)
    order = np.argsort(ratios, kind="stable")
    weight = np.cumsum((1.0 / (counts[place] * len(names)))[order])
    wanted = min(1.0, level * (len(names) + 1) / len(names))
    return float(ratios[order][min(int(np.searchsorted(weight, wanted - 1e-12)), len(ratios) - 1)])


_records: LRUCache[tuple[int, int], Record] = LRUCache(64)  # (project, stamp)
NOTHING = Record(np.empty(0, "<U16"), {key(level): np.empty(0) for level in LEVELS})


def record_of(project: Project | int) -> Record:
    """The record of a project, remembered by this process. One query, and another where it has changed."""
    pk = project if isinstance(project, int) else project.pk
    found = Recalibration.objects.filter(pk=pk).values_list("is_on", "stamp").first()
    is_on, stamp = found or (True, 0)
    if not stamp:
        return Record(NOTHING.runs, NOTHING.ratios, is_on)
    with _lock:
        known = _records.get((pk, stamp))
    if known is None:
        newest = outcomes_of(pk).filter(why="").order_by("-judged_at").values("run")[:MOST_RUNS]
        rows = ForecastOrigin.objects.filter(run__in=newest, ratios__isnull=False).order_by("pk")
        said: list[tuple[str, Any]] = list(rows.values_list("run_id", "ratios"))
        ratios = {key(level): np.array([one[key(level)] for _, one in said]) for level in LEVELS}
        known = Record(np.array([run for run, _ in said], "<U16"), ratios)
        with _lock:
            _records[pk, stamp] = known
    return Record(known.runs, known.ratios, is_on, stamp)


def outcomes_of(project: Project | int) -> QuerySet[ForecastOutcome]:
    """Of its runs that are not deleted: of judged ones, and with a `why` of those that cannot be."""
    return ForecastOutcome.objects.filter(run__project=project, run__deleted_at=None)


def note_changed(project: Project, **_: Any) -> None:
    """One more run of the project is judged, or one is deleted or restored."""
    with transaction.atomic():
        Recalibration.objects.get_or_create(pk=project.pk)
        row = Recalibration.objects.select_for_update().get(pk=project.pk)
        row.stamp += 1
        row.save(update_fields=["stamp"])


def switch(project: Project, *, is_on: bool) -> bool:
    """Whether the project's intervals are recalibrated; whether that changed."""
    row, _ = Recalibration.objects.get_or_create(pk=project.pk)
    return bool(Recalibration.objects.filter(pk=row.pk, is_on=not is_on).update(is_on=is_on))
