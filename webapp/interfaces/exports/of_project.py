"""The records of one run, or all runs that a filter finds (themselves, their curves or their records), as one file.

A run's records and points, in the order of training, read page by page.

A page begins where the one before ended (attempt, seq): an export of any length holds one page of rows, needs no
transaction that stays open while somebody downloads, and costs the same for each page.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import QuerySet

from training.records import MAX_STEP
from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.interfaces.exports import forms
from webapp.interfaces.exports.columns import ABOUT, OF_ABOUT, RECORD, column_of
from webapp.interfaces.exports.forms import ColumnType
from webapp.record.runs.filtering import narrow
from webapp.record.runs.models import Point, Record, Run, Series
from webapp.record.runs.points import CurvePoint
from webapp.record.runs.selectors import pass_rates_of, stored_name

RECORDS_A_PAGE = 250  # of up to 1000 metrics each
POINTS_A_PAGE = 5000
_SPANS = """
SELECT own.attempt, newest.seq, own.last_step FROM runs_effective_attempt AS own
CROSS JOIN LATERAL (
    SELECT seq FROM runs_record WHERE run_id = own.run_id AND attempt = own.attempt ORDER BY seq DESC LIMIT 1
) AS newest
WHERE own.run_id = %s ORDER BY own.attempt
"""
_NAMES = """
SELECT DISTINCT name FROM runs_record
CROSS JOIN LATERAL jsonb_object_keys(metrics) AS name
WHERE run_id = %(run)s ORDER BY name LIMIT %(most)s
"""
MOST_COLUMNS = 2000  # metrics that are written side by side
OF_RECORD = (
    dict.fromkeys(RECORD, ColumnType.NUMBER)
    | dict.fromkeys(("attempt", "seq", "step"), ColumnType.WHOLE)
    | {"time": ColumnType.TIME}
)
OF_VALUE = {"metric": ColumnType.TEXT, "value": ColumnType.NUMBER}
MOST_RUNS = 20_000
RUNS_AT_A_TIME = 100
OF_POINT = {"metric": ColumnType.TEXT} | OF_RECORD | {"value": ColumnType.NUMBER, "stderr": ColumnType.NUMBER}
OF_RUN = {
    "id": ColumnType.TEXT,
    "name": ColumnType.TEXT,
    "origin": ColumnType.TEXT,
    "state": ColumnType.TEXT,
    "recipe": ColumnType.TEXT,
    "revision": ColumnType.WHOLE,
    "task": ColumnType.TEXT,
    "model": ColumnType.TEXT,
    "seed": ColumnType.WHOLE,
    "budget_hours": ColumnType.NUMBER,
    "attempts": ColumnType.WHOLE,
    "tags": ColumnType.TEXT,  # joined by blanks, which no tag holds
    "created_by": ColumnType.TEXT,
    "created_at": ColumnType.TIME,
    "started_at": ColumnType.TIME,
    "ended_at": ColumnType.TIME,
    "config": ColumnType.TEXT,  # JSON
}


class StoredRecord(NamedTuple):
    """A record as it was reported; an amount of compute that is not known is null or not there."""

    attempt: int
    seq: int
    step: int
    time: datetime
    compute: dict[str, float | None]
    metrics: dict[str, float | None]


@dataclass(frozen=True)
class Span:
    """What is read of one attempt: up to this seq and this step.

    superseded_after: the last step before a later attempt's beginning, whatever is read; None: none superseded it.
    """

    attempt: int
    last_seq: int
    last_step: int
    superseded_after: int | None


def spans_of(run: Run, *, superseded: bool) -> list[Span]:
    """What is stored of each attempt now. Without `superseded`, its steps end where a later attempt resumed."""
    with connection.cursor() as cursor:
        cursor.execute(_SPANS, [run.pk])
        return [
            Span(attempt, seq, MAX_STEP if superseded else last, None if last == MAX_STEP else last)
            for attempt, seq, last in cursor.fetchall()
        ]


def _records(run: Run, spans: Sequence[Span], metrics: Sequence[str]) -> Iterator[StoredRecord]:
    """The records of these spans. With `metrics`, only those values, and only records that have one of them."""
    wanted = {stored_name(run, metric) or metric for metric in metrics}
    for row in _paged(Record.objects.filter(run=run), spans, StoredRecord._fields, RECORDS_A_PAGE):
        record = StoredRecord(*row)
        if wanted:
            kept = {name: value for name, value in record.metrics.items() if name in wanted}
            record = record._replace(metrics=kept)
        if record.metrics or not wanted:
            yield record


def _points(run: Run, spans: Sequence[Span], metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The points in these spans of each of these series, else of each pass rate."""
    for metric in metrics or pass_rates_of(run):
        series = Series.objects.filter(run=run, metric=stored_name(run, metric)).first()
        if series is not None:
            here = Point.objects.filter(series=series)
            for row in _paged(here, spans, CurvePoint._fields, POINTS_A_PAGE):
                yield {"metric": metric} | CurvePoint(*row)._asdict()


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


def run_pieces(
    run: Run, form: str, *, metrics: Sequence[str] = (), superseded: bool = False, shape: str = "wide"
) -> Iterator[bytes]:
    """Every record of a run as CSV, JSONL or Parquet, in the order of training.

    JSONL has one record a line, as `POST records` takes it. CSV and Parquet are "wide" (one row a record, a column a
    metric) or "long" (one row a value). Values that were not finite are null in JSONL, else empty. What the run is
    (`about`) stands in the first line or row.
    metrics: only these. superseded: also what an attempt reported past the step that a later one resumed from.

    Raises InvalidInput (metric) where a wide table would have more than MOST_COLUMNS metrics.
    """
    spans = spans_of(run, superseded=superseded)
    found, said = _records(run, spans, metrics), about(run, spans)
    if form == "jsonl":
        return forms.jsonl_pieces(_lines(map(line, found), said))
    if shape == "long":
        columns = OF_RECORD | OF_VALUE
        rows: Iterator[tuple[Any, ...]] = itertools.chain.from_iterable(map(long_rows, found))
    else:
        names = _columns(run, metrics)
        columns = OF_RECORD | {column_of(name): ColumnType.NUMBER for name in names}
        rows = wide_rows(found, names)
    return forms.pieces(form, columns | {ABOUT: ColumnType.TEXT}, _rows(rows, said))


def _lines(lines: Iterable[dict[str, Any]], said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """With what is said of the run in the first one."""
    for place, each in enumerate(lines):
        yield each if place else each | {ABOUT: said}


def _rows(rows: Iterable[Iterable[Any]], said: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """With a cell more, which says in the first one what is said of the run."""
    for place, row in enumerate(rows):
        yield (*row, None if place else forms.as_json(said))


def about(run: Run, spans: Sequence[Span]) -> dict[str, Any]:
    """What the run is. meaning: of its metrics, where somebody has said it. superseded_after: attempt -> its last step
    before a later attempt's beginning."""
    after = {str(span.attempt): span.superseded_after for span in spans if span.superseded_after is not None}
    return {name: getattr(run, name) for name in OF_ABOUT[:-1]} | {"superseded_after": after}


def line(record: StoredRecord | Record) -> dict[str, Any]:
    """A record as it was reported: as one of a batch, with which it could be reported again."""
    return {name: getattr(record, name) for name in StoredRecord._fields}


def long_rows(record: StoredRecord) -> Iterator[tuple[Any, ...]]:
    """One row a value, in the order of OF_RECORD and OF_VALUE."""
    head = _head(record)
    return ((*head, name, as_number(value)) for name, value in record.metrics.items())


def wide_rows(found: Iterable[StoredRecord], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """One row a record. One with a metric that had no column came while the file was written: it is no part of it."""
    known = set(names)
    for record in found:
        if known.issuperset(record.metrics):
            values = (as_number(record.metrics.get(name)) for name in names)
            yield (*_head(record), *values)


def _head(record: StoredRecord) -> tuple[Any, ...]:
    """In the order of OF_RECORD; an amount of compute that is not known is None."""
    return (*record[:4], *(record.compute.get(name) for name in ("device_hours", "flops", "tokens")))


def as_number(value: float | None) -> float | None:
    """What JSON may give as a whole number of any length."""
    return None if value is None else float(value)


def _columns(run: Run, metrics: Sequence[str]) -> list[str]:
    if metrics:
        return list(dict.fromkeys(stored_name(run, metric) or metric for metric in metrics))
    with connection.cursor() as cursor:  # also standard errors, and what never was finite
        cursor.execute(_NAMES, {"run": run.pk, "most": MOST_COLUMNS + 1})
        names = [name for (name,) in cursor.fetchall()]
    if len(names) > MOST_COLUMNS:
        raise InvalidInput(
            "metric",
            f"metric: this run has more than {MOST_COLUMNS} metrics, too many for columns; name those that are wanted, "
            "or ask for shape=long or format=jsonl.",
        )
    return names


def project_pieces(
    project: Project, user: User | None, form: str, *, content: str, text: str = "", metrics: Sequence[str] = (),
    superseded: bool = False,
) -> Iterator[bytes]:  # fmt: skip
    """Of all runs that the filter `text` finds, newest first: `content` is "runs" (with their configuration), "curves"
    (every point of `metrics`, else of each pass rate) or "records" (of all metrics, or `metrics`).

    form: csv, jsonl or parquet; a table of records has one row a value. Raises FilterError, and InvalidInput (filter)
    where more than MOST_RUNS fit.
    """
    ids = _ids(project, user, text)
    if content == "runs":
        found: Iterator[Any] = _of_runs(project, ids)
        if form == "jsonl":
            return forms.jsonl_pieces(found)
        return forms.pieces(form, OF_RUN, (_run_row(item) for item in found))
    columns, read, said, as_line, as_rows = _CONTENT[content]
    spans = ((run, spans_of(run, superseded=superseded)) for run in _runs(project, ids))
    if form == "jsonl":
        return forms.jsonl_pieces(
            {"run": run.pk} | each
            for run, own in spans
            for each in _lines(map(as_line, read(run, own, metrics)), said(run, own))
        )
    rows = (
        (run.pk, *row)
        for run, own in spans
        for row in _rows(itertools.chain.from_iterable(map(as_rows, read(run, own, metrics))), said(run, own))
    )
    return forms.pieces(form, {"run": ColumnType.TEXT} | columns | {ABOUT: ColumnType.TEXT}, rows)


def _ids(project: Project, user: User | None, text: str) -> list[str]:
    found = narrow(Run.objects.filter(project=project), text, user=user).order_by("-created_at", "id")
    ids = list(found.values_list("pk", flat=True)[: MOST_RUNS + 1])
    if len(ids) > MOST_RUNS:
        raise InvalidInput("filter", f"filter: more than {MOST_RUNS:,} runs fit; narrow it.")
    return ids


def _runs(project: Project, ids: Sequence[str]) -> Iterator[Run]:
    """The runs in this order, some at a time; one that is gone by now is left out."""
    for start in range(0, len(ids), RUNS_AT_A_TIME):
        some = ids[start : start + RUNS_AT_A_TIME]
        found = (
            Run.objects.filter(project=project)
            .select_related("revision__recipe", "created_by")
            .defer("revision__config")
            .in_bulk(some)
        )
        yield from (found[pk] for pk in some if pk in found)


def _of_runs(project: Project, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    for run in _runs(project, ids):
        revision = run.revision
        yield {
            "id": run.pk,
            "name": run.name,
            "origin": run.origin,
            "state": run.state,
            "recipe": revision.recipe.slug if revision else None,
            "revision": revision.number if revision else None,
            "task": run.task,
            "model": run.model,
            "seed": run.seed,
            "budget_hours": run.budget_hours,
            "attempts": run.attempt_number,
            "tags": run.tags,
            "created_by": run.created_by.get_username() if run.created_by else None,
            "created_at": run.created_at,
            "started_at": run.started_at,
            "ended_at": run.ended_at,
            "config": run.config,
        }


def _run_row(item: dict[str, Any]) -> list[Any]:
    flat = item | {"tags": " ".join(item["tags"]), "config": forms.as_json(item["config"])}
    return [flat[name] for name in OF_RUN]


# Columns; what is read, and what is said of the run; an item as a line, and as rows.
_Does = Callable[..., Any]
_CONTENT: dict[str, tuple[dict[str, ColumnType], _Does, _Does, _Does, _Does]] = {
    "curves": (
        OF_POINT,
        _points,
        # points are what followed from what was said of the metrics: a percentage, say, is a share already
        lambda run, spans: about(run, spans) | {"meaning": {}},
        dict,
        lambda point: [point.values()],
    ),
    "records": (OF_RECORD | OF_VALUE, _records, about, line, long_rows),
}
