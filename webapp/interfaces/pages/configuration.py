"""Configurations as pages show them: grouped settings, YAML, and what changed between two of them. Pure functions.

The settings that tell recipes apart, in words. Pure functions of a stored configuration.

Settings that differ among the chosen, the equal ones counted. Pure functions.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml
from pydantic import BaseModel

from training.plain_yaml import DUMPER
from training.recipe import RecipeError, parse_recipe
from training.schema import Recipe as Schema
from webapp.record.recipes.models import Revision
from webapp.science.curves.comparison.entries import Entry

Config = dict[str, Any]
COLUMNS_UP_TO = 6  # series that have a column each; of more a setting's values are counted
VALUES_UP_TO = 6
ABSENT = "–"
WORDS = {"name", "title", "description"}  # of a recipe: they name it and set nothing


@dataclass(frozen=True)
class Change:
    """One setting that differs; None where a side does not have it."""

    path: str
    before: str | None
    after: str | None


def leaves(config: Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of every setting."""
    for name, value in config.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def flatten(config: Config) -> dict[str, str]:
    """Dotted paths to values as YAML scalars; empty mappings show as "{}"."""
    return {path: scalar(value) for path, value in leaves(config)}


def settings_of(config: Config) -> Config:
    """Dotted path -> value of what is set, but for WORDS; values as they are: writing all of them as text takes
    time."""
    return {path: value for path, value in leaves(config) if value is not None and path not in WORDS}


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
    return (
        yaml.dump(value, Dumper=DUMPER, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
    )


def ordered(config: Config) -> Config:
    """A recipe's settings in the order of the schema (PostgreSQL keeps none), without those that are not set.

    What is no recipe (tracked runs report what they like) comes back as it is.
    """
    try:
        return parse_recipe(config).model_dump(mode="json", exclude_none=True)
    except RecipeError:
        return config


def sections(config: Config) -> list[tuple[str, list[dict[str, str]]]]:
    """(section, settings) in the schema's order, each with its help; those of the top level come first, under ""."""
    config = ordered(config)
    top = {name: value for name, value in config.items() if not isinstance(value, dict)}
    below = [(name, value) for name, value in config.items() if isinstance(value, dict)]
    return [
        (
            section,
            [
                {"name": name, "value": value, "help": help_of(f"{section}.{name}".removeprefix("."))}
                for name, value in flatten(settings).items()
            ],
        )
        for section, settings in ([("", top)] if top else []) + below
    ]


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
    return yaml.dump(ordered(config), Dumper=DUMPER, sort_keys=False, allow_unicode=True, width=100)


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


def key_settings(config: Config) -> list[tuple[str, str]]:
    """(name, value) of what the paper varies: loss, averages, off-policy depth, batch, length control, head."""
    rollout, off, loss = config["rollout"], config["offpolicy"], config["loss"]
    precision, evaluation = config["precision"], config["eval"]
    return [
        ("Loss", f"{loss['type'].upper()}{_clips(loss)}"),
        ("Averaged over", f"{loss['aggregation']}s"),
        (
            "Advantage",
            f"divided by the {config['advantage']['norm']}'s std".replace("the none's std", "nothing"),
        ),
        ("Batch", f"{rollout['prompts_per_step']} prompts × {rollout['generations_per_prompt']} generations"),
        ("Off-policy", f"{off['mode']}, {off['k']}" if off["k"] else "synchronous"),
        ("Zero-variance prompts", "left out" if config["filter"]["zero_variance"] == "drop" else "kept"),
        ("Curriculum", config["curriculum"]["mode"].replace("_", " ")),
        ("Length control", config["length"]["mode"]),
        ("Head", f"{precision['head_generator']} / {precision['head_trainer']}"),
        ("Learning rate", f"{config['optimizer']['lr']:g}"),
        (
            "Evaluation",
            f"{evaluation['prompts']} prompts, mean@{evaluation['k']}, every {evaluation['every_steps']} steps",
        ),
    ]


def _clips(loss: Config) -> str:
    words = {"eps_low": "low", "eps_high": "high", "eps_max": "cap"}
    shown = [f"{word} {loss[name]:g}" for name, word in words.items() if loss.get(name) is not None]
    return f" ({', '.join(shown)})" if shown else ""


def config_table(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """The differences between the series' configurations; None for fewer than two that have one.

    Each row has a cell for each of the columns; without columns, the setting's values with how often each occurs.
    equal: how many settings all of them share. silent: series that report no configuration.
    """
    own = [entry for entry in entries if entry.runs]
    flat = {entry.key: [settings_of(run.config) for run in entry.runs if run.config] for entry in own}
    known = [entry for entry in own if flat[entry.key]]
    if len(known) < 2:
        return None
    configs = [config for entry in known for config in flat[entry.key]]
    paths = _paths(known[0], configs)
    differing = [path for path in paths if _differs(path, configs)]
    columns = [flat[entry.key] for entry in known]
    few = len(known) <= COLUMNS_UP_TO
    cells = _cells if few else _counts
    return {
        "columns": [entry.label for entry in known] if few else [],
        "rows": [{"path": path, "cells": cells(path, columns)} for path in differing],
        "equal": len(paths) - len(differing),
        "silent": [entry.label for entry in own if not flat[entry.key]],
    }


def _paths(first: Entry, configs: Sequence[dict[str, Any]]) -> list[str]:
    """Every setting of any of them: in the schema's order, then by name."""
    known = settings_of(ordered(first.runs[0].config))
    everywhere = {path for config in configs for path in config}
    rest = sorted(everywhere - known.keys())
    return [path for path in known if path in everywhere] + rest


def _differs(path: str, configs: Sequence[dict[str, Any]]) -> bool:
    first = configs[0].get(path)
    return any(config.get(path) != first for config in configs)


def _cells(path: str, columns: Sequence[Sequence[dict[str, Any]]]) -> tuple[str, ...]:
    return tuple(", ".join(dict.fromkeys(_text(config, path) for config in column)) for column in columns)


def _counts(path: str, columns: Sequence[Sequence[dict[str, Any]]]) -> tuple[str, ...]:
    counted = Counter(_text(config, path) for column in columns for config in column)
    shown = [f"{value} ({count})" for value, count in counted.most_common(VALUES_UP_TO)]
    more = len(counted) - len(shown)
    return tuple([*shown, f"and {more} more"] if more else shown)


def _text(config: dict[str, Any], path: str) -> str:
    return scalar(config[path]) if path in config else ABSENT
