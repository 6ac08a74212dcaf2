"""The journal: every record as one JSON line on disk, written before `log` returns.

A line that was written survives the death of the process (kill -9 included). A torn last line, left by a crash in the
middle of a write, belongs to a `log` that never returned; it is cut off when the journal is opened again. Each line
ends in a checksum of its own, so that what a disk changed later is named instead of sent.
Beside `NAME` lie `NAME.about` (`headroom.about`), `NAME.state` (run id and acknowledged position, replaced atomically),
`NAME.rejected` (records that the server refused, with its reason, and how many values were left out of others) and
`NAME.lock` (held while a process writes the journal).
"""

import fcntl
import json
import os
import threading
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headroom.adapters.naming import SYSTEM
from headroom.configuration import write_json

MAX_UNWRITTEN = 10_000  # records kept in memory while the disk refuses writes
MAX_REASON = 1000  # characters that the server is told
_SEAL = b',"crc":"'
# Made once, as `json.dumps` makes one in each call that is not its plainest; a record holds nothing but flat objects.
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), check_circular=False).encode
_open_paths: set[Path] = set()


class JournalBusy(RuntimeError):
    """Another process, or another run in this one, is writing the same journal."""


@dataclass(frozen=True)
class JournalState:
    """What the server has of this journal."""

    run: str | None = None
    acknowledged: int = 0  # bytes from the start of the journal


@dataclass
class Refused:
    """What the server will never have of an attempt: whole records, values left out of others, the newest reason."""

    records: int = 0
    values: int = 0
    reason: str = ""

    def __bool__(self) -> bool:
        return self.records + self.values > 0

    def as_notice(self) -> dict[str, Any]:
        """As the server is told."""
        return {
            "refused_records": self.records,
            "refused_values": self.values,
            "reason": self.reason[:MAX_REASON],
        }

    def __str__(self) -> str:
        counted = ((self.records, "record"), (self.values, "value"))
        said = " and ".join(f"{n:,} {word}{'' if n == 1 else 's'}" for n, word in counted if n)
        return f"{said} refused: {self.reason}"


def total(counts: Iterable[Refused]) -> Refused:
    """Of several attempts, with the reason of the last."""
    summed = Refused()
    for each in counts:
        summed = Refused(summed.records + each.records, summed.values + each.values, each.reason)
    return summed


class Journal:
    """An append-only file of records, possibly of several attempts of one run. Safe to use from several threads.

    >>> journal = Journal(Path("metrics.jsonl"))
    >>> journal.append(1, {"step": 0, "metrics": {}})

    Raises JournalBusy or OSError when it cannot be opened; `append` raises OSError only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._state_path = self.path.with_name(f"{self.path.name}.state")
        self.rejected_path = self.path.with_name(f"{self.path.name}.rejected")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._mutex = threading.Lock()
        self._lock_file = self._acquire()
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._unwritten: deque[bytes] = deque(maxlen=MAX_UNWRITTEN)
        self._next_seq: dict[int, int] = {}
        self.last_step: int | None = None  # of the newest record of the training
        self.refused: dict[int, Refused] = {}  # by attempt
        self._left_out: dict[int, Refused] = {}  # the same, where `NAME.rejected` does not say so yet
        self.end = 0  # bytes that are complete lines
        self._read_existing()

    def _acquire(self) -> int:
        # A POSIX lock on a file of its own: a forked child does not inherit it, the kernel frees it at any death.
        if self.path in _open_paths:
            raise JournalBusy(f"{self.path} is already open in this process: finish that run first")
        lock_file = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock_file)
            raise JournalBusy(f"{self.path} is being written by another process") from None
        except OSError:  # a file system without locks: go on without
            pass
        _open_paths.add(self.path)
        return lock_file

    def _read_existing(self) -> None:
        with self.path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self.end += len(line)
                self._note(line)
        os.ftruncate(self._file, self.end)
        with suppress(OSError), self.rejected_path.open("rb") as file:
            for line in file:
                self._count(parse_line(line) or {}, self.refused)

    def _note(self, line: bytes) -> None:
        record = parse_line(line)
        if record is not None and isinstance(record.get("seq"), int):
            attempt = record.get("attempt", 1)
            self._next_seq[attempt] = max(self._next_seq.get(attempt, 0), record["seq"] + 1)
            self._note_step(record)

    def _note_step(self, record: dict[str, Any]) -> None:
        if is_of_training(record):
            self.last_step = record.get("step", self.last_step)

    def last_attempt(self) -> int | None:
        """The highest attempt that the journal holds records of; None for an empty journal."""
        return max(self._next_seq, default=None)

    def last_compute(self, up_to_step: int | None = None) -> dict[str, Any]:
        """What the newest record, not past a step, says was used; empty without one."""
        found: dict[str, Any] = {}
        for record in map(parse_line, self._read_from(0)):
            if record is not None and (up_to_step is None or record.get("step", 0) <= up_to_step):
                found = record.get("compute") or found
        return found

    def append(self, attempt: int, fields: dict[str, Any]) -> None:
        """Write one record and hand it to the operating system. Raises OSError when the disk refuses it; the record
        is then kept in memory and written with the next one. Of more than MAX_UNWRITTEN the oldest is counted as
        refused."""
        if len(self._unwritten) == MAX_UNWRITTEN:
            self.leave_out(attempt, reason="the disk took no more, and neither did the memory", records=1)
        with self._mutex:
            seq = self._next_seq.get(attempt, 0)
            line = sealed({"attempt": attempt, "seq": seq, **fields})
            self._next_seq[attempt] = seq + 1
            self._note_step(fields)
            self._unwritten.append(line)
            self._write_out()

    def _write_out(self) -> None:
        data = b"".join(self._unwritten)
        try:
            written = os.write(self._file, data)
            if written != len(data):
                raise OSError(f"only {written} of {len(data)} bytes could be written to {self.path}")
        except OSError:
            os.ftruncate(self._file, self.end)  # no torn line in the middle of the file
            raise
        self.end += written
        self._unwritten.clear()

    def flush(self) -> None:
        """Write what the disk refused so far, and what was left out. Raises OSError where it still does."""
        self._write_left_out()
        with self._mutex:
            if self._unwritten:
                self._write_out()

    def unwritten(self) -> list[bytes]:
        """Records that the disk has refused, and that are in memory alone."""
        with self._mutex:
            return list(self._unwritten)

    def lines(self, start: int, *, max_lines: int, max_bytes: int) -> list[bytes]:
        """Complete lines from byte `start` on; at least one where there is any, within the limits otherwise."""
        lines: list[bytes] = []
        size = 0
        for line in self._read_from(start):
            size += len(line)
            if lines and size > max_bytes:
                break
            lines.append(line)
            if len(lines) == max_lines:
                break
        return lines

    def _read_from(self, start: int) -> Iterator[bytes]:
        left = self.end - start
        with self.path.open("rb") as file:
            file.seek(start)
            while left > 0:
                line = file.readline()
                left -= len(line)
                yield line

    def load_state(self, run: str | None) -> JournalState:
        """What was acknowledged for `run` (None: whichever run this journal belongs to); from the start where the
        state is missing, unreadable, of another run, or past the end of the journal."""
        try:
            state = JournalState(**json.loads(self._state_path.read_text()))
        except (OSError, ValueError, TypeError):
            return JournalState(run)
        if (run is not None and state.run != run) or not 0 <= state.acknowledged <= self.end:
            return JournalState(run or state.run)
        return state

    def save_state(self, state: JournalState) -> None:
        write_json(asdict(state), self._state_path)

    def reject(self, line: bytes, *, status: int | None, reason: str, values: int = 0) -> None:
        """Keep a record that the server will never take, with its reason; or of which it takes all but `values`."""
        record = parse_line(line)
        entry = {
            "status": status,
            "reason": reason,
            "attempt": (record or {}).get("attempt") or self.last_attempt() or 1,
            "records": 0 if values else 1,
            "values": values,
            "record": record or line.decode(errors="replace"),
        }
        self._count(entry, self.refused)
        self._write_rejected(entry)

    def leave_out(self, attempt: int, *, reason: str, records: int = 0, values: int = 0) -> None:
        """Count what cannot even be written; `NAME.rejected` has the numbers once the journal is flushed."""
        entry = {"attempt": attempt, "reason": reason, "records": records, "values": values}
        for counts in (self.refused, self._left_out):
            self._count(entry, counts)

    def _count(self, entry: dict[str, Any], counts: dict[int, Refused]) -> None:
        """Entries of earlier versions are of one record each, and do not repeat its attempt."""
        record = entry.get("record")
        attempt = entry.get("attempt") or (record.get("attempt") if isinstance(record, dict) else None)
        with self._mutex:
            here = counts.setdefault(attempt if isinstance(attempt, int) else 1, Refused())
            here.records += entry.get("records", 1)
            here.values += entry.get("values", 0)
            here.reason = entry.get("reason") or here.reason

    def _write_rejected(self, entry: dict[str, Any]) -> None:
        """Where the disk refuses it, the record is in the journal still."""
        with suppress(OSError), self.rejected_path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def _write_left_out(self) -> None:
        while self._left_out:
            attempt, left_out = self._left_out.popitem()
            self._write_rejected({"attempt": attempt, **asdict(left_out)})

    def close(self) -> None:
        """Release the journal; a second call does nothing."""
        self._write_left_out()
        with self._mutex:
            if self.path in _open_paths and self._file >= 0:
                os.fsync(self._file)
                os.close(self._file)
                os.close(self._lock_file)
                self._file = -1
                _open_paths.discard(self.path)


def is_of_training(record: Mapping[str, Any]) -> bool:
    """What machines do is recorded between steps, and is no step."""
    metrics = record.get("metrics")
    return not metrics or not all(name.startswith(SYSTEM) for name in metrics)


def sealed(record: dict[str, Any]) -> bytes:
    """A record as a line of the journal: its last key, `crc`, is the CRC-32 of all that stands before it."""
    text = _encode(record)[:-1].encode()
    return b'%s%s%08x"}\n' % (text, _SEAL, zlib.crc32(text))


def unsealed(line: bytes) -> bytes | None:
    """The record of a line as JSON, without its checksum; None where that does not match, or where it is no object.
    Lines without one, as earlier versions wrote them, are taken as they are."""
    text, mark, rest = line.rstrip(b"\n").rpartition(_SEAL)
    if mark and len(rest) == len(b'01234567"}'):
        return text + b"}" if rest == b'%08x"}' % zlib.crc32(text) else None
    return line.strip() if parse_line(line) is not None else None


def parse_line(line: bytes) -> dict[str, Any] | None:
    """The record in a journal line, or None where the line is not a JSON object."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
