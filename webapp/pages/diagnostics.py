"""The small multiples of the run page: which metrics, their latest values, and what is alarming.

All panels come from two queries. A panel shows every 2^k-th step, k the least that keeps it under MAX_POINTS, so
that a point once drawn never moves: later it is kept or left out (the page says so).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db.models import F, Max, Q, QuerySet
from django.db.models.functions import Mod

from webapp.curves import words
from webapp.runs.models import Point, Run
from webapp.runs.selectors import effective

MAX_POINTS = 120


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
        alarm_words="of the answers are cut off at the length limit; from 10 % on training tends to become unstable",
    ),
    Metric("train/entropy", "Entropy"),
    Metric("train/grad_norm", "Gradient norm"),
    Metric("train/ratio_max", "Largest ratio"),
    Metric("train/ratio_clip_fraction", "Clipped ratios", share=True),
    Metric("train/mismatch_logp_mean", "Log-prob gap"),
    Metric("train/mismatch_logp_max", "Log-prob gap, max"),
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
        if self.metric.share:
            return f"{100 * value:.3g} %"
        return f"{value:.3g}" if 0.001 <= abs(value) < 1000 else words.amount(value)

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
    reported = effective(Point.objects.filter(series__run=run, series__metric__in=names))
    last_step = reported.aggregate(last=Max("step"))["last"]
    if last_step is None:
        return []
    stride = stride_for(last_step)
    found: dict[str, Panel] = {m.name: Panel(m, stride=stride) for m in METRICS}
    for metric, step, value in _sampled(reported, stride, last_step):
        found[metric].steps.append(step)
        found[metric].values.append(value)
    return [panel for panel in found.values() if panel.values]


def stride_for(last_step: int, max_points: int = MAX_POINTS) -> int:
    """The least power of two that leaves at most `max_points` of the steps 0..last_step."""
    stride = 1
    while last_step // stride + 1 > max_points:
        stride *= 2
    return stride


def _sampled(points: QuerySet[Point], stride: int, last_step: int) -> Iterable[tuple[str, int, float]]:
    """(metric, step, value) of every stride-th step and the newest one."""
    kept = points.annotate(phase=Mod(F("step"), stride)).filter(Q(phase=0) | Q(step=last_step))
    return kept.order_by("step", "attempt", "seq").values_list("series__metric", "step", "value")
