"""What several readers do alike: files of a folder, what a configuration says, items that belong together.

Lines of a text file, none of them longer than memory allows.
"""

import codecs
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from webapp.interfaces.imports.readers.rows import BadSource, FoundRun, Row

Item = TypeVar("Item")
PART = 2**32  # rows of the second file of a run count on from here, of the third from twice as many
TORN = "ends in the middle of a record, as after a crash; what is whole was read."
MODEL_NAMES = ("model_name_or_path", "model_name", "model", "actor_rollout_ref.model.path")
MAX_LINE = 4 * 1024 * 1024


def files_below(folder: Path, is_wanted: Callable[[str], bool], without: tuple[str, ...] = ()) -> list[Path]:
    """Files by their names, sorted; links are not followed, folders named in `without` not entered."""
    found = []
    for parent, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if name not in without)
        paths = (Path(parent, name) for name in names if is_wanted(name))
        found += [path for path in paths if path.is_file() and not path.is_symlink()]
    return sorted(found)


def inside(folder: Path, path: Path) -> str:
    """The name of a file within a source, for people and as a key."""
    return path.relative_to(folder).as_posix() if path != folder else path.name


def broken_run(key: str, error: BadSource) -> FoundRun:
    """A run that cannot be read, so that the others of its source can."""

    def rows() -> Iterator[Row]:
        raise error
        yield  # makes this an iterator

    return FoundRun(key=key, name=key, rows=rows)


def line_of(part: int, ordinal: int) -> int:
    """A row's position in a run of several files, which keeps the order of the files."""
    return part * PART + ordinal


def model_of(config: Mapping[str, Any]) -> str:
    """The model's name, where a configuration has it under a name that trainers use."""
    for name in MODEL_NAMES:
        value = _at(config, name)
        if isinstance(value, str):
            return value
    return ""


def seed_of(config: Mapping[str, Any]) -> int | None:
    value = config.get("seed")
    try:
        return int(str(value)) if value is not None and not isinstance(value, bool) else None
    except ValueError:
        return None


def _at(config: Mapping[str, Any], name: str) -> Any:
    """By a dotted name, in a nested configuration or in a flat one (MLflow's, with slashes)."""
    flat = config.get(name, config.get(name.replace(".", "/")))
    if flat is not None or "." not in name:
        return flat
    first, _, rest = name.partition(".")
    inner = config.get(first)
    return _at(inner, rest) if isinstance(inner, Mapping) else None


def plain_value(text: str) -> Any:
    """A parameter that was kept as text: a number, true or false where it is written as one."""
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if is_number else text


def grouped(items: Iterator[Item], belong: Callable[[list[Item], Item], bool]) -> Iterator[list[Item]]:
    """Runs of items that belong together."""
    group: list[Item] = []
    for item in items:
        if group and not belong(group, item):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


class Lines:
    """Iterates over lines as text, with their ends. `line`: how many were read; `offset`: bytes of them. Raises
    BadSource for one that is too long or not UTF-8."""

    def __init__(self, file: str, opened: BinaryIO, offset: int = 0, line: int = 0) -> None:
        self._file, self._opened = file, opened
        self.offset, self.line = offset, line

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        raw = self._opened.readline(MAX_LINE + 1)
        if not raw:
            raise StopIteration
        self.offset += len(raw)
        self.line += 1
        if len(raw) > MAX_LINE:
            raise BadSource(self._file, self.line, f"This line is longer than {MAX_LINE} bytes.")
        if self.line == 1:
            raw = self._without_mark(raw)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise BadSource(self._file, self.line, "This line is not UTF-8.") from None
        if "\0" in text:
            raise BadSource(self._file, self.line, "This line has a null byte: this is no text.")
        return text

    def _without_mark(self, raw: bytes) -> bytes:
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise BadSource(self._file, 1, "The file is UTF-16; save it as UTF-8.")
        return raw.removeprefix(codecs.BOM_UTF8)
