"""Where the time of some steps went: a drawing of lanes, and the same in numbers.

The machines of a run as small multiples, one node at a time, by the parts of the run on it.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any

from django.http import QueryDict

from webapp.base.disk import bytes_in_words
from webapp.base.formats import whole_in
from webapp.interfaces.pages.marks import Limit, duration
from webapp.record.alarm_rules import rules
from webapp.record.runs.models import Run
from webapp.record.runs.timeline import (
    HOST,
    LANES,
    Figure,
    Line,
    Span,
    Timeline,
    figures_of,
    lines_of,
    timeline_of,
)
from webapp.reporting.alarms import judge
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.shares.drawing import Values, side_by_side

STEPS = 20  # that a page draws
WIDTH, ROW, GAP, MOST_ROWS = 1000, 14, 10, 12
WORDS = {
    "generate": "generation", "reward": "rewards", "weights": "weights on their way", "update": "update",
    "wait": "waits for a batch", "evaluate": "evaluation", "gen": "generation", "testing": "evaluation",
}  # fmt: skip
PLACES = {"wait": "waits"}  # the rest has the colour of its lane
MOST_PANELS = 200  # of a node
TITLES = {
    "cpu_fraction": "CPU", "memory_fraction": "Memory", "memory_bytes": "Memory in use", "disk_fraction": "Disk full",
    "disk_read_bytes_per_second": "Disk, read", "disk_written_bytes_per_second": "Disk, written",
    "network_received_bytes_per_second": "Network, received", "network_sent_bytes_per_second": "Network, sent",
    "gpu_busy_fraction": "GPUs busy, mean", "gpu_memory_fraction": "Fullest GPU memory", "busy_fraction": "busy",
    "power_watts": "power",
}  # fmt: skip


def timeline_context(run: Run, query: QueryDict) -> dict[str, Any]:
    """The steps up to `until` of the query, or the newest."""
    found = timeline_of(run, until_of(query), STEPS)
    if not found.spans:
        return {"timeline": found}
    tops, height = _places(found.spans)
    began, length = _ends(found.spans)
    return {
        "timeline": found,
        "lanes": [(lane, top + ROW) for lane, top in tops.items()],  # where their names stand
        "bars": _bars(found.spans, tops, began, length),
        "height": height,
        "totals": (parts := totals(found)),
        "says": says(parts),
        "span": _seconds(length),
        "earlier": found.first - 1 if found.first > 0 else None,
        "later": min(found.newest or 0, found.last + STEPS) if found.last < (found.newest or 0) else None,
    }


def until_of(query: QueryDict) -> int | None:
    """The step that is asked for; None for the newest, and for what is no step."""
    return whole_in(query.get("until", ""), 15)


def totals(timeline: Timeline) -> list[dict[str, Any]]:
    """What each part took: of a step on average, and of the steps' time."""
    length = _of_steps(timeline.spans)
    steps = len({span.step for span in timeline.spans if span.lane != "Evaluation"}) or 1
    sums: dict[tuple[int, str], float] = {}
    for span in timeline.spans:
        place = LANES.index(span.lane), WORDS.get(span.name, span.name.replace("_", " "))
        sums[place] = sums.get(place, 0.0) + span.seconds
    return [
        {
            "lane": LANES[lane],
            "name": name,
            "a_step": _seconds(seconds / steps),
            "share": f"{100 * seconds / length:.0f} %",
            "seconds": seconds,
        }
        for (lane, name), seconds in sorted(sums.items())
    ]


def says(parts: Sequence[Mapping[str, Any]]) -> str:
    """What took longest, and for how much of the time the trainer waited, where that is known."""
    waits = [part for part in parts if part["name"] == WORDS["wait"]]
    longest = max((part for part in parts if part not in waits), key=lambda part: part["seconds"])
    said = [f"{longest['a_step']} of {longest['name']} a step is the longest part"]
    return "; ".join(said + [f"the trainer waits for {part['share']} of its time" for part in waits]) + "."


def _ends(spans: Sequence[Span]) -> tuple[float, float]:
    """When the first began, and seconds from there to the last end."""
    began = min(span.began for span in spans)
    return began, max(max(span.began + span.seconds for span in spans) - began, 1e-3)


def _of_steps(spans: Sequence[Span]) -> float:
    """Seconds that the steps took. Where the trainer waits for batches, they are made before its steps begin."""
    began, length = _ends(spans)
    trainer = [span for span in spans if span.lane == "Trainer"]
    if not any(span.name == "wait" for span in trainer):
        return length
    return began + length - min(span.began for span in trainer)


def _places(spans: Sequence[Span]) -> tuple[dict[str, int], int]:
    """(lane -> its upper end, from the top, of lanes that have spans; the height of all)."""
    height, tops = 0, {}
    for lane in LANES:
        if rows := [span.row for span in spans if span.lane == lane]:
            tops[lane] = height
            height += ROW * min(MOST_ROWS, max(rows) + 1) + GAP
    return tops, height


def _bars(
    spans: Sequence[Span], tops: Mapping[str, int], began: float, length: float
) -> list[dict[str, Any]]:
    return [
        {
            "x": f"{WIDTH * (span.began - began) / length:.1f}",
            "y": tops[span.lane] + ROW * (span.row % MOST_ROWS) + 2,
            "width": f"{max(1.0, WIDTH * span.seconds / length):.1f}",
            "css": PLACES.get(span.name, f"s{LANES.index(span.lane) + 1}"),
            "words": f"step {span.step}: {WORDS.get(span.name, span.name)}, {_seconds(span.seconds)}",
        }
        for span in spans
    ]


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 10 else duration(timedelta(seconds=seconds))


def in_words(what: str, value: float) -> str:
    """ "43 %", "12.3 GiB", "1.2 MiB/s", "312 W"."""
    if what.endswith("_bytes_per_second"):
        return f"{bytes_in_words(value)}/s"
    if what.endswith("_bytes"):
        return bytes_in_words(value)
    if what.endswith("_fraction"):
        return f"{100 * value:.0f} %"
    return f"{value:.0f} W" if what.endswith("_watts") else judge.number(what, value)


def machines_context(run: Run, alarms: Sequence[Alarm], wanted: str) -> dict[str, Any]:
    """The nodes, and the panels of one of them by part: the one that is `wanted`, else the first."""
    figures = figures_of(run)
    if not (nodes := list(dict.fromkeys(one.node for one in figures))):
        return {"nodes": []}
    node = wanted if wanted in nodes else nodes[0]
    own = [one for one in figures if one.node == node][:MOST_PANELS]
    lines = lines_of(run, own)
    panels = [_panel(one, lines[one.metric], alarms) for one in own]
    parts = [
        (_part_title(part), found := list(of_it), _values(found))
        for part, of_it in groupby(panels, key=lambda one: one["figure"].part)
    ]
    width = duration(timedelta(seconds=panels[0]["line"].width))
    missing = wanted if wanted and wanted not in nodes else ""
    return {"nodes": nodes, "node": node, "missing": missing, "parts": parts, "width": width}


def _values(panels: Sequence[Mapping[str, Any]]) -> Values:
    """The lines of a part as a table over the run's clock."""
    said = lambda one: [in_words(one["figure"].what, value) for value in one["line"].values]
    columns = [(one["title"], dict(zip(one["line"].hours, said(one), strict=True))) for one in panels]
    return side_by_side("Hours", columns, {at for one in panels for at in one["line"].hours})


def _part_title(part: str) -> str:
    return {HOST: "The machine", "": "The machine of its client"}.get(
        part, part.replace("-", " ").capitalize()
    )


def _title(figure: Figure) -> str:
    device, _, what = figure.what.rpartition("/")
    if not figure.node:
        return figure.what
    said = TITLES.get(what, what)
    if not device:
        return said
    return f"{device.upper().replace('GPU', 'GPU ')} {said[0].lower()}{said[1:]}"


def _panel(figure: Figure, line: Line, alarms: Sequence[Alarm]) -> dict[str, Any]:
    """One figure of a machine with the limits of its alarms: those that it is near, or has been beyond."""
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
    latest, largest = (in_words(figure.what, value) for value in (line.latest, line.largest))
    title = _title(figure)
    return {
        "figure": figure,
        "line": line,
        "limits": limits,
        "alarm": alarm if alarm and alarm.active else None,
        "slug": figure.metric.replace("/", "-"),  # as alarms link it
        "title": title,
        "latest": latest,
        "largest": largest,
        "label": f"{title} over the run's clock, now {latest}, at most {largest}",
        # What the picture shows in any case: all of a share, else the zero.
        "sight": (0.0, 1.0 if figure.what.endswith("_fraction") else 0.0),
    }
