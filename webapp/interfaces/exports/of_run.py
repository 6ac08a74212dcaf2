"""The records of one run as a file."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from webapp.base.errors import InvalidInput
from webapp.interfaces.exports import forms
from webapp.interfaces.exports.forms import Kind
from webapp.interfaces.exports.reading import StoredRecord, amounts, records, spans_of, value_names
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import stored_name

MOST_COLUMNS = 2000  # metrics that are written side by side
OF_RECORD = {
    "attempt": Kind.WHOLE,
    "seq": Kind.WHOLE,
    "step": Kind.WHOLE,
    "time": Kind.TIME,
    "device_hours": Kind.NUMBER,
    "flops": Kind.NUMBER,
    "tokens": Kind.NUMBER,
}
OF_VALUE = {"metric": Kind.TEXT, "value": Kind.NUMBER}


def run_pieces(
    run: Run, form: str, *, metrics: Sequence[str] = (), superseded: bool = False, shape: str = "wide"
) -> Iterator[bytes]:
    """Every record of a run as CSV, JSONL or Parquet, in the order of training.

    JSONL has one record a line, as `POST records` takes it. CSV and Parquet are "wide" (one row a record, a column a
    metric) or "long" (one row a value). Values that were not finite are null in JSONL, else empty.
    metrics: only these. superseded: also what an attempt reported past the step that a later one resumed from.

    Raises InvalidInput (metric) where a wide table would have more than MOST_COLUMNS metrics.
    """
    spans = spans_of(run, superseded=superseded)
    if form == "jsonl":
        return forms.jsonl_pieces(line(record) for record in records(run, spans, metrics=metrics))
    if shape == "long":
        found = records(run, spans, metrics=metrics)
        return forms.pieces(form, OF_RECORD | OF_VALUE, (row for each in found for row in long_rows(each)))
    names = _columns(run, metrics)
    rows = wide_rows(records(run, spans, metrics=metrics), names)
    return forms.pieces(form, _named_apart(names), rows)


def line(record: StoredRecord) -> dict[str, Any]:
    """A record as one of a batch, with which it could be reported again."""
    return {
        "attempt": record.attempt,
        "seq": record.seq,
        "step": record.step,
        "time": record.time,
        "compute": record.compute,
        "metrics": record.metrics,
    }


def long_rows(record: StoredRecord) -> Iterator[tuple[Any, ...]]:
    """One row a value, in the order of OF_RECORD and OF_VALUE."""
    head = (*record[:4], *amounts(record.compute))
    return ((*head, name, as_number(value)) for name, value in record.metrics.items())


def wide_rows(found: Iterable[StoredRecord], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """One row a record. One with a metric that had no column came while the file was written: it is no part of it."""
    known = set(names)
    for record in found:
        if known.issuperset(record.metrics):
            values = (as_number(record.metrics.get(name)) for name in names)
            yield (*record[:4], *amounts(record.compute), *values)


def as_number(value: float | None) -> float | None:
    """What JSON may give as a whole number of any length."""
    return None if value is None else float(value)


def _columns(run: Run, metrics: Sequence[str]) -> list[str]:
    if metrics:
        return list(dict.fromkeys(stored_name(run, metric) or metric for metric in metrics))
    names = value_names(run, most=MOST_COLUMNS)
    if len(names) > MOST_COLUMNS:
        raise InvalidInput(
            "metric",
            f"metric: this run has more than {MOST_COLUMNS} metrics, too many for columns; name those that are wanted, "
            "or ask for shape=long or format=jsonl.",
        )
    return names


def _named_apart(names: Sequence[str]) -> dict[str, Kind]:
    """Columns of a wide table; a metric that is called like one of a record's own columns gets "metric." before it."""
    columns = dict(OF_RECORD)
    for name in names:
        while name in columns:
            name = f"metric.{name}"
        columns[name] = Kind.NUMBER
    return columns
