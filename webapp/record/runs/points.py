"""Reading series: the effective points of one or many runs, unsampled and in the order of training.

Which points count says the view `runs_effective_point` (migration 0013); nothing else may say it again. PostgreSQL
cannot know how few series belong to the runs asked for, so these are looked up run by run before.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from headroom.adapters.naming import names_for
from webapp.base.compiled import rows_of
from webapp.record.runs.models import Run

PASS_RATE = "eval/pass_rate"
AXES = ("device_hours", "flops", "tokens", "step")

# Begins a statement; parameters: runs, an array of ids, and names, those that the metric may have (`naming.names_for`),
# of which the first that a run has counts; else the pass rate where its import calls it so.
CHOSEN = f"""
WITH chosen AS MATERIALIZED (
    SELECT s.id, s.run_id FROM (SELECT DISTINCT run_id FROM unnest(%(runs)s::text[]) AS one (run_id)) AS wanted
    CROSS JOIN LATERAL (
        SELECT id, run_id FROM runs_series WHERE run_id = wanted.run_id
            AND metric = ANY(array_append(%(names)s::text[], '{PASS_RATE}'))
            AND (metric = ANY(%(names)s::text[]) OR logged_as = (%(names)s::text[])[1])
        ORDER BY array_position(%(names)s::text[], metric::text) LIMIT 1
    ) AS s
)"""  # nosec B608  # a constant; values are parameters


class CurvePoint(NamedTuple):
    """One value of a series with all its x-axes."""

    attempt: int
    seq: int
    step: int
    time: datetime
    device_hours: float | None
    flops: float | None
    tokens: float | None
    value: float
    stderr: float | None


COLUMNS = ", ".join(f'p."{name}"' for name in CurvePoint._fields)
_ROWS = f"""{CHOSEN}
SELECT {COLUMNS} FROM chosen JOIN runs_effective_point AS p ON p.series_id = chosen.id
"""  # nosec B608  # constants; values are parameters


def effective_points(run: Run, metric: str = PASS_RATE) -> list[CurvePoint]:
    """Every effective point of a series. One query."""
    rows = rows_of(_ROWS, {"runs": [run.pk], "names": names_for(metric)})
    return sorted((CurvePoint(*row) for row in rows), key=attrgetter("attempt", "seq"))


_SUPERSEDED = f"""
SELECT {COLUMNS} FROM runs_series AS s
JOIN runs_effective_attempt AS own ON own.run_id = s.run_id
JOIN runs_point AS p ON p.series_id = s.id AND p.attempt = own.attempt AND p.step > own.last_step
WHERE s.run_id = %s AND s.metric = %s ORDER BY p.attempt, p.seq
"""  # nosec B608  # constants; values are parameters


def superseded_points(run: Run, metric: str = PASS_RATE) -> list[CurvePoint]:
    """What earlier attempts reported of a series past the step that a later one resumed from. One query.

    They are kept, and no chart or fit uses them unless it says so.
    """
    return [CurvePoint(*row) for row in rows_of(_SUPERSEDED, [run.pk, metric])]


# Bytes, because a hundred thousand numbers as objects would take longer to make than to find. Not in order: PostgreSQL
# would sort what comes attempt by attempt in the order of the index.
_ARRAYS = f"""{CHOSEN}
SELECT chosen.run_id, found.* FROM chosen CROSS JOIN LATERAL (
    SELECT {{columns}} FROM runs_effective_point AS p WHERE p.series_id = chosen.id AND {{where}} HAVING count(*) > 0
) AS found
"""  # nosec B608  # constants and names of columns; values are parameters
_SENT = {
    "attempt": ("int4send(p.attempt)", ">i4"), "seq": ("int8send(p.seq)", ">i8"), "step": ("int8send(p.step)", ">i8"),
}  # fmt: skip


def arrays_of(
    run_ids: Iterable[str], metric: str, columns: Sequence[str], where: str = "true", **values: float | None
) -> dict[str, list[np.ndarray]]:
    """Run -> some columns [n] of a series' effective points, NaN where a number is not known. One query.

    columns: of a CurvePoint, but for the time. where: SQL of the points `p` that are wanted, with its `values`. Runs
    without such points are left out.
    """
    sent = [
        _SENT.get(name, (f"float8send(coalesce(p.{name}, 'NaN'))", ">f8"))
        for name in ("seq", "attempt", *columns)
    ]
    selected = ", ".join(f"string_agg({bytes_of}, '')" for bytes_of, _ in sent)
    asked = {"runs": list(run_ids), "names": names_for(metric), **values}
    rows = rows_of(_ARRAYS.format(columns=selected, where=where), asked)
    return {run_id: _in_order(found, [kind for _, kind in sent]) for run_id, *found in rows}


def _in_order(sent: Sequence[bytes], kinds: Sequence[str]) -> list[np.ndarray]:
    """The columns that came after seq and attempt, in the order of training."""
    arrays = [np.frombuffer(data, kind).astype(kind[1:]) for data, kind in zip(sent, kinds, strict=True)]
    order = np.lexsort(arrays[:2])
    return [column[order] for column in arrays[2:]]


AS_JSON = {  # column -> what is selected; {x} is one of AXES
    "step": "p.step",
    "compute": "p.{x}",
    "value": "p.value",
    "stderr": "p.stderr",
    "time": "date_part('epoch', p.\"time\")",  # seconds since 1970
}
# As text: numbers that nobody looks at on the way need not become Python's and text again.
_JSON = f"""{CHOSEN}
SELECT chosen.run_id, json_build_object({{columns}})::text
FROM chosen JOIN runs_effective_point AS p ON p.series_id = chosen.id WHERE p.{{x}} IS NOT NULL
GROUP BY chosen.run_id
"""  # nosec B608  # constants, one of four names and some of five; values are parameters
_COLUMN = "'{name}', array_agg({values} ORDER BY p.attempt, p.seq)"


def curve_columns(
    run_ids: Sequence[str], metric: str, x: str, columns: Collection[str] = tuple(AS_JSON)
) -> dict[str, str]:
    """Run -> a JSON object: column -> values of its effective points that have this x; empty without any.

    For programs that want all points of curves. One query. Raises ValueError for an axis or a column that is none, and
    for no column at all.
    """
    if x not in AXES:
        raise ValueError(f"{x!r} is no axis")
    if not columns or not AS_JSON.keys() >= set(columns):
        raise ValueError(f"{columns!r} are not some of {', '.join(AS_JSON)}")
    chosen = {name: values.format(x=x) for name, values in AS_JSON.items() if name in columns}
    selected = ", ".join(_COLUMN.format(name=name, values=values) for name, values in chosen.items())
    asked = {"runs": list(run_ids), "names": names_for(metric)}
    found = dict(rows_of(_JSON.format(x=x, columns=selected), asked))
    nothing = json.dumps({name: [] for name in chosen})
    return {run_id: found.get(run_id, nothing) for run_id in run_ids}
