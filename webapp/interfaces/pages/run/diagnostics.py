"""The small multiples of the run page: which metrics, their latest values, and what is alarming.

All panels come from two queries. A panel shows every 2^k-th step, k the least that keeps it under MAX_POINTS, so
that a point once drawn never moves: later it is kept or left out. The newest value of each metric and the alarming
points are always drawn, so that no alarm hides between the steps (the page says so).

One metric as a full chart, sampled in the database and saying so; and the names of those that have no panel.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.text import slugify

from webapp.interfaces.pages.marks import Limit
from webapp.record.alarm_rules import Rule, rules
from webapp.record.runs.models import Run
from webapp.record.runs.points import CurvePoint
from webapp.record.runs.sampling import LARGEST, LAST, SMALLEST, Sampled, sampled_points, thinned_series
from webapp.record.runs.selectors import metric_names, stored_name
from webapp.reporting.alarms import judge
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.selectors import most_severe
from webapp.science.curves.words import amount, count

NEAR = 0.5  # a limit is drawn from half of it on
Payload = dict[str, Any]
POINTS = 1000
MOST_OTHERS = 1000  # names in the list; any can be asked for


@dataclass(frozen=True)
class Metric:
    """A metric as a panel."""

    name: str
    title: str

    @property
    def slug(self) -> str:
        """Its panel's id on the page."""
        return self.name.replace("/", "-")


METRICS = (
    Metric("train/reward", "Training reward"),
    Metric("train/truncation_rate", "Truncation rate"),
    Metric("eval/truncation_rate", "Truncation, evaluations"),
    Metric("train/entropy", "Entropy"),
    Metric("train/grad_norm", "Gradient norm"),
    Metric("train/ratio_max", "Largest ratio"),
    Metric("train/ratio_min", "Smallest ratio"),
    Metric("train/ratio_clip_fraction", "Clipped ratios"),
    Metric("train/mismatch_logp_mean", "Log-prob gap"),
    Metric("train/mismatch_logp_max", "Log-prob gap, max"),
    Metric("train/kl", "KL"),
    Metric("train/kl_reference", "KL to the start"),
    Metric("train/response_length", "Response length"),
    Metric("train/effective_batch", "Effective batch"),
    Metric("train/verifier_failure_rate", "Verifier failures"),
    Metric("eval/verifier_failure_rate", "Verifier failures, evaluations"),
    Metric("train/staleness_mean", "Staleness, mean"),
    Metric("train/staleness_max", "Staleness, max"),
    Metric("train/token_staleness_mean", "Staleness of tokens, mean"),
    Metric("perf/tokens_per_second", "Tokens per second"),
    Metric("perf/generator_idle", "Generator idle"),
    Metric("perf/trainer_idle", "Trainer idle"),
)


@dataclass
class Panel:
    """One small multiple."""

    metric: Metric
    alarms: list[Alarm] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    stride: int = 1

    @property
    def latest(self) -> str:
        """The newest value with three significant digits; "not finite" where that is what was reported last."""
        is_finite = not any(alarm.active and alarm.threshold is None for alarm in self.alarms)
        return judge.number(self.metric.name, self.values[-1] if is_finite else None)

    @property
    def label(self) -> str:
        """What the picture shows, for readers who do not see it."""
        said = "".join(f"; {alarm.level}" for alarm in self.alarms if alarm.active)
        steps = f"over steps {self.steps[0]} to {self.steps[-1]}"
        return f"{self.metric.title} {steps}, latest {self.latest}{said}"

    @property
    def alarming(self) -> Alarm | None:
        """The most severe active alarm."""
        return next((alarm for alarm in most_severe(self.alarms) if alarm.active), None)

    @property
    def alarmed_until(self) -> int | None:
        """The last step of an alarm that is over, where none is active."""
        return None if self.alarming else max((alarm.last_step for alarm in self.alarms), default=None)

    @property
    def limits(self) -> list[Limit]:
        """The thresholds in sight: of its alarms, those that the values are near, and the first of any rate."""
        own = [rule for rule in rules() if rule.metric == self.metric.name]
        known = {alarm.rule: alarm.threshold for alarm in self.alarms}
        always = {own[0].name} if own and judge.is_share(self.metric.name) else set()
        limits = [
            (rule, known.get(rule.name, None if rule.comparison.relative else rule.threshold)) for rule in own
        ]
        return [
            Limit(limit, rule.comparison.upwards, rule.level)
            for rule, limit in limits
            if limit is not None and (rule.name in known.keys() | always or self._is_near(rule, limit))
        ]

    def _is_near(self, rule: Rule, limit: float) -> bool:
        if rule.comparison.upwards:
            return max(self.values) >= NEAR * limit
        return 0 < min(self.values) <= limit / NEAR

    @property
    def dots(self) -> list[tuple[int, float]]:
        """The alarming points that must be seen, whatever the stride."""
        return sorted(
            {(step, value) for alarm in self.alarms for step, value in alarm.marks if value is not None}
        )

    def draw_alarming(self) -> None:
        """Put the alarming points that the stride left out into the line."""
        drawn = set(self.steps)
        if extra := [(step, value) for step, value in self.dots if step not in drawn]:
            line = sorted([*zip(self.steps, self.values, strict=True), *extra], key=lambda point: point[0])
            self.steps, self.values = [step for step, _ in line], [value for _, value in line]


def panels(run: Run, alarms: Sequence[Alarm] = ()) -> list[Panel]:
    """Panels of the metrics that the run reports, in the order of METRICS, with the alarms of each."""
    lines, stride = thinned_series(run, [metric.name for metric in METRICS])
    shown = [
        Panel(metric, [a for a in alarms if a.metric == metric.name], line.steps, line.values, stride)
        for metric in METRICS
        if (line := lines.get(metric.name)) is not None
    ]
    for panel in shown:
        panel.draw_alarming()
    return shown


TITLES = {metric.name: metric.title for metric in METRICS}


def diagnostics_context(run: Run, panels: Sequence[Panel], wanted: str) -> Payload:
    """The panels, the run's other metrics, and the one that is `wanted` enlarged (or why it cannot be)."""
    names = metric_names(run)
    others = [name for name in names if name not in TITLES and not name.endswith("_stderr")]
    context: Payload = {
        "panels": panels,
        "others": others[:MOST_OTHERS],
        "more_others": len(others) > MOST_OTHERS,
    }
    if len(names) >= run.project.max_metrics:
        context["most_metrics"] = run.project.max_metrics
    if not wanted:
        return context
    if (found := stored_name(run, wanted)) is None:
        return context | {"missing": wanted}
    wanted = found
    panel = next((panel for panel in panels if panel.metric.name == wanted), None)
    return context | {"big": enlarged(wanted, sampled_points(run, wanted, "step", POINTS), panel)}


def enlarged(name: str, sample: Sampled, panel: Panel | None) -> Payload:
    """A metric's chart over steps: its points, the limits of its alarms, and what alarmed whatever the sampling."""
    latest = sample.points[-1].value if sample.points else None
    line = _those(sample, LAST)
    return {
        "name": name,
        "slug": slugify(name),
        "title": TITLES.get(name, name),
        "latest": panel.latest if panel else judge.number(name, latest),
        "caption": caption(sample),
        "chart": {
            "kind": "metric",
            "x": {"key": "step", "label": "Steps", "short": "steps"},
            "label": TITLES.get(name, name),
            "points": {
                "x": [point.step for point in line],
                "y": [point.value for point in line],
                "text": [_hover(name, point.value, point.device_hours) for point in line],
            },
            "band": band(sample),
            "limits": [
                {
                    "value": limit.value,
                    "upwards": limit.upwards,
                    "level": str(limit.level),
                    "text": f"{limit.level} {'from' if limit.upwards else 'down from'} "
                    f"{judge.number(name, limit.value)}",
                }
                for limit in (panel.limits if panel else [])
            ],
            "alarming": {
                "x": [step for step, _ in panel.dots] if panel else [],
                "y": [value for _, value in panel.dots] if panel else [],
            },
        },
    }


def band(sample: Sampled) -> Payload | None:
    """Smallest and largest values between the points of the line, at their steps; None for a whole series."""
    if not sample.sampled:
        return None
    return {
        name: {"x": [point.step for point in ends], "y": [point.value for point in ends]}
        for name, ends in (("lo", _those(sample, SMALLEST)), ("hi", _those(sample, LARGEST)))
    }


def _those(sample: Sampled, role: int) -> list[CurvePoint]:
    """Points of a role; all of a whole series."""
    if not sample.roles:
        return sample.points
    return [point for point, its in zip(sample.points, sample.roles, strict=True) if its & role]


def caption(sample: Sampled) -> str:
    """How many points are drawn of how many, and how they were chosen."""
    if not sample.sampled:
        return f"All {count(sample.total, 'value')}, none left out."
    shown = f"{len(sample.points):,} of {sample.total:,} values: {sample.method}"
    return f"{shown}; the line has the last ones, the band the others. Fits and exports read every one."


def _hover(name: str, value: float, hours: float | None) -> str:
    at = "" if hours is None else f", {amount(hours)} device-hours"
    return f"{judge.number(name, value)}{at}"
