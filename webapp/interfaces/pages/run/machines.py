"""The machines of a run as small multiples, one node at a time, by the parts of the run on it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any

from webapp.base.disk import bytes_in_words
from webapp.interfaces.pages.ages import duration
from webapp.interfaces.pages.marks import Limit
from webapp.record.alarm_rules.configured import rules
from webapp.record.runs.models import Run
from webapp.record.runs.timeline import HOST, Figure, Line, figures_of, lines_of
from webapp.reporting.alarms import words
from webapp.reporting.alarms.models import Alarm

MOST_PANELS = 200  # of a node
TITLES = {
    "cpu_fraction": "CPU", "memory_fraction": "Memory", "memory_bytes": "Memory in use", "disk_fraction": "Disk full",
    "disk_read_bytes_per_second": "Disk, read", "disk_written_bytes_per_second": "Disk, written",
    "network_received_bytes_per_second": "Network, received", "network_sent_bytes_per_second": "Network, sent",
    "gpu_busy_fraction": "GPUs busy, mean", "gpu_memory_fraction": "Fullest GPU memory", "busy_fraction": "busy",
    "power_watts": "power",
}  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """One figure of a machine."""

    figure: Figure
    line: Line
    limits: list[Limit] = field(default_factory=list)
    alarm: Alarm | None = None

    @property
    def slug(self) -> str:
        """Its id on the page, as alarms link it."""
        return self.figure.metric.replace("/", "-")

    @property
    def title(self) -> str:
        device, _, what = self.figure.what.rpartition("/")
        said = TITLES.get(what, what) if self.figure.node else self.figure.what
        if not self.figure.node or not device:
            return said
        return f"{device.upper().replace('GPU', 'GPU ')} {said[0].lower()}{said[1:]}"

    @property
    def sight(self) -> tuple[float, float]:
        """What its picture shows in any case: all of a share, else the zero."""
        return 0.0, 1.0 if self.figure.what.endswith("_fraction") else 0.0

    @property
    def latest(self) -> str:
        return in_words(self.figure.what, self.line.latest)

    @property
    def largest(self) -> str:
        return in_words(self.figure.what, self.line.largest)

    @property
    def label(self) -> str:
        """What the picture shows, for readers who do not see it."""
        return f"{self.title} over the run's clock, now {self.latest}, at most {self.largest}"


def in_words(what: str, value: float) -> str:
    """ "43 %", "12.3 GiB", "1.2 MiB/s", "312 W"."""
    if what.endswith("_bytes_per_second"):
        return f"{bytes_in_words(value)}/s"
    if what.endswith("_bytes"):
        return bytes_in_words(value)
    if what.endswith("_fraction"):
        return f"{100 * value:.0f} %"
    return f"{value:.0f} W" if what.endswith("_watts") else words.number(what, value)


def machines_context(run: Run, alarms: Sequence[Alarm], wanted: str) -> dict[str, Any]:
    """The nodes, and the panels of one of them by part: the one that is `wanted`, else the first."""
    figures = figures_of(run)
    nodes = list(dict.fromkeys(one.node for one in figures))
    if not nodes:
        return {"nodes": []}
    node = wanted if wanted in nodes else nodes[0]
    own = [one for one in figures if one.node == node][:MOST_PANELS]
    lines = lines_of(run, own)
    panels = [_panel(one, lines[one.metric], alarms) for one in own]
    parts = [
        (_part_title(part), list(of_it)) for part, of_it in groupby(panels, key=lambda one: one.figure.part)
    ]
    width = duration(timedelta(seconds=panels[0].line.width))
    missing = wanted if wanted and wanted not in nodes else ""
    return {"nodes": nodes, "node": node, "missing": missing, "parts": parts, "width": width}


def _part_title(part: str) -> str:
    return {HOST: "The machine", "": "The machine of its client"}.get(
        part, part.replace("-", " ").capitalize()
    )


def _panel(figure: Figure, line: Line, alarms: Sequence[Alarm]) -> Panel:
    """With the limits of its alarms: those that it is near, or has been beyond."""
    alarm = next((one for one in alarms if one.metric == figure.metric and one.threshold is not None), None)
    own = [
        rule
        for rule in rules()
        if rule.metric.startswith("system/") and fnmatchcase(figure.metric, rule.metric)
    ]
    limits = [
        Limit(rule.threshold, rule.comparison.upwards, rule.level)
        for rule in own
        if rule.threshold is not None
        and (alarm or rule.comparison.upwards and line.largest >= 0.8 * rule.threshold)
    ]
    return Panel(figure, line, limits, alarm if alarm and alarm.active else None)
