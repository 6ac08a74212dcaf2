"""Where the time of a run's steps went: spans of its parts on the clock, from what its records say of themselves.

Headroom's driver tells how long each part took and how long before the record it ended (`training.driver.stepmetrics`);
its older records the share in which the trainer waited; and verl `timing_s/...`, one part after the other.

What the machines of a run do, on its clock: the series whose names begin with `system/` (`headroom.system`).

Their points are all shown, also those of an attempt that a later one has superseded: the machines did that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from typing import Any

from headroom.adapters.naming import SYSTEM
from webapp.base.compiled import rows_of
from webapp.record.runs.models import Run
from webapp.record.runs.sampling import MAX_POINTS
from webapp.record.runs.selectors import series_of

GENERATOR, REWARDS, WEIGHTS, TRAINER, EVALUATION = LANES = (
    "Generator",
    "Rewards",
    "Weights",
    "Trainer",
    "Evaluation",
)
OURS = {
    "generate": GENERATOR,
    "reward": REWARDS,
    "weights": WEIGHTS,
    "update": TRAINER,
    "evaluate": EVALUATION,
}
STEP, IDLE = "perf/step_seconds", "perf/trainer_idle"
VERL_STEP = "timing_s/step"
VERL = {  # in the order of a step
    "gen": GENERATOR, "reward": REWARDS, "old_log_prob": TRAINER, "ref": TRAINER, "values": TRAINER, "adv": TRAINER,
    "update_critic": TRAINER, "update_actor": TRAINER, "update_weights": WEIGHTS, "save_checkpoint": TRAINER,
    "testing": EVALUATION,
}  # fmt: skip
NAMES = [
    STEP, IDLE, *(f"perf/{name}_seconds" for name in OURS), *(f"perf/{name}_ago_seconds" for name in OURS),
    VERL_STEP, *(f"timing_s/{name}" for name in VERL),
]  # fmt: skip
MOST_STEPS = 1000  # of a file

_NEWEST = """
SELECT max(newest.step) FROM runs_series AS s JOIN LATERAL (
    SELECT step FROM runs_effective_point AS p WHERE p.series_id = s.id ORDER BY attempt DESC, seq DESC LIMIT 1
) AS newest ON true
WHERE s.run_id = %(run)s AND s.metric = ANY(%(names)s)
"""
_VALUES = """
SELECT attempt, seq, step, date_part('epoch', time), metric, value FROM runs_effective_point
WHERE run_id = %(run)s AND metric = ANY(%(names)s) AND step BETWEEN %(lo)s AND %(hi)s ORDER BY attempt, seq
"""
SECONDS = 15.0  # between two looks
HOST = "host"
_ENDS = """
SELECT s.id, s.metric, first.time, newest.time, newest.value FROM runs_series AS s
JOIN LATERAL (SELECT time FROM runs_point WHERE series_id = s.id ORDER BY attempt, seq LIMIT 1) AS first ON true
JOIN LATERAL (
    SELECT time, value FROM runs_point WHERE series_id = s.id ORDER BY attempt DESC, seq DESC LIMIT 1
) AS newest ON true
WHERE s.run_id = %(run)s AND s.metric = ANY(%(metrics)s)
"""
_STRETCHES = """
SELECT series_id, floor(date_part('epoch', time - %(start)s) / %(width)s)::bigint AS place, avg(value), max(value)
FROM runs_point WHERE series_id = ANY(%(series)s) GROUP BY series_id, place ORDER BY series_id, place
"""


@dataclass(frozen=True)
class Span:
    """`began`: seconds since 1970. `row`: within its lane, where spans overlap."""

    lane: str
    name: str
    step: int
    began: float
    seconds: float
    row: int = 0


@dataclass(frozen=True)
class Timeline:
    """Spans of the steps `first` to `last`, in the order of their beginnings; `newest`: the run's last timed step."""

    spans: list[Span]
    first: int = 0
    last: int = 0
    newest: int | None = None


def timeline_of(run: Run, last: int | None = None, steps: int = MOST_STEPS) -> Timeline:
    """The steps up to `last` (the newest, if nothing is said). Two queries."""
    ((newest,),) = rows_of(_NEWEST, {"run": run.pk, "names": NAMES})
    if newest is None:
        return Timeline([])
    hi = newest if last is None else max(0, min(last, newest))
    lo = max(0, hi - steps + 1)
    found = _records(rows_of(_VALUES, {"run": run.pk, "names": NAMES, "lo": lo, "hi": hi}))
    spans = [span for step, ended, values in found for span in spans_in(step, ended, values)]
    return Timeline(in_rows(spans), lo, hi, newest)


def _records(rows: Sequence[tuple]) -> Iterable[tuple[int, float, dict[str, float]]]:
    """(step, seconds since 1970, name -> value) of each record."""
    records: dict[tuple[int, int], tuple[int, float, dict[str, float]]] = {}
    for attempt, seq, step, ended, metric, value in rows:
        records.setdefault((attempt, seq), (step, ended, {}))[2][metric] = value
    return records.values()


def spans_in(step: int, ended: float, values: Mapping[str, float]) -> list[Span]:
    """What a record that came at `ended` tells."""
    if VERL_STEP in values:
        return _one_after_the_other(step, ended - values[VERL_STEP], values)
    spans = []
    for name, lane in OURS.items():
        if (seconds := values.get(f"perf/{name}_seconds")) is not None:
            began = ended - values.get(f"perf/{name}_ago_seconds", 0.0) - seconds
            spans.append(Span(lane, name, step, began, seconds))
    if STEP in values and IDLE in values:
        waited = values[STEP] * values[IDLE]
        if (update := next((span for span in spans if span.lane == TRAINER), None)) is None:
            update = Span(TRAINER, "update", step, ended - values[STEP] + waited, values[STEP] - waited)
            spans.append(update)
        spans.append(Span(TRAINER, "wait", step, update.began - waited, waited))
    return [span for span in spans if span.seconds > 0]


def _one_after_the_other(step: int, began: float, values: Mapping[str, float]) -> list[Span]:
    known = [
        (name, lane, values[f"timing_s/{name}"])
        for name, lane in VERL.items()
        if f"timing_s/{name}" in values
    ]
    starts = accumulate((seconds for *_, seconds in known), initial=began)
    return [
        Span(lane, name, step, start, seconds)
        for (name, lane, seconds), start in zip(known, starts, strict=False)
        if seconds > 0
    ]


def in_rows(spans: Sequence[Span]) -> list[Span]:
    """By their beginnings; what overlaps in a lane is in the first row that is free."""
    ends: dict[str, list[float]] = {}
    placed = []
    for span in sorted(spans, key=lambda one: (one.began, one.step)):
        rows = ends.setdefault(span.lane, [])
        row = next((i for i, end in enumerate(rows) if end <= span.began + 1e-3), len(rows))
        rows[row:] = [span.began + span.seconds, *rows[row + 1 :]]
        placed.append(replace(span, row=row))
    return placed


def as_trace(run: Run, timeline: Timeline) -> dict[str, Any]:
    """As Perfetto and Chrome's tracing read it: microseconds since 1970, a thread for each row of a lane."""
    rows = sorted({(LANES.index(span.lane), span.row) for span in timeline.spans})
    threads = {place: number for number, place in enumerate(rows, 1)}
    named = [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": thread, "args": {"name": LANES[lane]}}
        for (lane, _), thread in threads.items()
    ]
    events = [
        {
            "name": span.name, "cat": span.lane, "ph": "X", "pid": 1, "tid": threads[LANES.index(span.lane), span.row],
            "ts": round(1e6 * span.began), "dur": round(1e6 * span.seconds), "args": {"step": span.step},
        }
        for span in timeline.spans
    ]  # fmt: skip
    process = {
        "name": "process_name",
        "ph": "M",
        "pid": 1,
        "tid": 0,
        "args": {"name": f"{run.name} ({run.pk})"},
    }
    return {"displayTimeUnit": "ms", "traceEvents": [process, *named, *events]}


@dataclass(frozen=True)
class Figure:
    """Whose it is: of a machine and a part of the run on it, and what is measured. `what` may name a device before."""

    metric: str
    node: str
    part: str
    what: str


@dataclass
class Line:
    """Means [m] of stretches of `width` seconds, by the hours since the run's start at their beginnings; the newest
    value, and the largest."""

    width: float
    latest: float
    largest: float
    hours: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def figure_of(metric: str) -> Figure:
    """Of `system/NODE/PART/WHAT`. What other clients report names no machine: it is one of its run's client."""
    node, _, rest = metric.removeprefix(SYSTEM).partition("/")
    part, _, what = rest.partition("/")
    is_ours = what.endswith(("_fraction", "_bytes", "_watts", "_bytes_per_second"))
    return (
        Figure(metric, node, part, what) if is_ours else Figure(metric, "", "", metric.removeprefix(SYSTEM))
    )


def figures_of(run: Run) -> list[Figure]:
    """What is known of the run's machines, by node, the machine itself before the parts on it, then by name."""
    names = series_of(run).filter(metric__startswith=SYSTEM).values_list("metric", flat=True)
    return sorted(map(figure_of, names), key=lambda one: (one.node, one.part != HOST, one.part, one.what))


def lines_of(run: Run, figures: Sequence[Figure]) -> dict[str, Line]:
    """Metric -> its line. Two queries. The width is the least 15 s x 2^k that leaves at most MAX_POINTS stretches, so
    that what is drawn of a whole stretch never moves."""
    ends = rows_of(_ENDS, {"run": run.pk, "metrics": [one.metric for one in figures]})
    if not ends:
        return {}
    starts = [first for _, _, first, _, _ in ends] + ([run.started_at] if run.started_at else [])
    start: datetime = min(starts)
    width = width_for(max((newest - start).total_seconds() for _, _, _, newest, _ in ends))
    found = {pk: Line(width, latest, latest) for pk, *_, latest in ends}
    asked = {"start": start, "width": width, "series": list(found)}
    for pk, place, mean, largest in rows_of(_STRETCHES, asked):
        line = found[pk]
        line.hours.append(place * width / 3600)
        line.values.append(mean)
        line.largest = max(line.largest, largest)
    return {metric: found[pk] for pk, metric, *_ in ends}


def width_for(seconds: float) -> float:
    """The least 15 s x 2^k of which at most MAX_POINTS fill this time."""
    width = SECONDS
    while seconds / width >= MAX_POINTS:
        width *= 2
    return width
