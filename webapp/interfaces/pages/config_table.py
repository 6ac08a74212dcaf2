"""Settings that differ among the chosen, the equal ones counted. Pure functions."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from webapp.interfaces.pages.configuration import Config, ordered, scalar
from webapp.science.curves.comparison.entries import Entry

COLUMNS_UP_TO = 6  # series that have a column each; of more a setting's values are counted
VALUES_UP_TO = 6
ABSENT = "–"
WORDS = {"name", "title", "description"}  # of a recipe: they name it and set nothing


@dataclass(frozen=True)
class Row:
    """One setting: a cell for each series, or for many its values with how often each occurs."""

    path: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class ConfigTable:
    """`columns` is empty where the values are counted. equal: how many settings all of them share. silent: series that
    report no configuration."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    equal: int
    silent: tuple[str, ...]


def config_table(entries: Sequence[Entry]) -> ConfigTable | None:
    """The differences between the series' configurations; None for fewer than two that have one."""
    own = [entry for entry in entries if entry.runs]
    flat = {entry.key: [dict(leaves(run.config)) for run in entry.runs if run.config] for entry in own}
    known = [entry for entry in own if flat[entry.key]]
    silent = tuple(entry.label for entry in own if not flat[entry.key])
    if len(known) < 2:
        return None
    configs = [config for entry in known for config in flat[entry.key]]
    paths = _paths(known[0], configs)
    differing = [path for path in paths if _differs(path, configs)]
    columns = [flat[entry.key] for entry in known]
    few = len(known) <= COLUMNS_UP_TO
    cells = _cells if few else _counts
    rows = tuple(Row(path, cells(path, columns)) for path in differing)
    titles = tuple(entry.label for entry in known) if few else ()
    return ConfigTable(titles, rows, len(paths) - len(differing), silent)


def leaves(config: Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of every setting that is set; values as they are: writing all of them as text takes time."""
    for name, value in config.items():
        if not prefix and name in WORDS:
            continue
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", value


def _paths(first: Entry, configs: Sequence[dict[str, Any]]) -> list[str]:
    """Every setting of any of them: in the schema's order, then by name."""
    known = [path for path, _ in leaves(ordered(first.runs[0].config))]
    everywhere = {path for config in configs for path in config}
    rest = sorted(everywhere - set(known))
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
