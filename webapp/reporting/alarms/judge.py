"""Judging a series by a rule. Pure functions on arrays: the only place that knows what "beyond" is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from webapp.record.alarm_rules.rules import Comparison, Rule
from webapp.record.runs.sampling import stride_for

Mark = tuple[int, float | None]


@dataclass(frozen=True)
class Watched:
    """A metric's values in the order of training: steps [n], values [n]; NaN is what was reported as null."""

    steps: np.ndarray
    values: np.ndarray

    def finite(self) -> "Watched":
        """Without the nulls."""
        known = np.isfinite(self.values)
        return Watched(self.steps[known], self.values[known])


@dataclass(frozen=True)
class Finding:
    """An alarm that a series gives. Steps are those of its newest episode; `times` counts the episodes.

    threshold, value (the worst of the episode) and latest are in units of the metric, None for values that are not
    finite. `marks` are the worst alarming points of each stride of steps: what a thinned chart must still show.
    """

    rule: str
    metric: str
    level: str
    active: bool
    threshold: float | None
    value: float | None
    latest: float | None
    first_step: int
    last_step: int
    times: int
    marks: list[Mark] = field(default_factory=list)


def judge_all(rules: Iterable[Rule], series: Mapping[str, Watched]) -> list[Finding]:
    """At most one finding a rule."""
    found = [judge(rule, series[rule.metric]) for rule in rules if rule.metric in series]
    found += [_judge_any(rule, series) for rule in rules if "*" in rule.metric]
    return [finding for finding in found if finding is not None]


def judge(rule: Rule, watched: Watched, metric: str | None = None) -> Finding | None:
    """What the rule says of one series; None where it never alarmed."""
    series = watched if rule.comparison is Comparison.NOT_FINITE else watched.finite()
    limit = limit_of(rule, series.values)
    if limit is None and rule.comparison is not Comparison.NOT_FINITE:
        return None
    beyond = is_beyond(rule.comparison, series.values, limit)
    if rule.comparison.relative:
        beyond[: rule.early] = False  # what makes the median is not judged by it
    episodes = episodes_of(beyond, rule.records)
    if not episodes:
        return None
    first, stop = episodes[-1]
    return Finding(
        rule=rule.name,
        metric=metric or rule.metric,
        level=rule.level,
        active=stop == len(beyond),
        threshold=limit,
        value=_plain(_worst(rule.comparison, series.values[first:stop])),
        latest=_plain(series.values[-1]),
        first_step=int(series.steps[first]),
        last_step=int(series.steps[stop - 1]),
        times=len(episodes),
        marks=_marks(rule.comparison, series, episodes),
    )


def _judge_any(rule: Rule, series: Mapping[str, Watched]) -> Finding | None:
    """Of all metrics that it means the finding that matters most: active before over, then the longest ago."""
    meant = sorted(metric for metric in series if fnmatchcase(metric, rule.metric))
    found = [judge(rule, series[metric], metric) for metric in meant]
    return min((f for f in found if f), key=lambda f: (not f.active, f.first_step), default=None)


def limit_of(rule: Rule, values: np.ndarray) -> float | None:
    """The threshold in units of the metric; None while the early median is not known, or is not positive."""
    if not rule.comparison.relative or rule.threshold is None:
        return rule.threshold
    if len(values) <= rule.early:
        return None
    median = float(np.median(values[: rule.early]))
    return rule.threshold * median if median > 0 else None


def is_beyond(comparison: Comparison, values: np.ndarray, limit: float | None) -> np.ndarray:
    """Mask [n] of the values that are beyond the limit; the limit itself is beyond."""
    if comparison is Comparison.NOT_FINITE or limit is None:
        return ~np.isfinite(values)
    return values >= limit if comparison.upwards else values <= limit


def episodes_of(beyond: np.ndarray, records: int) -> list[tuple[int, int]]:
    """[start, stop) of each stretch of at least `records` values beyond in a row."""
    edges = np.diff(np.concatenate([[0], beyond.astype(np.int8), [0]]))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return [(int(a), int(b)) for a, b in zip(starts, stops, strict=True) if b - a >= records]


def _worst(comparison: Comparison, values: np.ndarray) -> float:
    return float(values.max() if comparison.upwards else values.min())


def _marks(comparison: Comparison, series: Watched, episodes: list[tuple[int, int]]) -> list[Mark]:
    """The worst point of each stride in which an episode has one."""
    inside = np.concatenate([np.arange(first, stop) for first, stop in episodes])
    steps, values = series.steps[inside], series.values[inside]
    strides = steps // stride_for(int(series.steps.max()))
    order = np.lexsort((-values if comparison.upwards else values, strides))
    _, first_of_stride = np.unique(strides[order], return_index=True)
    chosen = order[first_of_stride]
    return [(int(steps[i]), _plain(values[i])) for i in chosen]


def _plain(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None
