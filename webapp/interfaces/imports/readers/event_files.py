"""TensorBoard's event files: those of one folder are one run."""

import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from webapp.interfaces.imports.readers.building import Builder, finite
from webapp.interfaces.imports.readers.framing import Event, messages, tf_records
from webapp.interfaces.imports.readers.rows import (
    MAX_GROUP,
    PART,
    BadSource,
    FoundRun,
    Options,
    Row,
    grouped,
    inside,
    line_of,
    note_torn,
    since_1970,
    source_files,
)

MAX_SESSION = 100  # events of what `add_hparams` writes
HPARAMS = "hparams"  # the plug-in of settings
SCALARS = ("", "scalars")  # the plug-in that a tensor is of
NUMBERS = {1: "f", 2: "d", 3: "i", 9: "q", 19: "e"}  # TensorFlow's number of a type -> of `struct`
HALF, BFLOAT16 = 19, 14
LISTS = {1: "float_val", 2: "double_val", 3: "int_val", 9: "int64_val"}


def read(root: Path, options: Options) -> list[FoundRun]:
    """One run for each folder that has scalars in its files, but those in which `add_hparams` keeps the settings of the
    run around them. Raises BadSource where none has."""
    files = source_files(root, lambda name: "tfevents" in name, "event file")
    folders: dict[str, EventRun] = {}
    for file in files:
        key = "" if root.is_file() else file.parent.relative_to(root).as_posix().removeprefix(".")
        folders.setdefault(key, EventRun(key, options)).files.append((file, inside(root, file)))
    runs = [run.found(root) for run in folders.values() if run.has_rows() and not run.is_session_of(folders)]
    if not runs:
        raise BadSource(root.name, None, "There are no scalars in these event files.")
    return runs


@dataclass
class EventRun:
    """One folder; its files in the order of their names, which begin with the time they were made at."""

    key: str
    options: Options
    files: list[tuple[Path, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def found(self, root: Path) -> FoundRun:
        name = self.key or self.options.name or root.name
        return FoundRun(key=self.key, name=name, rows=self._rows, notes=self.notes)

    def has_rows(self) -> bool:
        """Whether there is a scalar, or damage that has to be said."""
        try:
            return next(self._scalars(), None) is not None
        except BadSource:
            return True

    def is_session_of(self, folders: Collection[str]) -> bool:
        """Whether it has settings, results of one step at most, and lies in the folder of a run."""
        if not self.key or self.key.rpartition("/")[0] not in folders:
            return False
        try:
            events = [event for _, event in islice(self._events(), MAX_SESSION + 1)]
        except BadSource:
            return False
        values = [value for event in events for value in event.summary.value]
        steps = {event.step for event in events if any(_scalars_of(event))}
        has_settings = any(value.metadata.plugin_data.plugin_name == HPARAMS for value in values)
        return has_settings and len(events) <= MAX_SESSION and len(steps) <= 1

    def _rows(self) -> Iterator[Row]:
        """One for all that was written of a step in a row: a writer has a record for each metric."""
        builder = Builder(self.files[0][1], self.options, self.notes)
        for group in grouped(self._scalars(), _belong):
            first = group[0]
            builder.file = self.files[first.line // PART][1]
            values = {tag: value for each in group for tag, value in each.metrics.items()}
            yield builder.of_tracker(first.line, first.step, first.time, values)

    def _scalars(self) -> Iterator[Row]:
        """Each as a row of its own, of which the lines of a file are counted. Raises BadSource."""
        positions = [count(1) for _ in self.files]
        for part, event in self._events():
            for time, step, tag, value in _scalars_of(event):
                yield Row(line_of(part, next(positions[part])), step, time, {}, {tag: value})

    def _events(self) -> Iterator[tuple[int, Any]]:
        """(number of the file, event). Raises BadSource."""
        for part, (path, name) in enumerate(self.files):
            with path.open("rb") as opened:
                records = tf_records(opened, name, partial(note_torn, name, self.notes))
                for _, event in messages(Event, records, name, "no event of TensorBoard"):
                    yield part, event


def _belong(group: Sequence[Row], each: Row) -> bool:
    first = group[0]
    if (each.line // PART, each.step) != (first.line // PART, first.step) or len(group) == MAX_GROUP:
        return False
    return all(each.metrics.keys() != other.metrics.keys() for other in group)


def _scalars_of(event: Any) -> Iterator[tuple[datetime | None, int, str, float | None]]:
    time = since_1970(event.wall_time)
    for value in event.summary.value:
        kind = value.WhichOneof("one")
        if kind == "simple_value":
            yield time, event.step, value.tag, finite(value.simple_value)
        elif kind == "tensor" and value.metadata.plugin_data.plugin_name in SCALARS:
            found = _of_tensor(value.tensor)
            if found is not None:
                yield time, event.step, value.tag, finite(found)


def _of_tensor(tensor: Any) -> float | None:
    """The number in a tensor of one; None for anything else."""
    if any(dim.size != 1 for dim in tensor.shape.dim):
        return None
    dtype, content = tensor.dtype, tensor.content
    if dtype in (HALF, BFLOAT16) and len(tensor.half_val) == 1 and not content:
        content = struct.pack("<H", tensor.half_val[0] & 0xFFFF)
    if not content:
        values = getattr(tensor, LISTS[dtype]) if dtype in LISTS else []
        return float(values[0]) if len(values) == 1 else None
    if dtype == BFLOAT16:  # the upper half of a float
        dtype, content = 1, b"\0\0" + content
    code = NUMBERS.get(dtype)
    if code is None or struct.calcsize(f"<{code}") != len(content):
        return None
    return float(struct.unpack(f"<{code}", content)[0])
