"""One metric as a full chart, sampled in the database and saying so; and the names of those that have no panel."""

from collections.abc import Sequence
from typing import Any

from django.utils.text import slugify

from webapp.interfaces.pages.run.diagnostics import METRICS, Panel
from webapp.record.runs.models import Run
from webapp.record.runs.points import CurvePoint
from webapp.record.runs.sampling import LARGEST, LAST, SMALLEST, Sampled, sampled_points
from webapp.record.runs.selectors import metric_names, stored_name
from webapp.reporting.alarms import words as alarm_words
from webapp.science.curves import words

Payload = dict[str, Any]
POINTS = 1000
MOST_OTHERS = 1000  # names in the list; any can be asked for
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
    found = stored_name(run, wanted)
    if found is None:
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
        "latest": panel.latest if panel else alarm_words.number(name, latest),
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
                    f"{alarm_words.number(name, limit.value)}",
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
        return f"All {words.count(sample.total, 'value')}, none left out."
    shown = f"{len(sample.points):,} of {sample.total:,} values: {sample.method}"
    return f"{shown}; the line has the last ones, the band the others. Fits and exports read every one."


def _hover(name: str, value: float, hours: float | None) -> str:
    at = "" if hours is None else f", {words.amount(hours)} device-hours"
    return f"{alarm_words.number(name, value)}{at}"
