"""Judging a series by a rule. Pure functions on arrays: the only place that knows what "beyond" is.

Alarms in words, for pages and the API. Pure functions of a stored alarm and its rule.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from headroom.adapters.naming import SYSTEM
from webapp.record.alarm_rules import Comparison, Rule, rules_by_name
from webapp.record.runs.sampling import stride_for
from webapp.reporting.alarms.models import Alarm
from webapp.science.curves import words


@dataclass(frozen=True)
class Watched:
    """A metric's values in the order of training: steps [n], values [n]; NaN is what was reported as null."""

    steps: np.ndarray
    values: np.ndarray

    def finite(self) -> "Watched":
        """Without the nulls."""
        known = np.isfinite(self.values)
        return Watched(self.steps[known], self.values[known])


def judge_all(rules: Iterable[Rule], series: Mapping[str, Watched]) -> list[Alarm]:
    """At most one alarm a rule, as it must be stored but for its run and time.

    Steps are those of its newest episode; `times` counts the episodes. threshold, value (the worst of the episode) and
    latest are in units of the metric, None for values that are not finite. `marks` are the worst alarming points of
    each stride of steps: what a thinned chart must still show.
    """
    found = [judge(rule, series[rule.metric]) for rule in rules if rule.metric in series]
    found += [_judge_any(rule, series) for rule in rules if "*" in rule.metric]
    return [alarm for alarm in found if alarm is not None]


def judge(rule: Rule, watched: Watched, metric: str | None = None) -> Alarm | None:
    """What the rule says of one series; None where it never alarmed."""
    series = watched if rule.comparison is Comparison.NOT_FINITE else watched.finite()
    limit = limit_of(rule, series.values)
    if limit is None and rule.comparison is not Comparison.NOT_FINITE:
        return None
    beyond = is_beyond(rule.comparison, series.values, limit)
    if rule.comparison.relative:
        beyond[: rule.early] = False  # what makes the median is not judged by it
    if not (episodes := episodes_of(beyond, rule.records)):
        return None
    first, stop = episodes[-1]
    newest = series.values[first:stop]
    return Alarm(
        rule=rule.name,
        metric=metric or rule.metric,
        level=rule.level,
        active=stop == len(beyond),
        threshold=limit,
        value=_plain(newest.max() if rule.comparison.upwards else newest.min()),
        latest=_plain(series.values[-1]),
        first_step=int(series.steps[first]),
        last_step=int(series.steps[stop - 1]),
        times=len(episodes),
        marks=_marks(rule.comparison, series, episodes),
    )


def _judge_any(rule: Rule, series: Mapping[str, Watched]) -> Alarm | None:
    """Of all metrics that it means the alarm that matters most: active before over, then the longest ago."""
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


def _marks(
    comparison: Comparison, series: Watched, episodes: list[tuple[int, int]]
) -> list[list[float | None]]:
    """The worst point of each stride in which an episode has one."""
    inside = np.concatenate([np.arange(first, stop) for first, stop in episodes])
    steps, values = series.steps[inside], series.values[inside]
    strides = steps // stride_for(int(series.steps.max()))
    order = np.lexsort((-values if comparison.upwards else values, strides))
    _, first_of_stride = np.unique(strides[order], return_index=True)
    chosen = order[first_of_stride]
    return [[int(steps[i]), _plain(values[i])] for i in chosen]


def _plain(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None


def is_share(metric: str) -> bool:
    """Whether a metric is shown in percent."""
    return metric.endswith(("_rate", "_fraction", "_idle"))


def number(metric: str, value: float | None) -> str:
    """A value of a metric with three significant digits: "12 %", "0.31", "6,120"."""
    if value is None:
        return "not finite"
    if is_share(metric):
        return f"{100 * value:.3g} %"
    return f"{value:.3g}" if 0.001 <= abs(value) < 1000 else words.amount(value)


def threshold(rule: Rule, limit: float | None) -> str:
    """The threshold as an alarm names it: "at or above 10 %", "at or above 4.1 (10 times its early median)"."""
    if rule.comparison is Comparison.NOT_FINITE:
        return "not a finite number"
    side = "at or above" if rule.comparison.upwards else "at or below"
    factor = f" ({rule.threshold:g} times its early median)" if rule.comparison.relative else ""
    return f"{side} {number(rule.metric, limit)}{factor}"


def title(alarm: Alarm) -> str:
    """The metric's name for people, in the middle of a sentence. Raises KeyError as below."""
    rule = rules_by_name()[alarm.rule]
    if rule.comparison is Comparison.NOT_FINITE:
        return alarm.metric
    return rule.title if rule.title.startswith("KL") else rule.title[0].lower() + rule.title[1:]


def alarm_payload(alarm: Alarm) -> dict[str, Any]:
    """An alarm as the API gives it. Raises KeyError for a rule that is not in force."""
    rule = rules_by_name()[alarm.rule]
    return {
        "rule": alarm.rule,
        "metric": alarm.metric,
        "level": alarm.level,
        "active": alarm.active,
        "threshold": alarm.threshold,
        "value": alarm.value,
        "latest": alarm.latest,
        "first_step": alarm.first_step,
        "last_step": alarm.last_step,
        "times": alarm.times,
        "raised_at": alarm.raised_at,
        "message": message(alarm, rule),
        "meaning": rule.meaning,
        "look_at": rule.look_at,
    }


def message(alarm: Alarm, rule: Rule) -> str:
    """What is or was beyond which threshold, since when, and how it is now. One sentence."""
    what = alarm.metric if rule.comparison is Comparison.NOT_FINITE else rule.title
    if alarm.metric.startswith(SYSTEM):
        what += f" on {alarm.metric.split('/')[1]}"
    where = threshold(rule, alarm.threshold)
    again = f", {alarm.times} times so far" if alarm.times > 1 else ""
    if not alarm.active:
        worst = f", worst {number(alarm.metric, alarm.value)}" if alarm.value is not None else ""
        return f"{what} was {where} from step {alarm.first_step:,} to {alarm.last_step:,}{worst}{again}."
    latest = f", now {number(alarm.metric, alarm.latest)}" if alarm.latest is not None else ""
    return f"{what} is {where} since step {alarm.first_step:,}{latest}{again}."
