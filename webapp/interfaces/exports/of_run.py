"""The records of one run as a file."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from webapp.base.errors import InvalidInput
from webapp.interfaces.exports import forms
from webapp.interfaces.exports.columns import ABOUT, OF_ABOUT, RECORD, column_of
from webapp.interfaces.exports.forms import Kind
from webapp.interfaces.exports.reading import Span, StoredRecord, amounts, records, spans_of, value_names
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import stored_name

MOST_COLUMNS = 2000  # metrics that are written side by side
OF_RECORD = dict.fromkeys(RECORD, Kind.NUMBER) | dict.fromkeys(("attempt", "seq", "step"), Kind.WHOLE)
OF_RECORD["time"] = Kind.TIME
OF_VALUE = {"metric": Kind.TEXT, "value": Kind.NUMBER}


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
    if form == "jsonl":
        said = itertools.chain([{ABOUT: about(run, spans)}], itertools.repeat({}))
        found = records(run, spans, metrics=metrics)
        return forms.jsonl_pieces(line(record) | more for record, more in zip(found, said, strict=False))
    if shape == "long":
        found = records(run, spans, metrics=metrics)
        columns = OF_RECORD | OF_VALUE
        rows: Iterator[tuple[Any, ...]] = (row for each in found for row in long_rows(each))
    else:
        names = _columns(run, metrics)
        columns = OF_RECORD | {column_of(name): Kind.NUMBER for name in names}
        rows = wide_rows(records(run, spans, metrics=metrics), names)
    cells = itertools.chain([forms.as_json(about(run, spans))], itertools.repeat(None))
    all_rows = ((*row, cell) for row, cell in zip(rows, cells, strict=False))
    return forms.pieces(form, columns | {ABOUT: Kind.TEXT}, all_rows)


def about(run: Run, spans: Sequence[Span]) -> dict[str, Any]:
    """What the run is. meaning: of its metrics, where somebody has said it. superseded_after: attempt -> its last step
    before a later attempt's beginning."""
    after = {str(span.attempt): span.superseded_after for span in spans if span.superseded_after is not None}
    return {name: getattr(run, name) for name in OF_ABOUT[:-1]} | {"superseded_after": after}


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
