"""The small multiples of the run page: which metrics, their latest values, and what is alarming.

All panels come from three queries. A panel shows every 2^k-th step, k the least that keeps it under MAX_POINTS, so
that a point once drawn never moves: later it is kept or left out (the page says so).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from django.db.models import F, Max, Q, QuerySet
from django.db.models.functions import Mod

from webapp.curves import words
from webapp.runs.models import Point, Run

MAX_POINTS = 200


@dataclass(frozen=True)
class Metric:
    """A metric of DESIGN section 7 as a panel; from `alarm_from` upwards its value is alarming."""

    name: str
    title: str
    share: bool = False  # shown in percent
    alarm_from: float | None = None
    alarm_words: str = ""


METRICS = (
    Metric("train/reward", "Training reward"),
    Metric(
        "train/truncation_rate", "Truncation rate", share=True, alarm_from=0.10,
        alarm_words="10 % or more answers are cut off: training tends to become unstable",
    ),
    Metric("train/entropy", "Entropy"),
    Metric("train/grad_norm", "Gradient norm"),
    Metric("train/ratio_max", "Largest ratio"),
    Metric("train/ratio_clip_fraction", "Clipped ratios", share=True),
    Metric("train/mismatch_logp_mean", "Log-prob mismatch, mean"),
    Metric("train/mismatch_logp_max", "Log-prob mismatch, max"),
    Metric("train/kl", "KL"),
    Metric("train/response_length", "Response length"),
    Metric("train/effective_batch", "Effective batch"),
    Metric("train/staleness_mean", "Staleness, mean"),
    Metric("train/staleness_max", "Staleness, max"),
    Metric("perf/tokens_per_second", "Tokens per second"),
    Metric("perf/generator_idle", "Generator idle", share=True),
    Metric("perf/trainer_idle", "Trainer idle", share=True),
)  # fmt: skip


@dataclass
class Panel:
    """One small multiple."""

    metric: Metric
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    stride: int = 1

    @property
    def latest(self) -> str:
        """The newest value with three significant digits."""
        value = self.values[-1]
        return f"{100 * value:.3g} %" if self.metric.share else words.amount(value)

    @property
    def label(self) -> str:
        """What the picture shows, for readers who do not see it."""
        return f"{self.metric.title} over steps {self.steps[0]} to {self.steps[-1]}, latest {self.latest}"

    @property
    def alarming(self) -> bool:
        """Whether the newest value is in the alarm band."""
        return self.metric.alarm_from is not None and self.values[-1] >= self.metric.alarm_from


def panels(run: Run) -> list[Panel]:
    """Panels of the metrics that the run reports, in the order of METRICS."""
    names = [metric.name for metric in METRICS]
    reported = Point.objects.filter(series__run=run, series__metric__in=names)
    last_step = reported.aggregate(last=Max("step"))["last"]
    if last_step is None:
        return []
    stride = stride_for(last_step)
    found: dict[str, Panel] = {m.name: Panel(m, stride=stride) for m in METRICS}
    for metric, step, value in _sampled(reported, stride, run, last_step):
        found[metric].steps.append(step)
        found[metric].values.append(value)
    return [panel for panel in found.values() if panel.values]


def stride_for(last_step: int, max_points: int = MAX_POINTS) -> int:
    """The least power of two that leaves at most `max_points` of the steps 0..last_step."""
    stride = 1
    while last_step // stride + 1 > max_points:
        stride *= 2
    return stride


def _sampled(points: QuerySet[Point], stride: int, run: Run, last_step: int) -> Iterator[tuple[str, int, float]]:
    """(metric, step, value) of every stride-th step and the newest one; superseded points left out."""
    kept = points.annotate(phase=Mod(F("step"), stride)).filter(Q(phase=0) | Q(step=last_step))
    limits = superseded_from(run)
    rows = kept.order_by("step", "seq").values_list("series__metric", "step", "value", "attempt")
    for metric, step, value, attempt in rows:
        if step <= limits.get(attempt, step):
            yield metric, step, value


def superseded_from(run: Run) -> dict[int, int]:
    """Of each attempt that a later one resumed from: the last step that still counts."""
    limits: dict[int, int] = {}
    resumed = run.attempts.exclude(resumed_from_step=None).values_list("number", "resumed_from_step")
    for number, step in resumed:
        for earlier in range(1, number):
            limits[earlier] = min(step, limits.get(earlier, step))
    return limits
