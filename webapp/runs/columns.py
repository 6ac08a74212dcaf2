"""Series of many runs as columns, put together by the database: for programs that want every point of many curves."""

from collections.abc import Sequence

from django.db import connection

from webapp.runs.many import CHOSEN, POINTS

COLUMNS = ("step", "compute", "value", "stderr", "time")  # time: seconds since 1970
AXES = ("device_hours", "flops", "tokens", "step")
_SELECT = f"""{CHOSEN}
SELECT s.run_id,
    array_agg(p.step ORDER BY p.attempt, p.seq), array_agg(p.{{x}} ORDER BY p.attempt, p.seq),
    array_agg(p.value ORDER BY p.attempt, p.seq), array_agg(p.stderr ORDER BY p.attempt, p.seq),
    array_agg(date_part('epoch', p."time") ORDER BY p.attempt, p.seq)
FROM {POINTS} AND p.{{x}} IS NOT NULL
GROUP BY s.run_id
"""  # nosec B608  # constants and one of four names; values are parameters


def curve_columns(run_ids: Sequence[str], metric: str, x: str) -> dict[str, dict[str, list]]:
    """Run -> column -> values of its effective points in the order of training; empty columns without any. One query.

    Raises ValueError for an axis that is none.
    """
    if x not in AXES:
        raise ValueError(f"{x!r} is no axis")
    with connection.cursor() as cursor:
        cursor.execute(_SELECT.format(x=x), {"runs": list(run_ids), "metric": metric})
        found = {run_id: dict(zip(COLUMNS, columns, strict=True)) for run_id, *columns in cursor.fetchall()}
    return {run_id: found.get(run_id) or {name: [] for name in COLUMNS} for run_id in run_ids}
