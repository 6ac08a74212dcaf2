"""A part's rows on their way in: a temporary table that holds them as the file says, then one INSERT with ids of here.

Numbers that the database counts are new here; whatever names a row by its number follows. Everything is done inside
PostgreSQL, so ten million points need no memory here.

Names of tables and columns in its SQL are those of models, never of a file; what a file says is copied or a parameter.
"""

from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.db.models import Field

from webapp.identity.accounts.models import Organisation, Project, User
from webapp.operation.project_transfer.archive import MovingError
from webapp.operation.project_transfer.tables import PARTS, PARTS_BY_MODEL, PEOPLE, PEOPLE_COLUMNS, Part

PEOPLE_MAP = "moved_people"
REFERRED = {
    each.related_model
    for part in PARTS
    for each in part.fields
    if each.related_model in PARTS_BY_MODEL and PARTS_BY_MODEL[each.related_model].is_numbered
}


def execute(sql: str, *values: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return cursor.rowcount


def staged(part: Part) -> str:
    return f"staged_{part.name}"


def numbers(part: Part) -> str:
    """The table of old and new ids of a part that others refer to."""
    return f"moved_{part.name}"


def has_numbers(part: Part) -> bool:
    return part.is_numbered and part.model in REFERRED


def load(name: str, columns: list[str], like: str, chunks: Iterable[bytes]) -> int:
    """A temporary table of these columns of the table `like`, filled; how many rows. Raises what COPY and chunks do."""
    quoted = ", ".join(f'"{column}"' for column in columns)
    with connection.cursor() as cursor:
        rows = f'SELECT {quoted} FROM "{like}" LIMIT 0'  # nosec B608  # names of models
        cursor.execute(f'CREATE TEMPORARY TABLE "{name}" ON COMMIT DROP AS {rows}')
        with cursor.copy(f'COPY "{name}" ({quoted}) FROM STDIN') as copy:
            for chunk in chunks:
                copy.write(chunk)
        return cursor.rowcount


def people_rows() -> list[tuple]:
    columns = ", ".join(PEOPLE_COLUMNS)
    return _rows(f"SELECT {columns} FROM staged_{PEOPLE} ORDER BY id")  # nosec B608  # constants


def people_named(parts: Iterable[Part]) -> set[int]:
    """Ids, as of there, of everybody whom rows of these parts name."""
    return {
        row[0]
        for part in parts
        for each in part.people()
        for row in _rows(f'SELECT DISTINCT "{each.column}" FROM "{staged(part)}"')  # nosec B608  # names of models
        if row[0]
    }


def map_people(pairs: Iterable[tuple[int, int]]) -> None:
    """(id there, id here)."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE {PEOPLE_MAP} (old bigint, new bigint) ON COMMIT DROP")
        insert = f"INSERT INTO {PEOPLE_MAP} VALUES (%s, %s)"  # nosec B608  # a constant
        cursor.executemany(insert, list(pairs))


def number_rows(part: Part) -> None:
    """New ids for the rows of a part that others refer to, in the order of the old ones."""
    key, name = part.key.column, numbers(part)
    execute(
        f'CREATE TEMPORARY TABLE "{name}" ON COMMIT DROP AS '
        f"SELECT id AS old, nextval(pg_get_serial_sequence('{part.name}', '{key}')) AS new "
        f'FROM (SELECT "{key}" AS id FROM "{staged(part)}" ORDER BY 1) AS rows'  # nosec B608  # names of models
    )
    execute(f'ANALYZE "{name}"')


def insert(part: Part, project: Project) -> int:
    """The rows of a part into its table; how many."""
    columns, values, joins = [], [], []
    arguments: list[Any] = []
    for place, each in enumerate(part.fields):
        if each.primary_key and part.is_numbered and not has_numbers(part):
            continue  # the database counts it
        columns.append(f'"{each.column}"')
        value, join, argument = _value(part, each, f"m{place}", project)
        values.append(value)
        joins += join
        arguments += argument
    order = f'ORDER BY s."{part.key.column}"' if part.in_order else ""
    return execute(
        f'INSERT INTO "{part.name}" ({", ".join(columns)}) SELECT {", ".join(values)} '
        f'FROM "{staged(part)}" AS s {" ".join(joins)} {order}',  # nosec B608  # names of models
        *arguments,
    )


def _value(
    part: Part, each: "Field[Any, Any]", alias: str, project: Project
) -> tuple[str, list[str], list[Any]]:
    """SQL of a column's value, the joins that it needs, and its arguments."""
    column, related = str(each.column), each.related_model
    if column in part.told:
        return part.told[column], [], []
    if related is Project:
        return "%s", [], [project.pk]
    if related is Organisation:
        return "%s", [], [project.organisation_id]
    mapping = None
    if related is User:
        mapping = PEOPLE_MAP
    elif each.primary_key and has_numbers(part):
        mapping = numbers(part)
    elif related in REFERRED:
        mapping = numbers(PARTS_BY_MODEL[related])
    if mapping is None:
        return f's."{column}"', [], []
    join = f'LEFT JOIN "{mapping}" AS {alias} ON {alias}.old = s."{column}"'
    return f"{alias}.new", [join], []


def check_free(part: Part, words: str) -> None:
    """Raises MovingError where a row of this id, which it keeps, is here already. words: "The run"."""
    found = _rows(
        f'SELECT s."{part.key.column}", p.slug FROM "{staged(part)}" AS s '
        f'JOIN "{part.name}" AS r USING ("{part.key.column}") '
        f'JOIN "{Project._meta.db_table}" AS p ON p.id = r.project_id ORDER BY 1 LIMIT 1'  # nosec B608  # names of models
    )
    if found:
        key, slug = found[0]
        raise MovingError(f"{words} {key} is here already, in the project {slug}: nothing was imported.")


def check_inside(part: Part) -> None:
    """Raises MovingError where a row is of a run, a study, ... that is not in the file: those keep their ids, so it
    could be one of another project here."""
    for each in part.fields:
        owner = PARTS_BY_MODEL.get(each.related_model) if each.related_model else None
        if owner is None or owner.is_numbered:
            continue
        found = _rows(
            f'SELECT s."{each.column}" FROM "{staged(part)}" AS s WHERE s."{each.column}" IS NOT NULL AND NOT EXISTS '
            f'(SELECT 1 FROM "{staged(owner)}" AS r WHERE r."{owner.key.column}" = s."{each.column}") LIMIT 1'  # nosec B608
        )
        if found:
            raise MovingError(
                f"The part {part.name} has a row of {each.column} {found[0][0]}, which is not in the file."
            )


def _rows(sql: str) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()
