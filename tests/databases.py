"""Other databases of the server that the tests use."""

import os
from typing import Any

import psycopg


def database_url(name: str) -> str:
    """The address of the database of this name."""
    head, _, query = os.environ["DATABASE_URL"].partition("?")
    return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")


def is_there(name: str) -> bool:
    """Whether the server has a database of this name."""
    return bool(_said("SELECT FROM pg_database WHERE datname = %s", name))


def copy(name: str, *, to: str) -> None:
    """A database that nobody uses now."""
    _said(f'CREATE DATABASE "{to}" TEMPLATE "{name}"')


def drop(name: str) -> None:
    """Whoever uses it."""
    _said(f'DROP DATABASE "{name}" WITH (FORCE)')


def _said(statement: str, *values: Any) -> int:
    with psycopg.connect(database_url("postgres"), autocommit=True) as postgres:
        return postgres.execute(statement, values or None).rowcount
