"""Files of one JSON object a line: verl's file logger, and prime-rl's metrics.jsonl."""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from webapp.interfaces.imports.readers.building import Builder, Dialect, numbers
from webapp.interfaces.imports.readers.rows import TORN, FoundRun, Lines, Options, Row, inside, source_files

SEAL = ',"crc":"'
Position = tuple[int, int]  # byte and line, from which a file can be read on
RowsOf = Callable[[Path, Builder], Iterator[Row]]


def read(rows_of: RowsOf, is_verl: bool, root: Path, options: Options) -> list[FoundRun]:
    """A run for each file. Raises BadSource."""
    files = source_files(root, lambda name: name.endswith(".jsonl"), ".jsonl file")
    return [_run(root, file, options, rows_of, len(files) == 1, is_verl) for file in files]


def _run(root: Path, file: Path, options: Options, rows_of: RowsOf, is_only: bool, is_verl: bool) -> FoundRun:
    name = inside(root, file)
    notes: list[str] = []
    rows = lambda: rows_of(file, Builder(name, options, notes, Dialect(is_verl=is_verl)))
    title = options.name if options.name and is_only else name.removesuffix(".jsonl")
    return FoundRun(key="" if root.is_file() else name, name=title, rows=rows, notes=notes)


def _verl_rows(path: Path, builder: Builder) -> Iterator[Row]:
    """`{"step": 1, "data": {...}}`."""
    for line, _, item in objects(path, builder):
        if not isinstance(item.get("data"), Mapping):
            raise builder.bad(line, 'This is no line of verl\'s file logger: it has no "data".')
        yield builder.of_tracker(line, item.get("step"), None, numbers(item["data"]))


def _prime_rl_rows(path: Path, builder: Builder) -> Iterator[Row]:
    """`{"step": 1, "time": 1.7e9, ...}`; rows without a step belong to the one before."""
    step = 0
    for line, _, item in objects(path, builder):
        if "step" not in item or "time" not in item:
            raise builder.bad(
                line, 'This is no line of prime-rl\'s metrics.jsonl: it has no "step" or no "time".'
            )
        if item["step"] is not None:
            step = builder.step(line, item["step"])
        values = numbers({name: value for name, value in item.items() if name not in ("step", "time")})
        yield builder.of_tracker(line, step, builder.time(line, item["time"]), values)


read_verl, read_prime_rl = partial(read, _verl_rows, True), partial(read, _prime_rl_rows, False)


def objects(
    path: Path, builder: Builder, position: Position | None = None
) -> Iterator[tuple[int, Position, dict[str, Any]]]:
    """(line, position, object) of each; a last line that was cut is left out, and said. Raises BadSource."""
    offset, line = position or (0, 0)
    with path.open("rb") as opened:
        opened.seek(offset)
        lines = Lines(builder.file, opened, offset, line)
        for text in filter(str.strip, lines):
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
            yield lines.line, lines.begin, item


def _is_sealed(text: str) -> bool:
    """Whether a line of our journal has the checksum of what stands before it."""
    before, mark, rest = text.rpartition(SEAL)
    return bool(mark) and rest == f'{zlib.crc32(before.encode()):08x}"}}'
