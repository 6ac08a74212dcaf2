"""`python -m headroom tail FILE`: reports what verl's file logger, or prime-rl, writes into a file of JSON lines.

Each line becomes one record of the journal. A file that begins anew (verl truncates its own at every start) is the next
attempt of the run. Beside the journal `NAME.tail` says up to where the file was read; with the number of records in the
journal, no line is reported twice, wherever the tail itself was ended.
"""

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headroom import ending
from headroom.adapters.beginning import begin
from headroom.adapters.naming import VERL_STEP, of_prime_rl, of_verl
from headroom.adapters.verl import Meter, evaluation
from headroom.configuration import write_json
from headroom.importing import add_server
from headroom.journal import JournalBusy, is_of_training, parse_line
from headroom.run import NOTHING_USED, UNKNOWN, Run
from headroom.values import MAX_STEP, is_number, to_number
from headroom.warned import Warnings


@dataclass(frozen=True)
class Mark:
    """Up to where a file was read: bytes, of which the first and the last line tell whether it is still that file."""

    offset: int = 0
    first: str = ""
    last: str = ""
    last_length: int = 0


class Followed:
    """A file of lines from a mark on; `mark` moves with each line that is given."""

    def __init__(self, path: Path, mark: Mark | None = None) -> None:
        self.path, self.mark = path, mark or Mark()

    def is_same(self) -> bool:
        """Whether what was read is still there; False where the file was truncated, or replaced by another one. A file
        that is missing for now is still the same."""
        if self.mark.offset == 0:
            return True
        try:
            with self.path.open("rb") as file:
                first = file.readline()
                file.seek(self.mark.offset - self.mark.last_length)
                last = file.read(self.mark.last_length)
        except FileNotFoundError:
            return True
        return (_digest(first), _digest(last)) == (self.mark.first, self.mark.last)

    def new_lines(self) -> Iterator[bytes]:
        """Whole lines behind the mark; one that has no end yet is left for later."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self.mark.offset)
            while (line := file.readline()).endswith(b"\n"):
                digest = _digest(line)
                first = self.mark.first or digest
                self.mark = Mark(self.mark.offset + len(line), first, digest, len(line))
                yield line


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


POLL_SECONDS = 1.0
IDLE, INTERRUPTED = "the file did not grow for {:g} s", "no longer followed"
ANEW = "the trainer began its file anew"


@dataclass(frozen=True)
class Line:
    """What one line says. trained: it is of an update, not only of an evaluation."""

    step: int
    time: datetime | None
    values: Mapping[str, Any]
    trained: bool


@dataclass(frozen=True)
class Place:
    """How far a tail is. records: of the attempt, when the file was read up to the mark; began: time of the attempt's
    first line; tokens, hours: what was used before it, where that is known."""

    mark: Mark = Mark()
    attempt: int = 0
    records: int = 0
    began: float | None = None
    tokens: float | None = None
    hours: float | None = None


def verl_line(item: Mapping[str, Any], last_step: int) -> Line | None:
    """`{"step": 1, "data": {...}}`; None for anything else."""
    data, step = item.get("data"), _step(item.get("step"))
    if not isinstance(data, Mapping) or step is None:
        return None
    return Line(step, None, data, VERL_STEP in data)


def prime_rl_line(item: Mapping[str, Any], last_step: int) -> Line | None:
    """`{"step": 1, "time": 1.7e9, ...}`; without a step it belongs to the last one."""
    moment, step = to_number(item.get("time")), item.get("step")
    step = last_step if step is None else _step(step)
    if step is None or moment is None or not 0 < moment < 1e11:
        return None
    values = {name: value for name, value in item.items() if name not in ("step", "time")}
    return Line(step, datetime.fromtimestamp(moment, UTC), values, True)


LINES: dict[str, Callable[[Mapping[str, Any], int], Line | None]] = {
    "verl": verl_line,
    "prime-rl": prime_rl_line,
}


def _step(value: Any) -> int | None:
    number = to_number(value)
    if number is None or isinstance(value, bool) or number != int(number) or not 0 <= number <= MAX_STEP:
        return None
    return int(number)


def kind_of(line: bytes) -> str | None:
    """By a first line; None where it is neither's."""
    item = parse_line(line)
    return None if item is None else next((kind for kind, read in LINES.items() if read(item, 0)), None)


class Tail:
    """Follows one file. settings: of `headroom.init`.

    pass_rate: the metric that is the held-out pass rate; by default verl's only `val-core/.../mean@K`. devices: what
    trains; without it, device-hours are unknown.
    """

    def __init__(
        self,
        path: Path,
        *,
        kind: str | None = None,
        pass_rate: str | None = None,
        devices: float | None = None,
        **settings: Any,
    ) -> None:
        self._kind, self._pass_rate, self._devices = kind, pass_rate, devices
        self.journal = Path(settings.pop("journal", None) or path.with_name(f"{path.stem}.headroom.jsonl"))
        self._settings = {"journal": self.journal, "name": _name_of(path), **settings}
        self._place = self._load()
        self._file = Followed(path, self._place.mark)
        self._skip = 0  # lines that are in the journal, but behind the place that was noted last
        self._meter = Meter(None, UNKNOWN)
        self._complain = Warnings()
        self._count = 0
        self.run: Run | None = None

    def poll(self) -> int:
        """Report the whole lines that are new; how many. Raises what `headroom.init` does."""
        if not self._file.is_same():
            self._begin_anew()
        count = 0
        for raw in self._file.new_lines():
            if (line := self._read(raw)) is None:
                continue
            if self.run is None:
                self._begin(line)
            self._place = replace(self._place, records=self._place.records + 1)
            if self._skip:
                self._skip -= 1
                continue
            self._log(line)
            count += 1
        if count:
            self._count += count
            self._save_place(self._file.mark)
        return count

    def finish(self, state: str, message: str, timeout: float = 10) -> bool:
        """As `Run.finish`; True where nothing was ever reported."""
        return self.run is None or bool(self.run.finish(state, message, timeout))

    @property
    def said(self) -> str:
        """What came of it, for a person."""
        run = f"run {self.run.id or 'in ' + str(self.journal)}" if self.run is not None else "no run"
        return f"{run}, {self._count:,} lines reported"

    def _begin_anew(self) -> None:
        if self.run is not None:
            self.run.finish("failed", ANEW)
        self.run = None
        self._place = Place()
        self._file.mark = Mark()

    def _begin(self, line: Line) -> None:
        if self._place.attempt:
            self._go_on()
        else:
            self._begin_attempt(line)

    def _go_on(self) -> None:
        """With the attempt of the place, which another tail has begun."""
        written = sum(record.get("attempt") == self._place.attempt for record in self._in_journal())
        self._skip = max(0, written - self._place.records)
        self.run = self._begun({"attempt": self._place.attempt})
        before = {"tokens": self._place.tokens, "device_hours": self._place.hours}
        self._meter = Meter(self._devices, self.run.compute if written else before)

    def _begin_attempt(self, line: Line) -> None:
        """The next one, from the step before this line. What was used until then is known where it is 0, or where that
        step was reported."""
        after = line.step - 1 if line.trained else line.step
        is_known = after > 0 and any(record.get("step") == after for record in self._in_journal())
        how = {"resumed_from_step": after} if after > 0 else {"restarted": True}
        self.run = self._begun(how if self.journal.exists() else {})
        before = self.run.compute if is_known else UNKNOWN if after > 0 else NOTHING_USED
        meter = self._meter = Meter(self._devices, before)
        self._place = Place(
            attempt=self.run.attempt, began=_seconds(line), tokens=meter.tokens, hours=meter.hours
        )
        self._save_place(Mark())

    def _in_journal(self) -> Iterator[dict[str, Any]]:
        """The records of the training."""
        if self.journal.exists():
            with self.journal.open("rb") as file:
                records = (parse_line(line) for line in file)
                yield from (record for record in records if record is not None and is_of_training(record))

    def _read(self, raw: bytes) -> Line | None:
        self._kind = self._kind or kind_of(raw)
        item = parse_line(raw)
        last_step = 0 if self.run is None or self.run.last_step is None else self.run.last_step
        line = LINES[self._kind](item, last_step) if item is not None and self._kind is not None else None
        if line is None:
            self._complain(
                "line", f"{self._file.path} has lines that are none of {self._kind or 'a known kind'}"
            )
        return line

    def _log(self, line: Line) -> None:
        assert self.run is not None
        metrics = {name: value for name, value in line.values.items() if is_number(value)}
        if self._kind == "verl":
            metrics = of_verl(metrics)
            self._meter.add(line.values)
        else:
            metrics = of_prime_rl(metrics)
            self._add_prime_rl(line)
        found, names = evaluation(line.values, self._pass_rate)
        if len(names) > 1:
            self._complain("rate", f"which is the pass rate is not clear: {' or '.join(names[:5])}; name it")
        self.run.log(metrics | found, step=line.step, compute=self._meter.compute, time=line.time)

    def _add_prime_rl(self, line: Line) -> None:
        """Totals never fall; device-hours are devices x time."""
        meter, began, before = self._meter, self._place.began, self._place.hours
        total, seconds = to_number(line.values.get("progress/total_tokens")), _seconds(line)
        if total is not None:
            meter.tokens = max(meter.tokens or 0, total)
        if meter.devices is not None and began is not None and before is not None and seconds is not None:
            meter.hours = max(meter.hours or 0.0, before + meter.devices * (seconds - began) / 3600)

    def _load(self) -> Place:
        """The beginning, where there is no journal (any more) that it could belong to."""
        if not self.journal.exists():
            return Place()
        try:
            stored = json.loads(self._place_path.read_text())
            return Place(**{**stored, "mark": Mark(**stored["mark"])})
        except (OSError, ValueError, TypeError, KeyError):
            return Place()

    def _save_place(self, mark: Mark) -> None:
        write_json(asdict(replace(self._place, mark=mark)), self._place_path)

    @property
    def _place_path(self) -> Path:
        return self.journal.with_name(f"{self.journal.name}.tail")

    def _begun(self, how: dict[str, Any]) -> Run:
        """The trainer is another process: the run does not end with this one."""
        run = begin(self._settings | how)
        ending.forget(run.finish)
        return run


def follow(
    tail: Tail,
    until_idle: float | None,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Poll until the file has not grown for `until_idle` seconds (None: for ever) or Ctrl-C; then finish the run. True
    where the server has everything, or there is none."""
    grown = now()
    try:
        while True:
            if tail.poll():
                grown = now()
            if until_idle is not None and now() - grown >= until_idle:
                return tail.finish("succeeded", IDLE.format(until_idle))
            sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        return tail.finish("cancelled", INTERRUPTED)


def _name_of(path: Path) -> str:
    """verl's file is called as its experiment; prime-rl's always the same, in the run's folder."""
    return path.resolve().parent.name if path.stem == "metrics" else path.stem


def _seconds(line: Line) -> float | None:
    return None if line.time is None else line.time.timestamp()


def add_tail(commands: Any) -> None:
    """Give the command line `tail`."""
    one = commands.add_parser("tail", help="report what verl or prime-rl writes into a file, while it does")
    one.add_argument(
        "file", type=Path, metavar="FILE", help="verl's file logger's, or prime-rl's metrics.jsonl"
    )
    one.add_argument(
        "--kind", choices=sorted(LINES), help="whose file it is (by default its first line says it)"
    )
    one.add_argument("--pass-rate", metavar="NAME", help="the metric that is the held-out pass rate")
    one.add_argument("--devices", type=float, help="how many train; without it device-hours are unknown")
    one.add_argument(
        "--until-idle", type=float, metavar="SECONDS", help="end when the file does not grow for so long"
    )
    for name in ("name", "task", "model", "project"):
        one.add_argument(f"--{name}", help="of the run that is made")
    one.add_argument("--run", help="a run that the server knows (HEADROOM_RUN)")
    one.add_argument("--journal", type=Path, help="where to journal (beside FILE, as NAME.headroom.jsonl)")
    add_server(one)
    one.set_defaults(do=_tail)


def _tail(asked: argparse.Namespace) -> int:
    """Raises ValueError for unusable arguments."""
    for name in ("devices", "until_idle"):
        value = getattr(asked, name)
        if value is not None and not 0 < value < 1e9:
            raise ValueError(f"--{name.replace('_', '-')} is a number above 0")
    if asked.file.is_dir():
        raise ValueError(f"{asked.file} is a folder")
    settings = ("journal", "name", "task", "model", "project", "run", "url", "token")
    given = {name: getattr(asked, name) for name in settings if getattr(asked, name) is not None}
    tail = Tail(asked.file, kind=asked.kind, pass_rate=asked.pass_rate, devices=asked.devices, **given)
    try:
        sent = follow(tail, asked.until_idle)
    except (JournalBusy, OSError) as error:
        raise ValueError(str(error)) from error
    print(f"{asked.file}: {tail.said}")
    return 0 if sent else 1
