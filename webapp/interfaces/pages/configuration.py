"""Configurations as pages show them: grouped settings, YAML, and what changed between two of them. Pure functions."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml
from pydantic import BaseModel

from training.recipe import RecipeError, parse_recipe
from training.schema import Recipe as Schema
from webapp.record.recipes.models import Revision

Config = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """One setting of a configuration, and what the schema says of it."""

    name: str
    value: str
    help: str


@dataclass(frozen=True)
class Change:
    """One setting that differs; None where a side does not have it."""

    path: str
    before: str | None
    after: str | None


def flatten(config: Config, prefix: str = "") -> dict[str, str]:
    """Dotted paths to values as YAML scalars; empty mappings show as "{}"."""
    flat: dict[str, str] = {}
    for name, value in config.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            flat |= flatten(value, f"{path}.")
        else:
            flat[path] = scalar(value)
    return flat


def scalar(value: Any) -> str:
    """A value on one line, as YAML writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float | None):
        return _plain(type(value).__name__, value)
    return _dumped(value)


@lru_cache(maxsize=4096)
def _plain(kind: str, value: float | None) -> str:
    """A number, truth or nothing: a table of a hundred runs asks for the same few often. 1, 1.0 and True differ."""
    return _dumped(value)


def _dumped(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()


def ordered(config: Config) -> Config:
    """A recipe's settings in the order of the schema (PostgreSQL keeps none), without those that are not set.

    What is no recipe (tracked runs report what they like) comes back as it is.
    """
    try:
        return parse_recipe(config).model_dump(mode="json", exclude_none=True)
    except RecipeError:
        return config


def sections(config: Config) -> list[tuple[str, list[Setting]]]:
    """(section, settings) in the schema's order; settings of the top level come first, under ""."""
    config = ordered(config)
    top = {name: value for name, value in config.items() if not isinstance(value, dict)}
    found = [("", _settings(top, ""))] if top else []
    for name, value in config.items():
        if isinstance(value, dict):
            found.append((name, _settings(value, f"{name}.")))
    return found


def _settings(values: Config, prefix: str) -> list[Setting]:
    return [Setting(name, value, help_of(prefix + name)) for name, value in flatten(values).items()]


def help_of(path: str) -> str:
    """What the schema says of a setting; nothing for one that it does not know."""
    model: type[BaseModel] = Schema
    *parents, leaf = path.split(".")
    for parent in parents:
        field = model.model_fields.get(parent)
        if field is None or not (
            isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        ):
            return ""
        model = field.annotation
    return (model.model_fields[leaf].description or "") if leaf in model.model_fields else ""


def as_yaml(config: Config) -> str:
    """The configuration as YAML in the schema's order."""
    return yaml.safe_dump(ordered(config), sort_keys=False, allow_unicode=True, width=100)


def differences(before: Config, after: Config) -> list[Change]:
    """Settings that differ, in the order of `after`, then those that are gone."""
    old, new = flatten(ordered(before)), flatten(ordered(after))
    changed = [Change(path, old.get(path), value) for path, value in new.items() if old.get(path) != value]
    gone = [Change(path, value, None) for path, value in old.items() if path not in new]
    return changed + gone


def parent_of(revision: Revision) -> Revision | None:
    """The revision before this one, if there is one."""
    return (
        Revision.objects.filter(recipe=revision.recipe_id, number__lt=revision.number)
        .order_by("-number")
        .first()
    )
