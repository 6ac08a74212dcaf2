"""Series of many runs as columns of JSON, written by the database: for programs that want all points of curves."""

import json
from collections.abc import Sequence

from django.db import connection

from webapp.runs.many import CHOSEN, POINTS

COLUMNS = ("step", "compute", "value", "stderr", "time")  # time: seconds since 1970
AXES = ("device_hours", "flops", "tokens", "step")
_NOTHING = json.dumps({name: [] for name in COLUMNS})
# As text: numbers that nobody looks at on the way need not become Python's and text again.
_SELECT = f"""{CHOSEN}
SELECT s.run_id, json_build_object(
    'step', array_agg(p.step ORDER BY p.attempt, p.seq), 'compute', array_agg(p.{{x}} ORDER BY p.attempt, p.seq),
    'value', array_agg(p.value ORDER BY p.attempt, p.seq), 'stderr', array_agg(p.stderr ORDER BY p.attempt, p.seq),
    'time', array_agg(date_part('epoch', p."time") ORDER BY p.attempt, p.seq))::text
FROM {POINTS} AND p.{{x}} IS NOT NULL
GROUP BY s.run_id
"""  # nosec B608  # constants and one of four names; values are parameters


def curve_columns(run_ids: Sequence[str], metric: str, x: str) -> dict[str, str]:
    """Run -> a JSON object: column -> values of its effective points in the order of training; empty without any.

    One query. Raises ValueError for an axis that is none.
    """
    if x not in AXES:
        raise ValueError(f"{x!r} is no axis")
    with connection.cursor() as cursor:
        cursor.execute(_SELECT.format(x=x), {"runs": list(run_ids), "metric": metric})
        found = dict(cursor.fetchall())
    return {run_id: found.get(run_id, _NOTHING) for run_id in run_ids}
