"""Schemas that take their fields from what they show: a model, or a dataclass or named tuple of the services."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar, get_type_hints

from django.db.models import Field, Model
from ninja import Schema
from pydantic import create_model

Shape = TypeVar("Shape", bound=type[Schema])
TYPES = {
    "BooleanField": bool,
    "CharField": str,
    "DateTimeField": datetime,
    "FileField": str,
    "FloatField": float,
    "JSONField": dict[str, Any],
    "SlugField": str,
    "TextField": str,
}


def fields_of(source: type, names: str = "") -> Callable[[Shape], Shape]:
    """For a class that says only what `source` does not: descriptions, other types, further fields.

    names: which fields there are, in this order, those of the class among them; by default all that a dataclass has.
    """

    def derive(shape: Shape) -> Shape:
        types = _columns(source) if issubclass(source, Model) else get_type_hints(source)
        own: Any = shape
        said = {name: (info.annotation, info) for name, info in own.model_fields.items()}
        fields: dict[str, Any] = {
            name: said.get(name) or (types[name], ...) for name in names.split() or types
        }
        derived: Any = create_model(
            own.__name__,
            __base__=own.__base__,
            __doc__=own.__doc__,
            __module__=own.__module__,
            **fields | said,
        )
        return derived

    return derive


def _columns(model: Any) -> dict[str, Any]:
    """Every other kind of field is a whole number."""
    columns = [each for each in model._meta.get_fields() if isinstance(each, Field) and not each.is_relation]
    types = {each.name: TYPES.get(each.get_internal_type(), int) for each in columns}
    return {each.name: types[each.name] | None if each.null else types[each.name] for each in columns}
