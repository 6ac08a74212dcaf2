"""Configurations as pages show them: grouped settings, YAML, and what changed between two of them. Pure functions."""

from dataclasses import dataclass
from typing import Any

import yaml

from webapp.recipes.models import Revision

Config = dict[str, Any]


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
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()


def sections(config: Config) -> list[tuple[str, list[tuple[str, str]]]]:
    """(section, [(setting, value)]) in the configuration's order; settings of the top level come first."""
    top = {name: value for name, value in config.items() if not isinstance(value, dict)}
    found = [("", list(flatten(top).items()))] if top else []
    for name, value in config.items():
        if isinstance(value, dict):
            found.append((name, list(flatten(value).items())))
    return found


def as_yaml(config: Config) -> str:
    """The configuration as YAML in its own order."""
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=100)


def differences(before: Config, after: Config) -> list[Change]:
    """Settings that differ, in the order of `after`, then those that are gone."""
    old, new = flatten(before), flatten(after)
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
