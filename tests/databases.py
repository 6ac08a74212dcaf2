"""Other databases of the server that the tests use."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection


def database_url(name: str) -> str:
    """The address of the database of this name."""
    head, _, query = os.environ["DATABASE_URL"].partition("?")
    return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")


def is_there(name: str) -> bool:
    """Whether the server has a database of this name."""
    return bool(_said("SELECT FROM pg_database WHERE datname = %s", name))


def create(name: str, *, template: str = "template1") -> None:
    """As a copy of a database that nobody uses now: by default an empty one."""
    _said(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')


def create_migrated(name: str) -> None:
    """As a copy of the tests' own, which is migrated, without an organisation."""
    connection.close()
    create(name, template=connection.settings_dict["NAME"])
    with psycopg.connect(database_url(name)) as copy:
        copy.execute("TRUNCATE accounts_organisation CASCADE")


def drop(name: str) -> None:
    """Whoever uses it."""
    _said(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def dropped(*names: str) -> Iterator[list[str]]:
    """The addresses of databases that are dropped at the end."""
    try:
        yield [database_url(name) for name in names]
    finally:
        for name in names:
            drop(name)


def _said(statement: str, *values: Any) -> int:
    with psycopg.connect(database_url("postgres"), autocommit=True) as postgres:
        return postgres.execute(statement, values or None).rowcount
