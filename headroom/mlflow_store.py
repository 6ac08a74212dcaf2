"""Copies what MLflow's SQLite database says of its runs into a file that can be uploaded. Nothing is written to the
database, and artifacts, traces and secrets stay where they are."""

import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

SQLITE = b"SQLite format 3\0"
URI = re.compile(r"(?P<dialect>[a-z]+)(\+[a-z0-9_]+)?://", re.IGNORECASE)
TABLES = {
    "experiments": ("experiment_id", "name"),
    "runs": ("run_uuid", "name", "status", "lifecycle_stage", "experiment_id", "start_time"),
    "metrics": ("run_uuid", "timestamp", "step", "key", "value", "is_nan"),
    "params": ("run_uuid", "key", "value"),
    "tags": ("run_uuid", "key", "value"),
}


def is_store(path: str) -> bool:
    """Whether it is the URI of a database, or a SQLite file."""
    if URI.match(path):
        return True
    try:
        with open(path, "rb") as opened:
            return opened.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


@contextmanager
def copied(store: str) -> Iterator[Path]:
    """A SQLite file with the experiments, runs, metrics, params and tags of a store, as they are at one moment; gone
    afterwards. store: `sqlite:///FILE`, or a file. Raises ValueError for another database, and for what cannot be read.
    """
    found = URI.match(store)
    if found and found["dialect"].lower() != "sqlite":
        raise ValueError(f"a store in {found['dialect']} is read from its MLflow server: --address https://…")
    place = store[found.end() :].removeprefix("/") if found else store
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, Path(place).name)
        try:
            with (  # out of a snapshot, so that who logs meanwhile does not wait
                closing(sqlite3.connect(f"file:{quote(place)}?mode=ro", uri=True)) as live,
                closing(sqlite3.connect(Path(folder, "snapshot of it"))) as snapshot,
            ):
                live.backup(snapshot)
                _copy(snapshot, copy)
        except sqlite3.Error as error:
            raise ValueError(f"{place} is no store of MLflow that can be read: {error}") from None
        yield copy


def _copy(store: sqlite3.Connection, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as into:
        into.execute("BEGIN")
        for table, columns in TABLES.items():
            names = ", ".join(f'"{column}"' for column in columns)
            into.execute(f"CREATE TABLE {table} ({names})")
            marks = ", ".join("?" * len(columns))
            into.executemany(
                f"INSERT INTO {table} VALUES ({marks})", store.execute(f"SELECT {names} FROM {table}")
            )  # noqa: S608  # nosec B608 - constants
        for table in ("metrics", "params", "tags"):
            into.execute(f"CREATE INDEX {table}_of_run ON {table} (run_uuid, key)")
        into.execute("COMMIT")
