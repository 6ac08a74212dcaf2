"""Files of one JSON object a line: verl's file logger, prime-rl's metrics.jsonl, and our own journal."""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from webapp.interfaces.imports.readers.building import Builder, compute_only, moment, number, numbers
from webapp.interfaces.imports.readers.found import TORN, files_below, inside
from webapp.interfaces.imports.readers.lines import Lines
from webapp.interfaces.imports.readers.rows import BadSource, FoundRun, Options, Row

SEAL = ',"crc":"'
OURS = ("step", "metrics", "compute")
Objects = Iterator[tuple[int, dict[str, Any]]]
RowsOf = Callable[[Path, Builder], Iterator[Row]]


def read_verl(path: Path | str, options: Options) -> list[FoundRun]:
    """`{"step": 1, "data": {...}}`. Raises BadSource."""
    return _found(Path(path), options, _verl_rows, is_verl=True)


def read_prime_rl(path: Path | str, options: Options) -> list[FoundRun]:
    """`{"step": 1, "time": 1.7e9, ...}`; rows without a step belong to the one before. Raises BadSource."""
    return _found(Path(path), options, _prime_rl_rows)


def read_journal(path: Path | str, options: Options) -> list[FoundRun]:
    """Records of the tracking client. Raises BadSource."""
    return _found(Path(path), options, _journal_rows)


def _found(root: Path, options: Options, rows_of: RowsOf, is_verl: bool = False) -> list[FoundRun]:
    files = [root] if root.is_file() else files_below(root, lambda name: name.endswith(".jsonl"))
    if not files:
        raise BadSource(root.name, None, "There is no .jsonl file in this folder.")
    return [_run(root, file, options, rows_of, len(files) == 1, is_verl) for file in files]


def _run(root: Path, file: Path, options: Options, rows_of: RowsOf, is_only: bool, is_verl: bool) -> FoundRun:
    name = inside(root, file)
    notes: list[str] = []
    rows = lambda: rows_of(file, Builder(name, options, notes, is_verl=is_verl))
    title = options.name if options.name and is_only else name.removesuffix(".jsonl")
    return FoundRun(key="" if root.is_file() else name, name=title, rows=rows, notes=notes)


def _verl_rows(path: Path, builder: Builder) -> Iterator[Row]:
    for line, item in _objects(path, builder):
        if not isinstance(item.get("data"), Mapping):
            raise builder.bad(line, 'This is no line of verl\'s file logger: it has no "data".')
        yield builder.of_tracker(line, item.get("step"), None, numbers(item["data"]))


def _prime_rl_rows(path: Path, builder: Builder) -> Iterator[Row]:
    step = 0
    for line, item in _objects(path, builder):
        if "step" not in item or "time" not in item:
            raise builder.bad(
                line, 'This is no line of prime-rl\'s metrics.jsonl: it has no "step" or no "time".'
            )
        if item["step"] is not None:
            step = builder.step(line, item["step"])
        values = numbers({name: value for name, value in item.items() if name not in ("step", "time")})
        yield builder.of_tracker(line, step, _time(builder, line, item["time"]), values)


def _journal_rows(path: Path, builder: Builder) -> Iterator[Row]:
    """Those of the last attempt, and of earlier ones what lies before its beginning."""
    begins = _begins_of_attempts(path, builder)
    for line, item in _objects(path, builder):
        attempt = item.get("attempt", 1)
        step = builder.step(line, item["step"])
        if any(later > attempt and step >= begin for later, begin in begins.items()):
            builder.note(
                "A later attempt went on from before these steps: what earlier ones had of them is left out."
            )
            continue
        metrics = numbers(item["metrics"])
        builder.metrics(line, metrics)  # its names are ours; this refuses those that are none
        time = _time(builder, line, item["time"]) if item.get("time") is not None else None
        yield Row(line, step, time, _compute(builder, line, item["compute"]), metrics)


def _begins_of_attempts(path: Path, builder: Builder) -> dict[int, int]:
    """Attempt -> the first step it has. Looks at each line's form, too."""
    begins: dict[int, int] = {}
    for line, item in _objects(path, builder):
        if any(name not in item for name in OURS) or not isinstance(item["metrics"], Mapping):
            raise builder.bad(line, "This is no record of Headroom: step, compute and metrics belong to one.")
        attempt = item.get("attempt", 1)
        if type(attempt) is not int:
            raise builder.bad(line, "The attempt is no integer.")
        step = builder.step(line, item["step"])
        begins[attempt] = min(step, begins.get(attempt, step))
    return begins


def _compute(builder: Builder, line: int, compute: Any) -> dict[str, float | None]:
    try:
        known = {name: None if value is None else number(value) for name, value in compute.items()}
    except (AttributeError, TypeError):
        raise builder.bad(line, "The compute of this record is not made of numbers.") from None
    if any(value is not None and value < 0 for value in known.values()):
        raise builder.bad(line, "An amount of compute is below 0.")
    return compute_only(known)


def _time(builder: Builder, line: int, value: Any) -> datetime:
    try:
        return moment(value, builder.options.timezone)
    except ValueError as error:
        raise builder.bad(line, str(error)) from None


def _objects(path: Path, builder: Builder) -> Objects:
    """(line, object) of each; a last line that was cut is left out, and said. Raises BadSource."""
    with path.open("rb") as opened:
        lines = Lines(builder.file, opened)
        for text in lines:
            if not text.strip():
                continue
            try:
                item = json.loads(text)
            except (ValueError, RecursionError):
                if not text.endswith("\n"):
                    builder.note(f"{builder.file} {TORN}")
                    return
                raise builder.bad(lines.line, "This line is not JSON.") from None
            if not isinstance(item, dict):
                raise builder.bad(lines.line, "This line is no JSON object.")
            if "crc" in item and not _is_sealed(text.rstrip("\r\n")):
                raise builder.bad(lines.line, "This record is damaged: its checksum does not match.")
            yield lines.line, item


def _is_sealed(text: str) -> bool:
    """Whether a line of our journal has the checksum of what stands before it."""
    before, mark, rest = text.rpartition(SEAL)
    return bool(mark) and rest == f'{zlib.crc32(before.encode()):08x}"}}'
