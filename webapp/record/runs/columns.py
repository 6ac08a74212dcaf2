"""Series of many runs as columns of JSON, written by the database: for programs that want all points of curves."""

import json
from collections.abc import Collection, Sequence

from django.db import connection

from headroom.adapters.naming import names_for
from webapp.record.runs.many import CHOSEN, POINTS

COLUMNS = {  # name -> what is selected; {x} is one of AXES
    "step": "p.step",
    "compute": "p.{x}",
    "value": "p.value",
    "stderr": "p.stderr",
    "time": "date_part('epoch', p.\"time\")",  # seconds since 1970
}
AXES = ("device_hours", "flops", "tokens", "step")
# As text: numbers that nobody looks at on the way need not become Python's and text again.
_SELECT = f"""{CHOSEN}
SELECT s.run_id, json_build_object({{columns}})::text
FROM {POINTS} AND p.{{x}} IS NOT NULL
GROUP BY s.run_id
"""  # nosec B608  # constants, one of four names and some of five; values are parameters
_COLUMN = "'{name}', array_agg({values} ORDER BY p.attempt, p.seq)"


def curve_columns(
    run_ids: Sequence[str], metric: str, x: str, columns: Collection[str] = tuple(COLUMNS)
) -> dict[str, str]:
    """Run -> a JSON object: column -> values of its effective points in the order of training; empty without any.

    One query. Raises ValueError for an axis or a column that is none, and for no column at all.
    """
    if x not in AXES:
        raise ValueError(f"{x!r} is no axis")
    if not columns or not COLUMNS.keys() >= set(columns):
        raise ValueError(f"{columns!r} are not some of {', '.join(COLUMNS)}")
    chosen = {name: values.format(x=x) for name, values in COLUMNS.items() if name in columns}
    selected = ", ".join(_COLUMN.format(name=name, values=values) for name, values in chosen.items())
    with connection.cursor() as cursor:
        cursor.execute(
            _SELECT.format(x=x, columns=selected), {"runs": list(run_ids), "names": names_for(metric)}
        )
        found = dict(cursor.fetchall())
    nothing = json.dumps({name: [] for name in chosen})
    return {run_id: found.get(run_id, nothing) for run_id in run_ids}
