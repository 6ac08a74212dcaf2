"""Runs that were launched, reported and fitted once in this process: another test gets a copy of their rows.

A copy has ids of its own, and its times are as if it had been made now. It is only taken within the test's transaction,
in the database that tests begin with, so that project and revision are the same rows.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection, models
from django.utils import timezone

from webapp.identity.audit.models import Event
from webapp.record.runs.models import (
    Attempt,
    Dispatch,
    Point,
    Record,
    Run,
    Series,
    Summary,
    Transition,
    new_run_id,
)  # fmt: skip
from webapp.science.curves.models import Fit, KeptFigure

# In the order in which they can be stored, each with what finds its rows of a run.
TABLES: dict[type[models.Model], str] = {
    Run: "id = %s",
    Attempt: "run_id = %s",
    Dispatch: "run_id = %s",
    Transition: "run_id = %s",
    Record: "run_id = %s",
    Series: "run_id = %s",
    Point: "series_id IN (SELECT id FROM runs_series WHERE run_id = %s)",
    Fit: "run_id = %s",
    Summary: "run_id = %s",
    KeptFigure: "run_id = %s",
    Event: "object_kind = 'run' AND object_id = %s",
}
REPORTED = {Point, Record}  # their times are the trainer's


@dataclass(frozen=True)
class Rows:
    """Rows of a table as JSON. Where its ids are numbers: the last, and how far it lies behind the first."""

    table: type[models.Model]
    text: str
    last: int | None = None
    span: int = 0


@dataclass(frozen=True)
class Stored:
    """A run's rows, and when its making began."""

    run: str
    begin: datetime
    rows: tuple[Rows, ...]


_stored: dict[Hashable, Stored] = {}


def run_like(key: Hashable, user: Any, make: Callable[[], Run]) -> Run:
    """The run that `make` makes, or a copy of the one it made for this key in another test."""
    if key not in _stored:
        begin = timezone.now()
        run = make()
        _stored[key] = Stored(run.pk, begin, tuple(rows_of(table, run.pk) for table in TABLES))
        return run
    return Run.objects.get(pk=_copy(_stored[key], user))


def rows_of(table: type[models.Model], run: str) -> Rows:
    """What stands of a run in a table."""
    pk = f'"{table._meta.pk.column}"'
    ids = f"max({pk}), max({pk}) - min({pk})" if _is_numbered(table) else "NULL, 0"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT coalesce(json_agg(t ORDER BY {pk}), '[]')::text, {ids} "
            f"FROM {table._meta.db_table} t WHERE {TABLES[table]}",
            [run],
        )
        return Rows(table, *cursor.fetchone())


def _is_numbered(table: type[models.Model]) -> bool:
    return isinstance(table._meta.pk, models.AutoField)


def _copy(stored: Stored, user: Any) -> str:
    run, now = new_run_id(), timezone.now()
    values = {"user": user.pk, "now": now, "later": now - stored.begin}
    with connection.cursor() as cursor:
        for rows in stored.rows:
            values[_shift(rows.table)] = _reserved(cursor, rows)
        for rows in stored.rows:
            cursor.execute(_insert(rows.table), values | {"rows": rows.text.replace(stored.run, run)})
    return run


def _shift(table: type[models.Model]) -> str:
    """The parameter by which the ids of a table move."""
    return f"{table._meta.db_table}_shift"


def _reserved(cursor: Any, rows: Rows) -> int:
    """How far the ids of these rows move to where nothing is; their sequence goes on behind them."""
    if rows.last is None:
        return 0
    cursor.execute(
        "SELECT setval(s, nextval(s) + %s) FROM (SELECT pg_get_serial_sequence(%s, %s)::regclass AS s) AS own",
        [rows.span, rows.table._meta.db_table, rows.table._meta.pk.column],
    )
    return cursor.fetchone()[0] - rows.last


@cache
def _insert(table: type[models.Model]) -> str:
    fields, name = table._meta.concrete_fields, table._meta.db_table
    columns = ", ".join(f'"{field.column}"' for field in fields)
    copied = ", ".join(_value(table, field) for field in fields)
    return (
        f"INSERT INTO {name} ({columns}) SELECT {copied} FROM json_populate_recordset(NULL::{name}, %(rows)s)"
    )


def _value(table: type[models.Model], field: models.Field) -> str:
    """What stands in a column of the copy."""
    target = field.related_model if field.is_relation else table if field.primary_key else None
    if target is get_user_model():
        return f'CASE WHEN "{field.column}" IS NOT NULL THEN %(user)s END'
    if target in TABLES and target is not Run and _is_numbered(target):
        return f'"{field.column}" + %({_shift(target)})s'
    if isinstance(field, models.DateTimeField) and table not in REPORTED:
        return f'CASE WHEN "{field.column}" IS NOT NULL THEN least("{field.column}" + %(later)s, %(now)s) END'
    return f'"{field.column}"'
