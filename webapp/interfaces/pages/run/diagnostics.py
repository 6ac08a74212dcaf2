"""The diagnostics of a run: panels with what its alarms say of each metric, their thresholds and their points.

The newest value of each metric and the alarming points are always drawn over steps, so that no alarm hides between the
points of a thinned line.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from django.http import QueryDict
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from webapp.interfaces.pages.marks import alarm_mark
from webapp.interfaces.pages.panels import panels_context, panels_payload, window_of
from webapp.record.alarm_rules import Rule, rules
from webapp.record.runs.models import Run
from webapp.record.runs.panels import newest_of
from webapp.record.runs.selectors import metric_names
from webapp.record.runs.thinned import Window
from webapp.reporting.alarms import judge
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.selectors import most_severe

NEAR = 0.5  # a limit is drawn from half of it on
PREFIX = "panels-"  # of the panels' names in the address: the curve has an `x` and a `lo`, too
MOST_PANELS = 24
Payload = dict[str, Any]
TITLES = {
    "train/reward": "Training reward",
    "train/truncation_rate": "Truncation rate",
    "eval/truncation_rate": "Truncation, evaluations",
    "train/entropy": "Entropy",
    "train/grad_norm": "Gradient norm",
    "train/ratio_max": "Largest ratio",
    "train/ratio_min": "Smallest ratio",
    "train/ratio_clip_fraction": "Clipped ratios",
    "train/mismatch_logp_mean": "Log-prob gap",
    "train/mismatch_logp_max": "Log-prob gap, max",
    "train/kl": "KL",
    "train/kl_reference": "KL to the start",
    "train/response_length": "Response length",
    "train/effective_batch": "Effective batch",
    "train/verifier_failure_rate": "Verifier failures",
    "eval/verifier_failure_rate": "Verifier failures, evaluations",
    "train/staleness_mean": "Staleness, mean",
    "train/staleness_max": "Staleness, max",
    "train/token_staleness_mean": "Staleness of tokens, mean",
    "perf/tokens_per_second": "Tokens per second",
    "perf/generator_idle": "Generator idle",
    "perf/trainer_idle": "Trainer idle",
}


def diagnostics_context(run: Run, query: QueryDict) -> Payload:
    """What the tab has before its script asks for the panels; none where nothing is reported."""
    names = metric_names(run)
    url = reverse("run-panels", args=[run.pk])
    return {
        "panels": panels_context(query, url, PREFIX) if names else None,
        "most_metrics": run.project.max_metrics if len(names) >= run.project.max_metrics else None,
    }


def diagnostics_payload(run: Run, alarms: Sequence[Alarm], query: QueryDict) -> Payload:
    """The panels of the run, those of TITLES where the query names none, with what its alarms say of each."""
    payload = panels_payload([run], query, PREFIX, usual=tuple(TITLES), most=MOST_PANELS)
    newest = newest_of([run.pk], [panel["metric"] for panel in payload["panels"]])
    over_steps = payload["x"]["key"] == "step"
    # Of a metric whose points a resume has all put aside there is nothing to show.
    payload["panels"] = [panel for panel in payload["panels"] if (run.pk, panel["metric"]) in newest]
    for panel in payload["panels"]:
        own = [alarm for alarm in alarms if alarm.metric == panel["metric"]]
        step, value = newest[run.pk, panel["metric"]]
        marks = (
            sorted({(at, y) for alarm in own for at, y in alarm.marks if y is not None}) if over_steps else []
        )
        for line in panel["lines"] if over_steps else ():
            _draw_also(line, [*marks, (step, value)], window_of(query, PREFIX))
        values = [y for line in panel["lines"] for y in line["y"] if y is not None] or [value]
        panel |= _judged(panel, own, value, values) | {"marks": marks}
    return payload


def _draw_also(line: Payload, points: Sequence[tuple[float, float]], window: Window) -> None:
    """Put points that the stride left out into a line over steps."""
    drawn = set(line["x"])
    more = [(x, y) for x, y in dict(points).items() if x not in drawn and window[0] <= x <= window[1]]
    if more:
        line["x"], line["y"] = zip(
            *sorted([*zip(line["x"], line["y"], strict=True), *more], key=itemgetter(0)), strict=True
        )


def _judged(panel: Payload, alarms: Sequence[Alarm], newest: float, values: Sequence[float]) -> Payload:
    """What is said of a panel beside its values: its title, newest value and alarm, and the limits that are drawn."""
    metric, title = panel["metric"], TITLES.get(panel["metric"])
    alarming = next((alarm for alarm in most_severe(alarms) if alarm.active), None)
    is_finite = not any(alarm.active and alarm.threshold is None for alarm in alarms)
    latest = judge.number(metric, newest if is_finite else None)
    levels = "".join(f"; {alarm.level}" for alarm in alarms if alarm.active)
    until = ""
    if alarms and alarming is None:
        until = f"Alarmed until step {max(alarm.last_step for alarm in alarms):,}."
    return {
        "id": f"metric-{metric.replace('/', '-')}",
        "title": title,
        "label": f"{title or metric}, latest {latest}{levels},",
        "in_percent": judge.is_share(metric),
        "said_html": _said(metric, latest, alarming),
        "note": f"{until} {panel['note']}".strip(),
        "limits": [
            {
                "value": limit,
                "upwards": rule.comparison.upwards,
                "level": str(rule.level),
                "text": f"{rule.level} {'from' if rule.comparison.upwards else 'down from'} "
                f"{judge.number(metric, limit)}",
            }
            for rule, limit in _limits(metric, alarms, values)
        ],
    }


def _said(metric: str, latest: str, alarming: Alarm | None) -> SafeString:
    """The newest value, as a mark where it alarms."""
    if alarming is None:
        return format_html('<span class="small muted">{}</span>', latest)
    return format_html(
        '<span class="small pill {}" data-alarm="{}">{}{} {}</span>',
        alarming.level, metric, alarm_mark(alarming.level), alarming.level, latest,
    )  # fmt: skip


def _limits(metric: str, alarms: Sequence[Alarm], values: Sequence[float]) -> list[tuple[Rule, float]]:
    """The thresholds in sight: of its alarms, those that the values are near, and the first of any rate."""
    own = [rule for rule in rules() if rule.metric == metric]
    known = {alarm.rule: alarm.threshold for alarm in alarms}
    always = known.keys() | ({own[0].name} if own and judge.is_share(metric) else set())
    limits = [
        (rule, known.get(rule.name, None if rule.comparison.relative else rule.threshold)) for rule in own
    ]
    return [
        (rule, limit)
        for rule, limit in limits
        if limit is not None and (rule.name in always or _is_near(rule, limit, values))
    ]


def _is_near(rule: Rule, limit: float, values: Sequence[float]) -> bool:
    if rule.comparison.upwards:
        return max(values) >= NEAR * limit
    return 0 < min(values) <= limit / NEAR
