"""The page of the recipe's schema: every field, by section, as pydantic knows it."""

from typing import Any

from doc_tables import table
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from recipes_doc import default, kind

from docs_site.words import cell, text
from training.schema import Recipe

BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
NOTE = """Written from `training/schema` when this site was built. A field's unit stands in its meaning; where none
does, it is a plain number. [Recipes](../recipes.md) has what the committed ones choose and how a recipe of one's own
is written.
"""


def page() -> str:
    """Markdown: fields of the recipe itself, then a section for each group of fields."""
    parts = ["# Fields of a recipe\n", NOTE]
    own = {name: field for name, field in Recipe.model_fields.items() if _section(field) is None}
    parts += ["## The recipe itself\n", _table("", own)]
    for name, field in Recipe.model_fields.items():
        section = _section(field)
        if section is not None:
            parts += [
                f"## {name}\n",
                text(section.__doc__ or "") + "\n",
                _table(f"{name}.", _leaves(section)),
            ]
    return "\n".join(parts)


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _leaves(section: type[BaseModel], prefix: str = "") -> dict[str, FieldInfo]:
    found: dict[str, FieldInfo] = {}
    for name, field in section.model_fields.items():
        inner = _section(field)
        found |= _leaves(inner, f"{prefix}{name}.") if inner else {prefix + name: field}
    return found


def _table(prefix: str, fields: dict[str, FieldInfo]) -> str:
    rows = (
        [
            f"`{prefix}{name}`",
            cell(kind(field)),
            _bounds(field),
            default(field),
            cell(field.description or ""),
        ]
        for name, field in fields.items()
    )
    return table(["field", "values", "bounds", "default", "meaning and unit"], rows)


def _bounds(field: FieldInfo) -> str:
    """Least and greatest value, as the schema checks them; those of a value that may also be open, too."""
    held: list[Any] = [*field.metadata]
    for part in getattr(field.annotation, "__args__", ()):
        for meta in getattr(part, "__metadata__", ()):
            held += [meta, *getattr(meta, "metadata", ())]
    said = [
        f"{sign} {getattr(one, name)}" for one in held for name, sign in BOUNDS.items() if hasattr(one, name)
    ]
    return ", ".join(dict.fromkeys(said)) or "–"
