"""What every reader of another tracker's files gives: runs, and the rows of each; and what several readers do alike.

No Django in this package.
"""

import codecs
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, field_validator

MAX_RUNS = 10_000  # of a source
MAX_GROUP = 1000  # metrics of one row, put together out of what is logged one by one
MAX_NAMES = 2000
BATCH_ROWS, BATCH_VALUES = 1000, 50_000
COMPUTE = ("device_hours", "flops", "tokens")
ROLES = (  # what a column of a table can be; all that none of them names is a metric
    "run",
    "step",
    "time",  # a moment: ISO 8601, or seconds or milliseconds since 1970
    "elapsed",  # seconds since the run began
    *COMPUTE,  # totals so far, unless Options.per_row names them
    "pass_rate",
    "pass_rate_stderr",
    "metric",  # the two of a long table: the metric's name, and its value
    "value",
)
STATES = ("succeeded", "failed", "cancelled")


class BadSource(Exception):
    """What cannot be read: `reason` is one sentence, `file` the name inside the source, `line` from 1 where known."""

    def __init__(self, file: str, line: int | None, reason: str) -> None:
        self.file, self.line, self.reason = file, line, reason
        place = file if line is None else f"{file}, line {line}"
        super().__init__(f"{place}: {reason}")


@dataclass(frozen=True)
class Row:
    """One moment of a run. compute: device_hours, flops, tokens, totals so far; missing or None is unknown.

    line: the position in the source, from 1. It names the place in errors and makes a repeat harmless: the same file
    gives the same lines, and a file that has grown gives the same ones first.
    """

    line: int
    step: int
    time: datetime | None  # with offset
    compute: Mapping[str, float | None]
    metrics: Mapping[str, float | None]  # None: not finite


@dataclass(frozen=True)
class FoundRun:
    """One run in the source. key: what names it there, stable when the source grows.

    rows: reads the source from its beginning at each call, in its order, and raises BadSource where it is broken.
    meaning: what somebody has said here of its metrics, where it comes out of an export.
    pass_rate: what the source calls the metric that is stored as eval/pass_rate.
    notes: sentences on what was left out or is unsure; reading the rows may add to them.
    """

    key: str
    name: str
    rows: Callable[[], Iterator[Row]]
    config: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""
    model: str = ""
    seed: int | None = None
    state: str | None = None  # of STATES; None: unknown, or still running
    meaning: Mapping[str, Any] = field(default_factory=dict)
    pass_rate: str = ""
    notes: list[str] = field(default_factory=list)


class Options(BaseModel):
    """What the person says of a source. Raises ValueError for what no reader could use."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    columns: dict[str, str] = Field(
        default_factory=dict,
        max_length=20,
        description="For tables: role -> name of the column that has it; roles are run, step, time, elapsed, "
        "device_hours, flops, tokens, pass_rate, pass_rate_stderr, metric and value. Without it the names of the "
        "columns decide, or the import is refused. For other kinds pass_rate and pass_rate_stderr name metrics.",
    )
    per_row: tuple[str, ...] = Field(
        default_factory=tuple,
        max_length=3,
        description="Those of device_hours, flops, tokens that are the amount of each row, not the total so far.",
    )
    percent: StrictBool = Field(
        False,
        description="The named pass rate and its standard error are in percent, from 0 to 100: they are stored from 0 "
        "to 1. Never assumed.",
    )
    devices: StrictFloat | None = Field(
        None, allow_inf_nan=False, description="Device-hours are devices x time; null where you do not know."
    )
    timezone: str = Field("", max_length=60, description='Of times without an offset, such as "UTC".')
    name: str = Field("", max_length=120, description="Names the run where nothing in the source does.")
    experiments: tuple[str, ...] = Field(
        default_factory=tuple,
        max_length=MAX_NAMES,
        description="Of MLflow: names of those to read. None: all.",
    )
    ignore: tuple[str, ...] = Field(
        default_factory=tuple, max_length=MAX_NAMES, description="Names of columns or metrics to leave out."
    )

    @field_validator("columns")
    @classmethod
    def _check_columns(cls, columns: dict[str, str]) -> dict[str, str]:
        if unknown := [role for role in columns if role not in ROLES]:
            raise ValueError(f"{unknown[0]} is nothing that a column can be")
        if ("metric" in columns) != ("value" in columns):
            raise ValueError("a long table has both a column of names and one of values")
        return columns

    @field_validator("per_row")
    @classmethod
    def _check_per_row(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in names if name not in COMPUTE]:
            raise ValueError(f"{unknown[0]} is no kind of compute")
        return names

    @field_validator("devices")
    @classmethod
    def _check_devices(cls, devices: float | None) -> float | None:
        if devices is not None and not 0 < devices <= 1e6:
            raise ValueError("devices is a number above 0, up to a million")
        return devices

    @field_validator("timezone")
    @classmethod
    def _check_timezone(cls, name: str) -> str:
        try:
            if name:
                ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{name} is no time zone") from None
        return name


class ServerOptions(Options):
    """With what opens an MLflow server: a bearer token, or with `user` a password. It is never stored in clear."""

    token: str = Field("", repr=False)
    user: str = ""


class Preview(BaseModel):
    """A table's beginning. guess: the mapping that the names suggest, for the person to confirm or change.

    asked: those of its roles that nobody takes unless a person confirms them; `guess.percent` is one of these, too.
    unclear: sentences on what the person has to decide or should look at.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # the first ones, as text
    guess: Options
    unclear: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceKind:
    """A kind of source. takes: "file", "folder" (uploaded as an archive) or "address".

    read(source, options) finds the runs in a file, an unpacked folder (see `archives.unpack`) or at an address, and
    raises BadSource for what is not of this kind; preview (tables only) shows the beginning. in_place: it is read by
    the process that asks; else by a child with limits (`webapp.interfaces.imports.apart`), as whatever people upload.
    """

    label: str
    takes: str
    endings: tuple[str, ...]
    read: Callable[[Any, Options], list[FoundRun]]
    preview: Callable[[Path, Options], Preview] | None = None
    in_place: bool = False


Item = TypeVar("Item")
PART = 2**32  # rows of the second file of a run count on from here, of the third from twice as many
TORN = "ends in the middle of a record, as after a crash; what is whole was read."
MAX_LINE = 4 * 1024 * 1024


def note_torn(file: str, notes: list[str]) -> None:
    """Say it of the run, once."""
    if (note := f"{file} {TORN}") not in notes:
        notes.append(note)


def files_below(folder: Path, is_wanted: Callable[[str], bool], without: tuple[str, ...] = ()) -> list[Path]:
    """Files by their names, sorted; links are not followed, folders named in `without` not entered."""
    found = []
    for parent, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if name not in without)
        paths = (Path(parent, name) for name in names if is_wanted(name))
        found += [path for path in paths if path.is_file() and not path.is_symlink()]
    return sorted(found)


def source_files(root: Path, is_wanted: Callable[[str], bool], what: str) -> list[Path]:
    """The file itself, or those of a folder by their names. Raises BadSource where there is none."""
    files = [root] if root.is_file() else files_below(root, is_wanted)
    if not files:
        raise BadSource(root.name, None, f"There is no {what} in this folder.")
    return files


def since_1970(seconds: float | None) -> datetime | None:
    """None for what is no time of a training."""
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None and 0 < seconds < 1e11 else None


def inside(folder: Path, path: Path) -> str:
    """The name of a file within a source, for people and as a key."""
    return path.relative_to(folder).as_posix() if path != folder else path.name


def batched(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """At most BATCH_ROWS, with BATCH_VALUES or few more. Raises BadSource once what came before the broken place was
    given."""
    batch: list[Row] = []
    values = 0
    try:
        for row in rows:
            batch.append(row)
            values += len(row.metrics)
            if len(batch) >= BATCH_ROWS or values >= BATCH_VALUES:
                yield batch
                batch, values = [], 0
    except BadSource:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def broken_run(key: str, error: BadSource) -> FoundRun:
    """A run that cannot be read, so that the others of its source can."""

    def rows() -> Iterator[Row]:
        raise error
        yield  # makes this an iterator

    return FoundRun(key=key, name=key, rows=rows)


def line_of(part: int, ordinal: int) -> int:
    """A row's position in a run of several files, which keeps the order of the files."""
    return part * PART + ordinal


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
    """Iterates over lines as text, with their ends. `line`: how many were read; `offset`: bytes of them; `begin`: both
    before the newest one. Raises BadSource for one that is too long or not UTF-8."""

    def __init__(self, file: str, opened: BinaryIO, offset: int = 0, line: int = 0) -> None:
        self._file, self._opened = file, opened
        self.offset, self.line = offset, line

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        self.begin = (self.offset, self.line)
        raw = self._opened.readline(MAX_LINE + 1)
        if not raw:
            raise StopIteration
        self.offset += len(raw)
        self.line += 1
        if len(raw) > MAX_LINE:
            raise BadSource(self._file, self.line, f"This line is longer than {MAX_LINE:,} bytes.")
        if self.line == 1:
            if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise BadSource(self._file, 1, "The file is UTF-16; save it as UTF-8.")
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise BadSource(self._file, self.line, "This line is not UTF-8.") from None
        if "\0" in text:
            raise BadSource(self._file, self.line, "This line has a null byte: this is no text.")
        return text
