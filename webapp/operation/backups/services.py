"""Making and using backups. The database that Django knows is meant."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from stack import environment
from stack.variables import VARIABLES
from webapp.base.whole_files import sha256, writing
from webapp.operation.backups import archive, postgres
from webapp.operation.backups.archive import BackupError, Manifest
from webapp.record.health.schema import new_words, unknown_of
from webapp.record.retention.folders import checkpoints_of
from webapp.record.runs.models import Run

SET = "(set)"


@dataclass(frozen=True)
class Restored:
    """What a restore found: the manifest, whether the key here opens the secrets, runs without their checkpoints."""

    manifest: Manifest
    has_key: bool
    without_checkpoints: list[str]


def back_up(path: Path, url: str, *, with_key: bool = False) -> Manifest:
    """Write a backup while everything goes on. Raises BackupError; nothing is left of the file then."""
    with tempfile.TemporaryDirectory(dir=_folder_of(path), prefix=".backup-") as folder:
        dump = Path(folder) / archive.DUMP
        postgres.dump(url, dump)
        manifest = Manifest(
            made_at=timezone.now().isoformat(timespec="seconds"),
            postgres=_server_version(),
            migrations=sorted(".".join(key) for key in MigrationLoader(connection).applied_migrations),
            key_digest=archive.key_digest(settings.SECRET_KEY),
            settings=settings_of(os.environ),
            checkpoints=checkpoint_index(),
            dump_sha256=sha256(dump),
            dump_bytes=dump.stat().st_size,
        )
        archive.write(path, manifest, dump, settings.SECRET_KEY if with_key else None)
    return manifest


def restore(path: Path, url: str) -> Restored:
    """Put a backup into a database without tables, and bring it to this code's migrations.

    Raises BackupError where the file is no whole backup, was made by a newer Headroom, or the database holds tables
    already; the database is as it was then.
    """
    with tempfile.TemporaryDirectory(prefix="headroom-restore-") as folder:
        dump = Path(folder) / archive.DUMP
        manifest, key = archive.read(path, dump)
        if unknown := unknown_of(manifest.migrations):
            raise BackupError(new_words(unknown).replace("The database", "The backup", 1))
        _check_empty()
        _check_key(key)
        postgres.restore(url, dump)
    call_command("migrate", interactive=False, verbosity=0)
    if key is not None:
        _keep_key(key)
    ours = key or settings.SECRET_KEY
    here = checkpoint_index()
    gone = sorted(run for run in manifest.checkpoints if not here.get(run))
    return Restored(manifest, archive.key_digest(ours) == manifest.key_digest, gone)


def checkpoint_index() -> dict[str, list[dict[str, int]]]:
    """Run -> step and bytes of each whole checkpoint, oldest first; runs without any are left out."""
    found = {}
    for run in Run.with_deleted.order_by("pk").values_list("pk", flat=True):
        kept = [one for one in checkpoints_of(run) if one.step is not None]
        if kept:
            found[run] = [{"step": one.step or 0, "bytes": one.size} for one in kept]
    return found


def settings_of(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of ours that are set. Of secrets and addresses, which hold passwords, only that they are."""
    hidden = ("secret", "url")
    return {
        each.name: SET if each.kind in hidden else variables[each.name]
        for each in VARIABLES
        if each.server and variables.get(each.name)
    }


def _server_version() -> int:
    """PostgreSQL's major version."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        return int(cursor.fetchone()[0]) // 10_000


def _folder_of(path: Path) -> Path:
    if not path.parent.is_dir():
        raise BackupError(f"There is no folder {path.parent}.")
    if path.is_dir():
        raise BackupError(f"{path} is a folder: name a file.")
    return path.parent


def _check_empty() -> None:
    if tables := connection.introspection.table_names():
        raise BackupError(
            f"The database holds {len(tables)} tables already: a backup goes into an empty one. Make one (CREATE "
            "DATABASE) and name it in DATABASE_URL, or take another HEADROOM_HOME."
        )


def _key_file() -> Path:
    return environment.home() / "secrets" / "django_key"


def _check_key(key: str | None) -> None:
    """The key of the backup never takes the place of another that is set."""
    if key is not None and os.environ.get("HEADROOM_SECRET_KEY") not in (None, "", key):
        raise BackupError(
            "HEADROOM_SECRET_KEY is set to another key than the backup holds: unset one of them."
        )


def _keep_key(key: str) -> None:
    path = _key_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with writing(path) as file:
        file.write(key.encode())
