"""Finding what clients of other trackers have logged, by their own names."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import F, Func, QuerySet, TextField
from django.db.models import Value as Constant

from webapp.base.compiled import Compiled
from webapp.base.errors import NotFound
from webapp.identity.accounts.models import Project
from webapp.interfaces.tracking.models import ClientMetric, ClientRun
from webapp.interfaces.tracking.translate import Value

CLIENT_KEY = re.compile(r"[0-9a-f]{32}")  # the id that a client of MLflow or trackio has of a run


def text_in(column: str, key: str) -> Func:
    """What a JSON column holds under a key, as text. Unlike Django's own, any key will do."""
    return Func(F(column), Constant(key), function="jsonb_extract_path_text", output_field=TextField())


def runs_of_client(project: Project | int, client: str) -> QuerySet[ClientRun]:
    """The runs that this kind of client has made in the project, also the hidden ones; none that was deleted here."""
    return ClientRun.objects.filter(
        group__project=project, client=client, run__deleted_at=None
    ).select_related("run", "group")


def client_run_by_key(project: Project, key: str, *, lock: bool = False) -> ClientRun:
    """MLflow's. `lock`: it and its run, as they are then, for the rest of the transaction. Raises NotFound, also for
    the run of another project."""
    found = (_LOCKED_BY_KEY if lock else _BY_KEY).first(project=project.pk, key=key)
    if found is None:
        raise NotFound(f"Run with id={key} not found.")
    return found


def _by_key(project: int, key: str) -> QuerySet[ClientRun]:
    found = runs_of_client(project, ClientRun.Client.MLFLOW)
    return found.filter(key=key).order_by().defer("run__config")


_BY_KEY = Compiled(_by_key, project=-1, key="a key")
_LOCKED_BY_KEY = Compiled(
    lambda project, key: _by_key(project, key).select_for_update(of=("self", "run")), project=-1, key="a key"
)


def newest_of(client_runs: Iterable[ClientRun]) -> dict[str, list[ClientMetric]]:
    """Id of a run -> its metrics with their newest values, by name. One query."""
    found: dict[str, list[ClientMetric]] = {}
    for metric in ClientMetric.objects.filter(run__in=[each.pk for each in client_runs]).order_by("key"):
        found.setdefault(metric.run_id, []).append(metric)
    return found


class Place(NamedTuple):
    """Of a value in a history. `kind`: 0 where it is finite, 1 where it is not."""

    step: int
    time_ms: int
    kind: int
    id: int


BEGINNING = Place(-(2**63), -1, 0, 0)
Placed = tuple[Value, Place]  # a value of a history, and its place there, which no other has


# A standard error is a column of what it belongs to: it is read from the records.
_FINITE = """
SELECT p.step, floor(extract(epoch FROM p.time) * 1000)::bigint AS time_ms, 0 AS kind, p.id, p.value
FROM runs_series AS s JOIN runs_point AS p ON p.series_id = s.id
WHERE s.run_id = %(run)s AND s.metric = %(series)s
"""
_FINITE_OF_RECORDS = """
SELECT r.step, floor(extract(epoch FROM r.time) * 1000)::bigint AS time_ms, 0 AS kind, r.id,
    jsonb_extract_path_text(r.metrics, %(series)s)::float8 AS value
FROM runs_record AS r WHERE r.run_id = %(run)s AND jsonb_extract_path_text(r.metrics, %(series)s) IS NOT NULL
"""
_ALL = """
WITH every AS (
    {finite} UNION ALL
    SELECT step, time_ms, 1, id, value FROM tracking_notfinite WHERE run_id = %(run)s AND key = %(key)s
)
"""
_PAGE = """
SELECT value, step, time_ms, kind, id FROM every
WHERE (step, time_ms, kind, id) > (%(step)s, %(time_ms)s, %(kind)s, %(id)s)
ORDER BY step, time_ms, kind, id LIMIT %(most)s
"""
# Of n values those at the places k (n - 1) / (most - 1), rounded down, for k from 0: the first and the last among them.
_SAMPLE = """
, numbered AS (
    SELECT *, row_number() OVER (ORDER BY step, time_ms, kind, id) - 1 AS i, count(*) OVER () AS n
    FROM every WHERE step BETWEEN %(first)s AND %(last)s
)
SELECT value, step, time_ms, kind, id FROM numbered
WHERE n <= %(most)s OR i = CASE WHEN %(most)s = 1 THEN n - 1
    ELSE (i * (%(most)s - 1) + n - 2) / (n - 1) * (n - 1) / (%(most)s - 1) END
ORDER BY i
"""


def history(client_run: ClientRun, name: str, *, after: Place = BEGINNING, most: int) -> list[Placed]:
    """Values of a metric by the name that the client logged, as they were logged, by step and time: at most so many,
    of those that follow `after`."""
    return _read(client_run, name, _PAGE, after._asdict() | {"most": most})


def history_sample(client_run: ClientRun, name: str, *, first: int, last: int, most: int) -> list[Value]:
    """Of the values between two steps at most so many, evenly picked, the first and the last among them; of one the
    last."""
    found = _read(client_run, name, _SAMPLE, {"first": first, "last": last, "most": most})
    return [value for value, _ in found]


def _read(client_run: ClientRun, name: str, query: str, values: dict[str, Any]) -> list[Placed]:
    series = client_run.client_metrics.filter(key=name).values_list("series", flat=True).first()
    if series is None:
        return []
    finite = _FINITE_OF_RECORDS if series.endswith("_stderr") else _FINITE
    with connection.cursor() as cursor:
        known = {"run": client_run.pk, "series": series, "key": name}
        cursor.execute(_ALL.replace("{finite}", finite) + query, known | values)
        return [(Value(name, *row[:3]), Place(*row[1:])) for row in cursor.fetchall()]
