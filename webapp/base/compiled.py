"""Statements of our own, and queries that every request asks: Django works out their SQL once a process instead of each
time.

Making the SQL of a query with a few joins takes Django some milliseconds, several times what PostgreSQL takes to answer
it. It is the same each time but for the values.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, TypeVar

from django.db import connection, connections, models
from django.db.models.query import ModelIterable

M = TypeVar("M", bound=models.Model)


def rows_of(statement: str, values: Mapping[str, Any] | Sequence[Any] = ()) -> list[tuple]:
    """All rows that an SQL statement gives. One query."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


class Compiled(Generic[M]):
    """The queryset that `build(**values)` makes, to be asked again and again with other values.

    `examples`: a value of the right kind for each name of `values`, which occurs nowhere else among the parameters of
    the statement. Values have to reach the database as they are given (text, whole numbers), and `build` may do nothing
    with them but put them into the query.

    >>> by_slug = Compiled(lambda slug: Project.objects.filter(slug=slug).select_related("organisation"), slug="?")
    >>> by_slug.first(slug="math")
    """

    def __init__(self, build: Callable[..., models.QuerySet[M]], **examples: str | int) -> None:
        self._build = build
        self._examples = examples
        self._made: tuple[models.QuerySet[M], Any, str, list[Any]] | None = None

    def first(self, **values: str | int) -> M | None:
        """The first row, or None. One query. `build` has to bound the rows itself where there may be many."""
        return next(iter(self.all(**values)), None)

    def all(self, **values: str | int) -> list[M]:
        """Every row, as the queryset would give it. One query."""
        queryset, known, sql, parameters = self._made or self._compile()
        given = tuple(values[one.name] if isinstance(one, _Place) else one for one in parameters)
        compiler = copy.copy(known)
        compiler.connection = connections[queryset.db]  # of this thread
        compiler.as_sql = lambda *_, **__: (sql, given)
        asked: Any = SimpleNamespace(  # as much of a queryset as is needed to make its rows
            db=queryset.db,
            query=SimpleNamespace(get_compiler=lambda using: compiler),
            _known_related_objects={},
        )
        return list(ModelIterable(asked))

    def _compile(self) -> tuple[models.QuerySet[M], Any, str, list[Any]]:
        queryset = self._build(**self._examples)
        compiler = queryset.query.get_compiler(using=queryset.db)
        sql, parameters = compiler.as_sql()
        places = {value: _Place(name) for name, value in self._examples.items()}
        with_places = [places.get(one, one) for one in parameters]
        if missing := set(places.values()) - {one for one in with_places if isinstance(one, _Place)}:
            raise TypeError(f"{', '.join(one.name for one in missing)} is no parameter of {sql}")
        self._made = queryset, compiler, sql, with_places
        return self._made


class _Place(NamedTuple):
    """Where a value goes among the parameters."""

    name: str
