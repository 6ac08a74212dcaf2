"""MLflow's databases as the command copies them: at one moment, five tables, nothing written."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import connection

from headroom.mlflow_store import TABLES, copied, is_store
from tests.webapp.interfaces.imports.readers.reading import EXPECTED, SAMPLES, runs_of

NUMBERS = {"timestamp": "bigint", "step": "bigint", "value": "double precision", "is_nan": "boolean"}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A store that has secrets, too."""
    path = tmp_path / "store" / "mlflow.db"
    path.parent.mkdir()
    path.write_bytes((SAMPLES / "mlflow.db").read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as store:
        store.execute("CREATE TABLE secrets (value)")
        store.execute("INSERT INTO secrets VALUES ('open sesame')")
    return path


def rows_of(path: Path) -> dict[str, list[object]]:
    return {run.key: list(run.rows()) for run in runs_of("mlflow", path).values()}


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite+pysqlite:///{}"])
def test_a_sqlite_store_is_copied(database: Path, form: str) -> None:
    before = database.read_bytes(), list(database.parent.iterdir())
    store = form.format(database)
    assert is_store(store)

    with copied(store) as copy:
        assert copy.name == "mlflow.db" and rows_of(copy) == rows_of(database)
        assert b"open sesame" not in copy.read_bytes()
        kept = copy

    assert not kept.exists() and (database.read_bytes(), list(database.parent.iterdir())) == before


def test_what_is_being_logged_is_in_the_copy_once_it_is_committed(database: Path) -> None:
    run = next(iter(rows_of(database)))
    with closing(sqlite3.connect(database, isolation_level=None)) as client:
        client.execute("PRAGMA journal_mode = WAL")
        client.execute("INSERT INTO metrics VALUES ('new', 1.5, 1760009000000, ?, 99, 0)", [run])
        client.execute("BEGIN")
        client.execute("INSERT INTO metrics VALUES ('newer', 1.5, 1760009000000, ?, 100, 0)", [run])
        with copied(str(database)) as copy:
            assert [row.step for row in rows_of(copy)[run]][-1] == 99


@pytest.fixture
def postgresql(transactional_db: None) -> Iterator[str]:
    """The URI of a schema with the same tables, in the database of the tests."""
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    schema = "an_mlflow_store"
    with psycopg.connect(url, autocommit=True) as store, sqlite3.connect(SAMPLES / "mlflow.db") as sample:
        store.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        store.execute(f"CREATE SCHEMA {schema}")
        for table, columns in TABLES.items():
            kinds = NUMBERS if table == "metrics" else {}
            described = ", ".join(f'"{name}" {kinds.get(name, "text")}' for name in columns)
            store.execute(f"CREATE TABLE {schema}.{table} ({described})")
            names = ", ".join(f'"{name}"' for name in columns)
            with store.cursor().copy(f"COPY {schema}.{table} FROM STDIN") as into:
                for row in sample.execute(f"SELECT {names} FROM {table}"):
                    into.write_row(
                        [bool(v) if n == "is_nan" else v for n, v in zip(columns, row, strict=True)]
                    )
        separator = "&" if "?" in url else "?"
        yield f"{url}{separator}options=-csearch_path%3D{schema}"
        store.execute(f"DROP SCHEMA {schema} CASCADE")


def test_a_postgresql_store_is_copied(postgresql: str) -> None:
    for uri in (postgresql, postgresql.replace("postgresql://", "postgresql+psycopg2://", 1)):
        assert is_store(uri)
        with copied(uri) as copy:
            assert set(runs_of("mlflow", copy)) == set(EXPECTED["mlflow-database"])
            assert rows_of(copy) == rows_of(SAMPLES / "mlflow.db")


def test_a_postgresql_store_that_may_only_be_read_is_enough(postgresql: str) -> None:
    """Nothing is written: a transaction that could not write does."""
    with copied(f"{postgresql}%20-cdefault_transaction_read_only%3Don") as copy:
        assert len(rows_of(copy)) == 3


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("mysql+pymysql://me:secret@db/mlflow", "postgresql://…, sqlite:///… or a file, not mysql://…"),
        ("sqlite:////no/such/store.db", "unable to open database file"),
        ("postgresql://me:secret@127.0.0.1:9/mlflow", "the store of MLflow cannot be read"),
    ],
)
def test_what_cannot_be_read_says_why_and_no_password(store: str, words: str) -> None:
    with pytest.raises(ValueError, match="store") as refused, copied(store):
        pass
    assert words in str(refused.value) and "secret" not in str(refused.value)


def test_other_databases_and_files_are_no_stores(database: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as store:
        store.execute("DROP TABLE runs")
    with (
        pytest.raises(ValueError, match="no store of MLflow that can be read: no such table: runs"),
        copied(str(database)),
    ):
        pass
    (tmp_path / "a.csv").write_text("step\n")
    assert (
        not is_store(str(tmp_path / "a.csv")) and not is_store(str(tmp_path)) and not is_store("nowhere.db")
    )
