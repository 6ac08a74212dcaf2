"""What every reader of another tracker's files gives: runs, and the rows of each. No Django in this package."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

MAX_NAME_LENGTH = 250
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


@dataclass(frozen=True)
class Options:
    """What the person says of a source. Raises ValueError for what no reader could use.

    columns: role (of ROLES) -> name of the column that has it. For tables only; elsewhere `pass_rate` and
        `pass_rate_stderr` name metrics as the source calls them.
    per_row: those of COMPUTE whose column holds the amount of each row, not the total so far.
    percent: the named pass rate and its standard error are from 0 to 100; stored from 0 to 1.
    devices: device-hours are devices x time since the run's first row where nothing in the source says them.
    timezone: of moments that carry no offset ("UTC", "Europe/Berlin"); without it, such moments are refused.
    name: of the source; names the run where nothing else does.
    ignore: names of columns, or of metrics as the source calls them, to leave out.
    experiments: of MLflow: names of those to read; none: all.
    token, user: for an MLflow server: a bearer token, or with `user` a password. Never part of `as_json`.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    per_row: tuple[str, ...] = ()
    percent: bool = False
    devices: float | None = None
    timezone: str = ""
    name: str = ""
    experiments: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    token: str = field(default="", repr=False)
    user: str = ""

    def __post_init__(self) -> None:
        if unknown := [role for role in self.columns if role not in ROLES]:
            raise ValueError(f"{unknown[0]} is nothing that a column can be")
        if unknown := [name for name in self.per_row if name not in COMPUTE]:
            raise ValueError(f"{unknown[0]} is no kind of compute")
        if ("metric" in self.columns) != ("value" in self.columns):
            raise ValueError("a long table has both a column of names and one of values")
        if self.devices is not None and not 0 < self.devices <= 1e6:
            raise ValueError("devices is a number above 0, up to a million")
        _check_timezone(self.timezone)

    def as_json(self) -> dict[str, Any]:
        """All but the credentials, for `from_json`."""
        return {
            "columns": dict(self.columns),
            "per_row": list(self.per_row),
            "percent": self.percent,
            "devices": self.devices,
            "timezone": self.timezone,
            "name": self.name,
            "experiments": list(self.experiments),
            "ignore": list(self.ignore),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], *, token: str = "", user: str = "") -> "Options":
        """The inverse of `as_json`. Raises ValueError, also for a key that is none."""
        lists = {name: tuple(stored[name]) for name in ("per_row", "experiments", "ignore") if name in stored}
        try:
            return cls(**{**stored, **lists, "token": token, "user": user})
        except TypeError as error:
            raise ValueError(f"these are no options: {error}") from None


def _check_timezone(name: str) -> None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        if name:
            ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name} is no time zone") from None


@dataclass(frozen=True)
class Preview:
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
class Kind:
    """A kind of source. takes: "file", "folder" (uploaded as an archive) or "address".

    read(source, options) finds the runs; preview (tables only) shows the beginning. in_place: it is read by the process
    that asks; else by a child with limits (`webapp.interfaces.imports.apart`), as whatever people upload.
    """

    label: str
    takes: str
    endings: tuple[str, ...]
    read: Callable[[Path | str, Options], list[FoundRun]]
    preview: Callable[[Path, Options], Preview] | None = None
    in_place: bool = False
