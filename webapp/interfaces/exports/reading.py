"""A run's records and points, in the order of training, read page by page.

A page begins where the one before ended (attempt, seq): an export of any length holds one page of rows, needs no
transaction that stays open while somebody downloads, and costs the same for each page.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import QuerySet

from training.records import MAX_STEP
from webapp.record.runs.models import Point, Record, Run, Series
from webapp.record.runs.selectors import stored_name

RECORDS_A_PAGE = 250  # of up to 1000 metrics each
POINTS_A_PAGE = 5000


class StoredRecord(NamedTuple):
    """A record as it was reported; an amount of compute that is not known is null or not there."""

    attempt: int
    seq: int
    step: int
    time: datetime
    compute: dict[str, float | None]
    metrics: dict[str, float | None]


class StoredPoint(NamedTuple):
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


@dataclass(frozen=True)
class Span:
    """What is read of one attempt: up to this seq and this step.

    superseded_after: the last step before a later attempt's beginning, whatever is read; None: none superseded it.
    """

    attempt: int
    last_seq: int
    last_step: int
    superseded_after: int | None


_SPANS = """
SELECT own.attempt, newest.seq, own.last_step FROM runs_effective_attempt AS own
CROSS JOIN LATERAL (
    SELECT seq FROM runs_record WHERE run_id = own.run_id AND attempt = own.attempt ORDER BY seq DESC LIMIT 1
) AS newest
WHERE own.run_id = %s ORDER BY own.attempt
"""


def spans_of(run: Run, *, superseded: bool) -> list[Span]:
    """What is stored of each attempt now. Without `superseded`, its steps end where a later attempt resumed."""
    with connection.cursor() as cursor:
        cursor.execute(_SPANS, [run.pk])
        return [
            Span(attempt, seq, MAX_STEP if superseded else last, None if last == MAX_STEP else last)
            for attempt, seq, last in cursor.fetchall()
        ]


def records(run: Run, spans: Sequence[Span], *, metrics: Sequence[str] = ()) -> Iterator[StoredRecord]:
    """The records of these spans. With `metrics`, only those values, and only records that have one of them."""
    wanted = {stored_name(run, metric) or metric for metric in metrics}
    columns = ("attempt", "seq", "step", "time", "compute", "metrics")
    for row in _paged(Record.objects.filter(run=run), spans, columns, RECORDS_A_PAGE):
        record = StoredRecord(*row)
        if wanted:
            kept = {name: value for name, value in record.metrics.items() if name in wanted}
            if not kept:
                continue
            record = record._replace(metrics=kept)
        yield record


def points(run: Run, spans: Sequence[Span], metric: str) -> Iterator[StoredPoint]:
    """The points of one series in these spans."""
    series = Series.objects.filter(run=run, metric=stored_name(run, metric)).first()
    if series is not None:
        here = Point.objects.filter(series=series)
        for row in _paged(here, spans, StoredPoint._fields, POINTS_A_PAGE):
            yield StoredPoint(*row)


def _paged(
    rows: QuerySet[Any], spans: Sequence[Span], columns: Sequence[str], size: int
) -> Iterator[tuple[Any, ...]]:
    for span in spans:
        here = rows.filter(attempt=span.attempt, seq__lte=span.last_seq, step__lte=span.last_step)
        after, is_more = -1, True
        while is_more:
            page = list(here.filter(seq__gt=after).order_by("seq").values_list(*columns)[:size])
            yield from page
            is_more = len(page) == size
            after = page[-1][columns.index("seq")] if page else after


_NAMES = """
SELECT DISTINCT name FROM runs_record
CROSS JOIN LATERAL jsonb_object_keys(metrics) AS name
WHERE run_id = %(run)s ORDER BY name LIMIT %(most)s
"""


def value_names(run: Run, *, most: int) -> list[str]:
    """Names of all that the run's records hold, standard errors and values that never were finite included, by name;
    at most `most` + 1 of them, so that more can be told."""
    with connection.cursor() as cursor:
        cursor.execute(_NAMES, {"run": run.pk, "most": most + 1})
        return [name for (name,) in cursor.fetchall()]


def amounts(compute: Mapping[str, float | None]) -> tuple[float | None, float | None, float | None]:
    """Device-hours, floating point operations and tokens; None: not known."""
    hours, flops, tokens = (compute.get(name) for name in ("device_hours", "flops", "tokens"))
    return hours, flops, tokens
