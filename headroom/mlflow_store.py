"""Copies what MLflow's database says of its runs into a file that can be uploaded. Nothing is written to the database,
and artifacts, traces and secrets stay where they are."""

import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

SQLITE = b"SQLite format 3\0"
URI = re.compile(r"(?P<dialect>[a-z]+)(\+[a-z0-9_]+)?://", re.IGNORECASE)
CONNECT_SECONDS = 30
ROWS_AT_ONCE = 10_000
TABLES = {
    "experiments": ("experiment_id", "name"),
    "runs": ("run_uuid", "name", "status", "lifecycle_stage", "experiment_id", "start_time"),
    "metrics": ("run_uuid", "timestamp", "step", "key", "value", "is_nan"),
    "params": ("run_uuid", "key", "value"),
    "tags": ("run_uuid", "key", "value"),
}
Select = Callable[[str], Iterable[tuple[Any, ...]]]


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
    afterwards. store: `postgresql://USER@HOST/NAME`, `sqlite:///FILE`, or a file.

    Raises ValueError for another kind of database, where psycopg is missing, and for what cannot be read.
    """
    found = URI.match(store)
    dialect = found["dialect"].lower() if found else "sqlite"
    if dialect not in ("postgresql", "postgres", "sqlite"):
        raise ValueError(f"a store of MLflow is postgresql://…, sqlite:///… or a file, not {dialect}://…")
    place = store[found.end() :].removeprefix("/") if found and dialect == "sqlite" else store
    name = Path(place).name if dialect == "sqlite" else f"{urlsplit(store).path.strip('/') or 'mlflow'}.db"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, name)
        with _sqlite(place) if dialect == "sqlite" else _postgresql(store) as select:
            _copy(select, copy)
        yield copy


def _copy(select: Select, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as into:
        into.execute("BEGIN")
        for table, columns in TABLES.items():
            names = ", ".join(f'"{column}"' for column in columns)
            into.execute(f"CREATE TABLE {table} ({names})")
            marks = ", ".join("?" * len(columns))
            into.executemany(f"INSERT INTO {table} VALUES ({marks})", select(f"SELECT {names} FROM {table}"))  # noqa: S608  # nosec B608 - constants
        for table in ("metrics", "params", "tags"):
            into.execute(f"CREATE INDEX {table}_of_run ON {table} (run_uuid, key)")
        into.execute("COMMIT")


@contextmanager
def _sqlite(place: str) -> Iterator[Select]:
    """Out of a snapshot, so that who logs meanwhile does not wait."""
    try:
        with (
            closing(sqlite3.connect(f"file:{quote(place)}?mode=ro", uri=True)) as live,
            tempfile.TemporaryDirectory() as folder,
            closing(sqlite3.connect(Path(folder, "snapshot"))) as snapshot,
        ):
            live.backup(snapshot)
            yield snapshot.execute
    except sqlite3.Error as error:
        raise ValueError(f"{place} is no store of MLflow that can be read: {error}") from None


@contextmanager
def _postgresql(uri: str) -> Iterator[Select]:
    """One read-only transaction. What opens the database may stand in the URI, or where libpq looks for it."""
    try:
        import psycopg
    except ModuleNotFoundError:
        raise ValueError("a PostgreSQL store is read with psycopg: pip install 'psycopg[binary]'") from None
    try:
        with psycopg.connect(
            re.sub(r"^\w+(\+\w+)?", "postgresql", uri), connect_timeout=CONNECT_SECONDS
        ) as store:
            store.read_only, store.isolation_level = True, psycopg.IsolationLevel.REPEATABLE_READ

            def select(query: str) -> Iterator[tuple[Any, ...]]:
                with store.cursor(name="headroom") as rows:
                    rows.itersize = ROWS_AT_ONCE
                    yield from rows.execute(query)

            yield select
    except psycopg.Error as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"the store of MLflow cannot be read: {lines[0]}") from None
