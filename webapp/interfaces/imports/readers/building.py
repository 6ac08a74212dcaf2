"""Makes rows out of what a source says of a moment: the rules that hold for every kind of source.

Compute used so far, row after row: of what the source says, else devices x time, else unknown.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any
from zoneinfo import ZoneInfo

from headroom.adapters import naming
from training.records import MAX_STEP, MIN_STEP
from webapp.interfaces.imports.readers.rows import COMPUTE, PART, BadSource, Options, Row
from webapp.interfaces.tracking.translate import MAX_NAME, TOTAL_FLOPS

# What other trainers call a total of ours. Each is one since the training began, also after a resume.
TOTALS = {
    "device_hours": ("compute/device_hours",),
    "flops": TOTAL_FLOPS,
    "tokens": (*naming.TOTAL_TOKENS, "eval/num_tokens", "progress/total_tokens"),
}
Values = Mapping[str, float | None]
MOST_NOTES = 20
MOMENT_UNITS = ((1e8, 1e11, 1.0), (1e11, 1e14, 1e3), (1e14, 1e17, 1e6), (1e17, 1e20, 1e9))
Rename = Callable[[str], str]


class Totals:
    """One run's totals. They never fall: a clock that goes back, or a source that does, adds nothing.

    devices: device-hours are devices x time where the source never says them. from_first_step: amounts are of each
    step from 1 on, so that a source which begins later, or lacks some, does not tell a total. starts_at_zero: the
    trainer's first update makes step 1, so that nothing was used at step 0.
    """

    def __init__(
        self,
        devices: float | None,
        say: Callable[[str], None],
        *,
        from_first_step: bool = False,
        starts_at_zero: bool = False,
    ) -> None:
        self._devices, self._say = devices, say
        self._from_first_step, self._starts_at_zero = from_first_step, starts_at_zero
        self._totals: dict[str, float] = {}
        self._steps: dict[str, int] = {}  # which a total was last said of
        self._added: set[str] = set()
        self._incomplete: set[str] = set()
        self._began: datetime | None = None
        self._seconds = 0.0

    def at(
        self, step: int, *, time: datetime | None, elapsed: float | None, totals: Values, added: Values
    ) -> dict[str, float | None]:
        """The totals at one row. totals: as the source says them; added: amounts of this row alone; elapsed: seconds
        since the run began. Raises ValueError for an amount below 0."""
        seconds = self._time_passes(time, elapsed)
        for name in COMPUTE:
            self._take(name, step, totals.get(name), added.get(name))
        return {name: self._known(name, step, seconds) for name in COMPUTE}

    def _time_passes(self, time: datetime | None, elapsed: float | None) -> float | None:
        if elapsed is None and time is None:
            return None
        if elapsed is None and time is not None:
            self._began = self._began or time
            elapsed = (time - self._began).total_seconds()
        self._seconds = max(self._seconds, elapsed or 0.0)
        return self._seconds

    def _take(self, name: str, step: int, total: float | None, added: float | None) -> None:
        for amount in (total, added):
            if amount is not None and amount < 0:
                raise ValueError(f"{name} is {amount:g}, below 0")
        if added is not None:
            if self._from_first_step and step > self._steps.get(name, 0) + 1:
                self._incomplete.add(name)
                self._say(f"{name} are unknown from step {step} on: the source has not all steps before it.")
            self._added.add(name)
            self._totals[name] = self._totals.get(name, 0.0) + added
            self._steps[name] = max(step, self._steps.get(name, step))
        elif total is not None:
            before = self._totals.get(name, 0.0)
            if total < before:
                self._say(f"{name} fall at step {step}, which a total cannot: the higher value is kept.")
            self._totals[name] = max(before, total)
            self._steps[name] = step

    def _known(self, name: str, step: int, seconds: float | None) -> float | None:
        if name in self._incomplete:
            return None
        if name in self._added:  # at a later step more was used, and how much is not said
            return self._totals[name] if step <= self._steps[name] else None
        if name in self._totals:  # said of a step, it holds for all that this step says
            return self._totals[name] if self._steps[name] == step else None
        if self._starts_at_zero and step == 0:
            return 0.0
        if name == "device_hours" and self._devices is not None and seconds is not None:
            return self._devices * seconds / 3600
        return None


def amounts_of_tracker(
    values: Values, options: Options, devices: float | None
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """(totals, added) in what a trainer logged: those that options name, else those that are known by their names."""
    totals: dict[str, float | None] = {}
    added: dict[str, float | None] = {}
    for role in COMPUTE:
        named = options.columns.get(role)
        found = next(
            (name for name in ((named,) if named else TOTALS[role]) if values.get(name) is not None), None
        )
        if found is not None:
            (added if role in options.per_row else totals)[role] = values[found]
    if "tokens" not in (totals | added) and "tokens" not in options.columns and naming.VERL_TOKENS in values:
        added["tokens"] = values[naming.VERL_TOKENS]
    if (
        devices is not None
        and "device_hours" not in (totals | added)
        and (values.get(naming.VERL_STEP) is not None)
    ):
        added["device_hours"] = devices * naming.verl_seconds(values) / 3600
    return totals, added


PASS_RATE, PASS_RATE_STDERR, K = "eval/pass_rate", "eval/pass_rate_stderr", "eval/k"


@dataclass(frozen=True)
class Dialect:
    """How a source writes its rows. devices: where its configuration says them; `options.devices` goes before.

    pass_rates: all names in the run that are or can be its pass rate, where a row does not show them all; None: each
    row does.
    """

    rename: Rename = naming.of_tracker
    devices: float | None = None
    pass_rates: Collection[str] | None = None
    from_first_step: bool = True
    is_verl: bool = False
    steps: tuple[int, int] = (0, 2**53)  # what is read as a float


ANY_STEP = MIN_STEP, MAX_STEP  # of those whose steps are whole numbers of 64 bits
OF_TRACKERS = Dialect()


def _whole(value: Any) -> int | None:
    """Exactly, where it is an integer or the text of one."""
    try:
        if isinstance(value, int) or str(value).strip().lstrip("-").isdecimal():
            return None if isinstance(value, bool) else int(value)
        number = float(value)
        return int(number) if number.is_integer() else None
    except (TypeError, ValueError, OverflowError):
        return None


class Builder:
    """Rows of one run, and notes on them, which it shows. Raises BadSource for percentages of nothing."""

    def __init__(self, file: str, options: Options, notes: list[str], dialect: Dialect = OF_TRACKERS) -> None:
        self.file, self.options = file, options
        self._notes, self._noted = notes, set[str]()
        self._rename, devices = dialect.rename, dialect.devices
        self._devices = options.devices if options.devices is not None else devices
        self._totals = Totals(
            options.devices,
            self.note,
            from_first_step=dialect.from_first_step,
            starts_at_zero=dialect.is_verl or devices is not None,  # only verl's configuration says devices
        )
        if options.percent and "pass_rate" not in options.columns:
            raise BadSource(file, None, "Say which metric is the pass rate that is in percent.")
        self._most = 100.0 if options.percent else 1.0  # that a named pass rate can be
        self._pass_rates, self._steps = dialect.pass_rates, dialect.steps
        self._names: dict[str, str] = {}
        self._usual_names: list[str] = []  # of those seen, what can be verl's pass rate

    def note(self, sentence: str) -> None:
        """Say it of the run, if nothing of its kind (what it begins with) was said before, nor too much."""
        kind = " ".join(sentence.split()[:3])
        if kind not in self._noted and len(self._notes) < MOST_NOTES:
            self._noted.add(kind)
            if sentence not in self._notes:
                self._notes.append(sentence)

    def bad(self, line: int | None, reason: str) -> BadSource:
        return BadSource(self.file, line % PART if line else line, reason)

    def of_tracker(
        self, line: int, step: Any, time: datetime | None, values: Values, elapsed: float | None = None
    ) -> Row:
        """A row of what a trainer logged, whose compute is among the values. Raises BadSource."""
        step = self.step(line, step)
        return Row(
            line, step, time, self.compute(line, step, time, values, elapsed), self.metrics(line, values)
        )

    def compute(
        self, line: int, step: int, time: datetime | None, values: Values, elapsed: float | None = None
    ) -> dict[str, float | None]:
        """Used so far, from what a trainer logged at one moment."""
        totals, added = amounts_of_tracker(values, self.options, self._devices)
        return self.totals(line, step, time, elapsed, totals, added)

    def totals(
        self,
        line: int,
        step: int,
        time: datetime | None,
        elapsed: float | None,
        totals: Values,
        added: Values,
    ) -> dict[str, float | None]:
        """Used so far, from amounts by their roles."""
        try:
            return self._totals.at(step, time=time, elapsed=elapsed, totals=totals, added=added)
        except ValueError as error:
            raise self.bad(line, f"{error}.") from None

    def step(self, line: int, value: Any) -> int:
        """Raises BadSource unless it is a whole number that can be a step of the source."""
        least, most = self._steps
        step = _whole(value)
        if step is None or not least <= step <= most:
            raise self.bad(line, f"A step is an integer from {least} to {most}, not {shown(value)}.")
        return step

    def time(self, line: int, value: Any) -> datetime:
        """Raises BadSource for what is no moment."""
        try:
            return moment(value.isoformat() if isinstance(value, datetime) else value, self.options.timezone)
        except ValueError as error:
            raise self.bad(line, str(error)) from None

    def metrics(self, line: int, values: Values) -> dict[str, float | None]:
        """By our names, with the pass rate where it is known."""
        renamed: dict[str, float | None] = {}
        for name, value in values.items():
            ours = self._names.get(name) or self._name(line, name)
            renamed[name if ours != name and ours in values else ours] = value
        if self.options.columns.get("pass_rate", PASS_RATE) != PASS_RATE:
            for name in (PASS_RATE, PASS_RATE_STDERR):
                if renamed.pop(name, None) is not None:
                    self.note(f"{name} of the source is left out: another metric is named as the pass rate.")
        return renamed | self._pass_rate(line, values)

    def _name(self, line: int, name: str) -> str:
        check_name(self.file, line, name)
        ours = self._names[name] = self._rename(name)
        self._usual_names += only_pass_rates([name])
        return ours

    def _pass_rate(self, line: int, values: Values) -> dict[str, float | None]:
        named = self.options.columns.get("pass_rate")
        if named is None:
            return self._usual_pass_rate(values)
        found: dict[str, float | None] = {}
        stderr = self.options.columns.get("pass_rate_stderr")
        if named in values:
            found[PASS_RATE] = self.pass_rate(line, named, values[named])
        if stderr is not None and stderr in values:
            found[PASS_RATE_STDERR] = self.stderr(line, stderr, values[stderr])
        return found

    def pass_rate(self, line: int, name: str, value: float | None) -> float | None:
        """From 0 to 1. Raises BadSource for what the person calls a pass rate and is none."""
        most = self._most
        if value is not None and not 0 <= value <= most:
            hint = " If it is in percent, say so." if 1 < value <= 100 else ""
            reason = f"{name} is to be the pass rate, but is {value:g}, not between 0 and {most:g}.{hint}"
            raise self.bad(line, reason)
        return value if value is None else value / most

    def stderr(self, line: int, name: str, value: float | None) -> float | None:
        if value is not None and value < 0:
            raise self.bad(line, f"{name} is to be a standard error, but is {value:g}, below 0.")
        return value if value is None else value / self._most

    def _usual_pass_rate(self, values: Values) -> dict[str, float | None]:
        """The only one that verl or TRL call so; it is a pass rate where it lies between 0 and 1."""
        if PASS_RATE in values or PASS_RATE in (self._pass_rates or ()):
            return {}
        in_row = [name for name in self._usual_names if name in values]
        names = in_row if self._pass_rates is None else list(self._pass_rates)
        if len(names) > 1:
            self.note(f"Which is the pass rate is not clear: {' or '.join(sorted(names)[:5])}; name it.")
        if len(names) != 1 or names[0] not in values:
            return {}
        value = values[names[0]]
        if value is not None and not 0 <= value <= 1:
            self.note(f"{names[0]} is not always between 0 and 1, and no pass rate there.")
            return {}
        found = naming.USUAL_PASS_RATE.fullmatch(names[0])
        return {PASS_RATE: value} | ({K: float(found["k"])} if found and found["k"] else {})


def only_pass_rates(names: Iterable[str]) -> list[str]:
    """Those that are the held-out pass rate, or can be verl's or TRL's."""
    return [name for name in names if name == PASS_RATE or naming.USUAL_PASS_RATE.fullmatch(name)]


def check_name(file: str, line: int | None, name: str) -> None:
    """Raises BadSource for what cannot be a metric's name."""
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        reason = f"A metric's name has 1 to {MAX_NAME} printable characters, not {shown(name)}."
        raise BadSource(file, line, reason)


def finite(value: float) -> float | None:
    return value if isfinite(value) else None


def number(value: Any) -> float | None:
    """Of a JSON value or a number: None where it is not finite. Raises TypeError for what is no number."""
    if isinstance(value, bool | int | float):
        try:
            return finite(float(value))
        except OverflowError:
            return None
    raise TypeError


def numbers(values: Mapping[str, Any], depth: int = 20) -> dict[str, float | None]:
    """Those that are numbers; null stands for one that is not finite. Nested ones are named `outer.inner`."""
    found: dict[str, float | None] = {}
    for name, value in values.items():
        if value is None or isinstance(value, bool | int | float):
            found[name] = None if value is None else number(value)
        elif isinstance(value, Mapping) and depth:
            found |= {f"{name}.{inner}": each for inner, each in numbers(value, depth - 1).items()}
    return found


def moment(value: Any, timezone: str = "") -> datetime:
    """A time with offset out of ISO 8601 text, or of seconds, milliseconds, micro- or nanoseconds since 1970.

    Raises ValueError with a sentence for what is none, and for text without an offset where no `timezone` is given.
    """
    try:
        since = float(value)
    except (TypeError, ValueError):
        return _of_text(str(value).strip(), timezone)
    for least, most, per_second in MOMENT_UNITS:
        if least <= since < most:
            return datetime.fromtimestamp(since / per_second, UTC)
    raise ValueError(f"{shown(value)} is no time: neither ISO 8601 nor seconds since 1970.")


def _of_text(text: str, timezone: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{shown(text)} is no time: neither ISO 8601 nor seconds since 1970.") from None
    if found.tzinfo is None or found.utcoffset() is None:
        if not timezone:
            raise ValueError(f"{shown(text)} has no offset from UTC: say in which time zone it is.")
        found = found.replace(tzinfo=ZoneInfo(timezone))
    try:
        found.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{shown(text)} is not within the years 1 to 9999 of UTC.") from None
    return found


def shown(value: Any, most: int = 60) -> str:
    """For a sentence: what was found, cut."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(letter if letter.isprintable() else "?" for letter in text[: most + 1])
    return f'"{text[:most]}…"' if len(text) > most else f'"{text}"'
