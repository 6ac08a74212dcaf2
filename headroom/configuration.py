"""Turns what a trainer describes a run with into plain JSON that stays readable; what cannot be is named by its key."""

import dataclasses
import json
import math
import os
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence, Set
from datetime import date, time
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headroom.adapters.naming import MAX_SEED

MOST_LISTED = 50_000  # of a list
MOST_ITEMS = 1_000  # of an array; of a larger one its type and shape are kept
MOST_CHARACTERS = 1_000  # of what is only known by its own words
MOST_LEVELS = 50  # inside one another
LARGEST_WHOLE = 2**63 - 1  # larger ones become text: databases and readers would round them
LONGEST = {"name": 120, "task": 80, "model": 200}  # characters; the server's limits
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # where an object lies in memory
_LOST = object()


def plain(value: Any, name: str = "config") -> tuple[Any, list[str]]:
    """`value` as JSON, and the keys of what could not be kept, like `config.model.hook`. Never raises.

    Numbers that are not finite, paths, times and bytes become text; sets, tuples and small arrays lists; dataclasses,
    named tuples and namespaces objects; members of an enumeration their text or their name; functions and classes
    their full name; others their own words, where these say more than where the object lies in memory.
    """
    lost: list[str] = []
    found = _plain(value, name, lost, ())
    return (None if found is _LOST else found), lost


def text(value: str) -> str:
    """As JSON and databases take it: without NUL, and without halves of characters."""
    return value.replace("\0", "").encode("utf-8", "replace").decode()


def file_name(name: str) -> str:
    """As a part of a path: letters, digits and - _ . alone."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)


def in_a_line(name: str, most: int) -> str:
    """As a server takes a name: printable, of so many characters."""
    return "".join(letter if letter.isprintable() else " " for letter in name).strip()[:most]


def write_json(value: Any, path: Path) -> None:
    """In place of what was there, or not at all. Raises OSError."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(json.dumps(value, default=str))
    partial.replace(path)


def _plain(value: Any, name: str, lost: list[str], around: tuple[int, ...]) -> Any:
    """`around`: the ids of what holds it."""
    try:
        if id(value) not in around and len(around) < MOST_LEVELS:
            found = _scalar(value)
            if found is _LOST:
                found = _holding(value, name, lost, (*around, id(value)))
            if found is not _LOST:
                return found
    except Exception:  # nosec B110  # whatever an object of somebody else's does when it is looked at
        pass
    lost.append(text(name))
    return _LOST


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return text(value.value if isinstance(value.value, str) else value.name)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int):
        return int(value) if abs(value) <= LARGEST_WHOLE else str(int(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, bytes | bytearray):
        return text(bytes(value).decode("utf-8", "backslashreplace"))
    if isinstance(value, date | time):
        return value.isoformat()
    return text(str(os.fspath(value))) if isinstance(value, os.PathLike) else _LOST


def _holding(value: Any, name: str, lost: list[str], around: tuple[int, ...]) -> Any:
    """Of what holds other values, or is an object of its own."""
    if (fields := _fields(value)) is not None:
        named = {
            text(str(_scalar(key) if isinstance(key, Enum) else key)): each for key, each in fields.items()
        }
        found = {key: _plain(each, f"{name}.{key}", lost, around) for key, each in named.items()}
        return {key: each for key, each in found.items() if each is not _LOST}
    if isinstance(value, Set):
        value = sorted(value, key=lambda each: (type(each).__name__, str(each)))
    if isinstance(value, Sequence):
        if len(value) > MOST_LISTED:
            return _LOST
        found_items = [_plain(each, f"{name}[{i}]", lost, around) for i, each in enumerate(value)]
        return [each for each in found_items if each is not _LOST]
    return _array_or_words(value, name, lost, around)


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """Of what is an object with named values; None for everything else."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Namespace | SimpleNamespace):
        return vars(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    for method in ("_asdict", "model_dump"):  # of named tuples, and of pydantic's models
        if hasattr(value, method) and not isinstance(value, type):
            return getattr(value, method)()
    return None


def _array_or_words(value: Any, name: str, lost: list[str], around: tuple[int, ...]) -> Any:
    """numpy's and torch's scalars and arrays; else a full name, or an object's own words."""
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        if math.prod(value.shape) <= MOST_ITEMS:
            return _plain(value.tolist(), name, lost, around)
        return f"{type(value).__name__} of {value.dtype}, shape {list(value.shape)}"
    if callable(value) and hasattr(value, "__qualname__"):
        return text(f"{value.__module__}.{value.__qualname__}")
    words = str(value)
    if words.startswith("<") and ADDRESS.search(words):
        return _LOST
    return text(ADDRESS.sub("", words))[:MOST_CHARACTERS]


def described(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What a run is described with, as a server takes it, and the keys of what could not be kept. None is left out."""
    found: dict[str, Any] = {}
    lost: list[str] = []
    for name, value in given.items():
        kept, more = plain(value, name)
        lost += more
        if kept is not None:
            found[name] = kept
    for name in LONGEST.keys() & found.keys():
        found[name] = in_a_line(str(found[name]), LONGEST[name])
    if not isinstance(found.get("config", {}), dict):
        found["config"] = {"config": found["config"]}
    if not 0 <= _whole(found.get("seed", 0)) <= MAX_SEED:
        del found["seed"]
        lost.append("seed")
    return found, lost


def _whole(value: Any) -> int:
    """-1 for what is no whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
