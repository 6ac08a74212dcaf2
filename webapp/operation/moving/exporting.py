"""Writing a project's file: every part as of one moment, streamed, while everything goes on."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.models import QuerySet
from django.utils import timezone

from headroom.version import __version__
from webapp.base.errors import NotFound
from webapp.identity.accounts.models import Project
from webapp.identity.audit.services import record
from webapp.operation.moving import archive, tables
from webapp.operation.moving.archive import Manifest, MovingError
from webapp.record.artifacts import store
from webapp.record.artifacts.models import Artifact
from webapp.record.health.schema import missing_migrations, old_words


def export_project(project: Project, path: Path) -> Manifest:
    """Raises MovingError; nothing is left of the file then."""
    if missing := missing_migrations():
        raise MovingError(old_words(missing))
    with archive.writing(path) as writer, transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        project = Project.objects.get(pk=project.pk)
        for part in tables.PARTS:
            rows = part.rows(project).values_list(*(each.attname for each in part.fields))
            writer.part(part.name, part.columns, _copied(rows))
        for artifact in Artifact.objects.filter(run__project=project).iterator():
            with (
                suppress(NotFound),
                store.open_file(artifact) as source,
            ):  # gone: replaced or deleted meanwhile
                writer.content(artifact.sha256, source)
        people = tables.people_rows(project).values_list(*tables.PEOPLE_COLUMNS)
        writer.part(tables.PEOPLE, list(tables.PEOPLE_COLUMNS), _copied(people))
        manifest = Manifest(
            made_at=timezone.now().isoformat(timespec="seconds"),
            version=__version__,
            migrations=sorted(".".join(key) for key in MigrationLoader(connection).applied_migrations),
            project={name: _plain(getattr(project, name)) for name in tables.PROJECT_FIELDS},
            parts=writer.parts,
        )
        writer.manifest(manifest)
    record(
        "project.exported", actor=None, project=project, kind="project", key=project.slug, name=project.name,
        runs=manifest.parts["runs_run"].rows, points=manifest.parts["runs_point"].rows,
    )  # fmt: skip
    return manifest


def _copied(rows: "QuerySet") -> Iterator[bytes | memoryview]:
    sql, values = rows.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL timezone = 'UTC'")
        with cursor.copy(f"COPY ({sql}) TO STDOUT", values or None) as copy:
            yield from copy


def _plain(value: object) -> object:
    return value if isinstance(value, (str, bool)) else str(value)
