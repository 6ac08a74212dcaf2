"""Expressions over a value inside stored JSON: its text, its number, and comparisons that are never unknown.

A comparison with something that is not there is false (not NULL), so that NOT is its exact complement.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from django.db.models import BooleanField, Case, DecimalField, Expression, F, Func, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, Coalesce
from django.db.models.lookups import Exact, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual

Json = KeyTransform | F
COMPARE = {
    "exact": Exact,
    "lt": LessThan,
    "lte": LessThanOrEqual,
    "gt": GreaterThan,
    "gte": GreaterThanOrEqual,
}


class _AsNumeric(Func):
    """A JSON number as PostgreSQL's numeric, which holds any number that JSON can."""

    template = "(%(expressions)s)::numeric"
    output_field = DecimalField()


def json_at(column: str, path: Sequence[str]) -> Any:
    """The JSON value at a path; its order is that of PostgreSQL's jsonb (numbers by size)."""
    value: Any = F(column)
    for key in path:
        value = KeyTransform(key, value)
    return value


def text_of(column: str, path: Sequence[str]) -> Any:
    """The value as text: a string without its quotes, `true`, `0.0003`, or JSON of an object."""
    if not path:
        return Cast(F(column), TextField())
    return KeyTextTransform(path[-1], json_at(column, path[:-1]))


def number_at(column: str, path: Sequence[str]) -> Expression:
    """The value where it is a number, else NULL."""
    value = json_at(column, path)
    kind = Func(value, function="jsonb_typeof", output_field=TextField())
    return Case(When(Exact(kind, Value("number")), then=_AsNumeric(value)), output_field=DecimalField())


def fits(text: Any, lookup: str, value: str) -> Expression:
    """Whether a text fits; `lookup` is one of Django's for text."""
    compare = TextField().get_lookup(lookup)
    assert compare is not None
    expression = Func(text, template="(%(expressions)s)", output_field=TextField())
    return _never_unknown(compare(expression, value))


def number_fits(column: str, path: Sequence[str], lookup: str, number: float) -> Expression:
    """Whether the value is a number that compares so."""
    rhs = Value(Decimal(repr(number)), output_field=DecimalField())
    return _never_unknown(COMPARE[lookup](number_at(column, path), rhs))


def missing(column: str, path: Sequence[str]) -> Expression:
    """Whether there is no value, or null."""
    kind = Func(json_at(column, path), function="jsonb_typeof", output_field=TextField())
    null = Value("null", output_field=TextField())
    return Exact(Coalesce(kind, null, output_field=TextField()), null)


def _never_unknown(lookup: Any) -> Expression:
    return Coalesce(lookup, Value(False), output_field=BooleanField())
