"""Intervals that learn from their record: half widths multiplied by what earlier runs of the project ask for.

Conformal: the factor of a level is the quantile, at that level, of how many half widths what came lay from the value,
over earlier forecasts of the project. Each run weighs as much as another, however many forecasts it has, for those of
one run hang together; the level is raised by (n + 1) / n for n runs, as in split conformal prediction (Vovk, Gammerman
and Shafer 2005; Lei et al., J. American Statistical Association 113, 2018). A run's own do not count for itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from cachetools import LRUCache
from django.db import transaction
from django.db.models import QuerySet

from scaling.course import Course
from webapp.identity.accounts.models import Project
from webapp.science.curves.models import ForecastOrigin, ForecastOutcome, Recalibration
from webapp.science.curves.record.methods import LEVELS, key

MIN_RUNS = 20  # judged runs of a project before its intervals are recalibrated
MOST_RUNS = 500  # the newest count
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
        others = self.n_runs - (without in set(self.runs.tolist()))
        return Widening(factor, others)

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
_lock = Lock()
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
        known = _read(pk)
        with _lock:
            _records[pk, stamp] = known
    return Record(known.runs, known.ratios, is_on, stamp)


def _read(project: int) -> Record:
    newest = outcomes_of(project).filter(why="").order_by("-judged_at").values("run")[:MOST_RUNS]
    rows = ForecastOrigin.objects.filter(run__in=newest, ratios__isnull=False).order_by("pk")
    found: list[tuple[str, Any]] = list(rows.values_list("run_id", "ratios"))
    runs = np.array([run for run, _ in found], "<U16")
    return Record(runs, {key(level): np.array([one[key(level)] for _, one in found]) for level in LEVELS})


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
