"""Taking a project's runs away again, whatever they have grown to."""

from collections.abc import Iterator

from django.db import connection, transaction

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Point, Run, Series

CHUNK = 100  # runs a transaction
DELETE_POINTS = """
DELETE FROM runs_point USING runs_series
WHERE runs_point.series_id = runs_series.id AND runs_series.run_id = ANY(%s)
"""
DELETE_RECORDS = "DELETE FROM runs_record WHERE run_id = ANY(%s)"


def remove_runs(project: Project) -> Iterator[int]:
    """Delete the project's runs with all that they have; yields how many went at a time."""
    _empty_points_of_nobody_else(project)
    ids = list(Run.with_deleted.filter(project=project).values_list("pk", flat=True))
    for first in range(0, len(ids), CHUNK):
        chunk = ids[first : first + CHUNK]
        remove(chunk)
        yield len(chunk)


@transaction.atomic
def remove(ids: list[str]) -> None:
    """Delete these runs with all that they have. Raises RestrictedError where a prediction rests on one."""
    with connection.cursor() as cursor:
        cursor.execute(DELETE_POINTS, [ids])
        cursor.execute(DELETE_RECORDS, [ids])
    Run.with_deleted.filter(pk__in=ids).delete()


@transaction.atomic
def _empty_points_of_nobody_else(project: Project) -> None:
    """All points at once where no other project has any: deleting 100 million of them takes an hour."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"LOCK TABLE {Series._meta.db_table} IN SHARE MODE"
        )  # nobody begins a series meanwhile
        if not Series.objects.exclude(run__project=project).exists():
            cursor.execute(f"TRUNCATE {Point._meta.db_table}")
