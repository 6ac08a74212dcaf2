"""Tables of rows and columns (CSV, Parquet): what their cells say, which column is what, and the rows of each run."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import groupby, islice
from math import isfinite
from typing import Any, Final, Protocol

from webapp.interfaces.imports.readers.building import (
    PASS_RATE,
    Builder,
    Dialect,
    K,
    check_name,
    number,
    only_pass_rates,
    shown,
)
from webapp.interfaces.imports.readers.guessing import guess, without_sign
from webapp.interfaces.imports.readers.rows import (
    COMPUTE,
    MAX_RUNS,
    BadSource,
    FoundRun,
    Options,
    Preview,
    Row,
)

EMPTY = frozenset({"", "na", "n/a", "null", "none", "-"})
WORDS = {"true": 1.0, "false": 0.0}
PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII)
WITH_COMMA = re.compile(r"[+-]?\d[\d.]*,\d+([eE][+-]?\d+)?", re.ASCII)
NOTHING: Final = float("nan")  # an empty cell, compared by identity
Bad = Callable[[str], BadSource]


def text(cell: Any) -> str:
    """As a person reads it; empty for nothing."""
    if cell is None:
        return ""
    return (
        cell.strip()
        if isinstance(cell, str)
        else cell.isoformat()
        if isinstance(cell, datetime)
        else str(cell)
    )


def is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in EMPTY)


def number_of(bad: Bad, name: str, cell: Any) -> float | None:
    """None where it is not finite. Raises BadSource for what is no number."""
    if isinstance(cell, str):
        return _of_text(bad, name, without_sign(cell))
    try:
        return number(float(cell) if isinstance(cell, Decimal) else cell)
    except TypeError:
        raise bad(f"{name} is {shown(cell)}, which is no number.") from None


def _of_text(bad: Bad, name: str, cell: str) -> float | None:
    if PLAIN.fullmatch(cell):
        return number(float(cell))
    if cell.lower() in WORDS:
        return WORDS[cell.lower()]
    if WITH_COMMA.fullmatch(cell):
        raise bad(f"{name} is {shown(cell)}: numbers have a decimal point, and no comma.")
    raise bad(f"{name} is {shown(cell)}, which is no number.")


class Numbers:
    """Columns of metrics. One whose first cell is text is left out, and said; later text among numbers is refused."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._is_text: dict[str, bool] = {}

    def of(self, line: int, name: str, cell: Any) -> float | None:
        """NOTHING for an empty cell and in a column of text. Raises BadSource."""
        if type(cell) is str and self._is_text.get(name) is False:  # most are plain numbers
            with suppress(ValueError):
                plain = float(cell)
                if isfinite(plain) and "_" not in cell and cell.isascii():
                    return plain
        if is_empty(cell) or self._is_text.get(name):
            return NOTHING
        if name not in self._is_text:
            self._is_text[name] = self._begins_with_text(line, name, cell)
            if self._is_text[name]:
                return NOTHING
        return number_of(lambda reason: self._builder.bad(line, reason), name, cell)

    def _begins_with_text(self, line: int, name: str, cell: Any) -> bool:
        if isinstance(cell, bool | int | float | Decimal):
            return False
        if isinstance(cell, str):
            cell = without_sign(cell)
            if PLAIN.fullmatch(cell) or cell.lower() in WORDS or WITH_COMMA.fullmatch(cell):
                return False
        self._builder.note(f"{shown(name)} is text ({shown(text(cell), 30)} in line {line}) and left out.")
        return True


MAX_TOGETHER = 10_000  # rows of one step that are looked at together
PREVIEW_ROWS = 20
METRIC_ROLES = ("device_hours", "flops", "tokens", "pass_rate", "pass_rate_stderr")  # in a long table


class Table(Protocol):
    """A file of rows. `rows(position)` gives (line, position of the row, its cells) from a row's position on."""

    file: str
    columns: tuple[str, ...]  # an empty name: the column has none
    notes: list[str]

    def rows(self, position: Any = None) -> Iterator[tuple[int, Any, Sequence[Any]]]: ...


@dataclass
class Span:
    """Where a run's rows lie in a table."""

    position: Any
    last_line: int = 0
    pass_rates: set[str] = field(default_factory=set)  # see Builder, for long tables


def preview(table: Table, options: Options) -> Preview:
    """The beginning of the table, and a guess of its mapping that keeps the rest of `options`."""
    rows = tuple(tuple(text(cell) for cell in cells) for _, _, cells in islice(table.rows(), PREVIEW_ROWS))
    found = guess(table.columns, rows, options.columns)
    columns = {**found.likely, **found.columns}
    mapped = options.model_copy(update={"columns": columns, "percent": options.percent or found.percent})
    said = (*found.unclear, *found.remarks)
    return Preview(columns=table.columns, rows=rows, guess=mapped, unclear=said, asked=tuple(found.likely))


def found_runs(
    table: Table,
    options: Options,
    *,
    carry_step: bool = False,
    hidden: Collection[str] = (),
) -> list[FoundRun]:
    """One run, or one for each value of the column of runs. Raises BadSource where columns are missing or unclear.

    carry_step: a row without a step belongs to the one before. hidden: columns that are no metrics.
    """
    options = options if options.columns else options.model_copy(update={"columns": _guessed(table)})
    layout = Layout.of(table, options, hidden)
    spans = _spans(table, layout)
    if not spans:
        raise BadSource(table.file, None, "There are no rows.")
    default = options.name or table.file.rpartition("/")[2].rpartition(".")[0] or table.file
    runs = []
    for run, span in spans.items():
        notes = list(table.notes)
        dialect = Dialect(
            pass_rates=span.pass_rates if layout.is_long else None,
            from_first_step=not layout.roles.keys() & set(COMPUTE),
        )
        begin = partial(Builder, table.file, options, notes, dialect)
        rows = partial(_rows, begin, layout, partial(_own, table, layout, run, span), carry_step)
        pass_rate = options.columns.get("pass_rate", "")
        runs.append(FoundRun(run, run or default, rows, pass_rate=pass_rate, notes=notes))
    return runs


def _guessed(table: Table) -> Mapping[str, str]:
    rows = tuple(tuple(text(cell) for cell in cells) for _, _, cells in islice(table.rows(), PREVIEW_ROWS))
    found = guess(table.columns, rows, {})
    if found.unclear:
        raise BadSource(table.file, None, f"Say which column is what. {found.unclear[0]}")
    return found.columns


@dataclass(frozen=True)
class Layout:
    """The mapping, as positions of columns. metrics: of a wide table, position -> name."""

    roles: Mapping[str, int]
    metrics: Mapping[int, str]
    is_long: bool

    @classmethod
    def of(cls, table: Table, options: Options, hidden: Collection[str] = ()) -> "Layout":
        """Raises BadSource for a column that the table has not."""
        positions = {name: position for position, name in enumerate(table.columns) if name}
        is_long = "metric" in options.columns
        roles = {}
        for role, name in options.columns.items():
            if name in positions:
                roles[role] = positions[name]
            elif not (is_long and role in METRIC_ROLES):  # there it is the name of a metric
                raise BadSource(table.file, None, f"There is no column {shown(name)} for {role}.")
        if len(set(roles.values())) < len(roles):
            raise BadSource(table.file, None, "One column cannot be two things.")
        used = (
            set()
            if is_long
            else {at for name, at in positions.items() if name not in hidden} - set(roles.values())
        )
        used -= {positions[name] for name in options.ignore if name in positions}
        for position in used:
            check_name(table.file, None, table.columns[position])
        return cls(roles, {position: table.columns[position] for position in sorted(used)}, is_long)


def _spans(table: Table, layout: Layout) -> dict[str, Span]:
    """Each run of the table: in one pass where there are several, or names to collect; else without any."""
    run, metric = layout.roles.get("run"), layout.roles.get("metric")
    if run is None and metric is None:
        return {"": Span(None, last_line=2**63)} if next(table.rows(), None) else {}
    spans: dict[str, Span] = {}
    for line, position, cells in table.rows():
        name = "" if run is None else text(cells[run])
        if run is not None and not name:
            raise BadSource(table.file, line, "The run has no name.")
        if name not in spans:
            if len(spans) == MAX_RUNS:
                raise BadSource(table.file, line, f"There are more than {MAX_RUNS:,} runs.")
            spans[name] = Span(position)
        spans[name].last_line = line
        if metric is not None:
            spans[name].pass_rates.update(only_pass_rates([text(cells[metric])]))
    return spans


Cells = Iterator[tuple[int, Sequence[Any]]]


def _own(table: Table, layout: Layout, run: str, span: Span) -> Cells:
    """The rows of one run. Raises BadSource."""
    column = layout.roles.get("run")
    for line, _, cells in table.rows(span.position):
        if line > span.last_line:
            return
        if column is None or text(cells[column]) == run:
            yield line, cells


def _rows(
    begin: Callable[[], Builder], layout: Layout, own: Callable[[], Cells], carry_step: bool
) -> Iterator[Row]:
    """Raises BadSource."""
    reader = _Reader(begin(), layout, carry_step)
    return reader.long(own()) if layout.is_long else reader.wide(own())


class _Reader:
    def __init__(self, builder: Builder, layout: Layout, carry_step: bool) -> None:
        self._builder, self._layout, self._carry_step = builder, layout, carry_step
        self._columns = Numbers(builder)
        self._position = 0
        self._step = 0

    def wide(self, own: Cells) -> Iterator[Row]:
        for line, cells in own:
            values = {}
            for position, name in self._layout.metrics.items():
                value = self._columns.of(line, name, cells[position])
                if value is not NOTHING:
                    values[name] = value
            step, time = self._step_of(line, cells), self._time_of(line, cells)
            compute = self._compute(line, step, time, cells, values)
            metrics = self._builder.metrics(line, values) | self._pass_rate(line, cells)
            yield Row(line, step, time, compute, metrics)

    def long(self, own: Cells) -> Iterator[Row]:
        """One row for each line; what they say of compute is looked at together for each step."""
        steps = ((line, self._step_of(line, cells), cells) for line, cells in own)
        for step, group in groupby(steps, key=lambda each: each[1]):
            while part := list(islice(group, MAX_TOGETHER)):
                yield from self._of_step(step, [(line, cells) for line, _, cells in part])

    def _of_step(self, step: int, part: list[tuple[int, Sequence[Any]]]) -> Iterator[Row]:
        values = [self._metric(line, cells) for line, cells in part]
        moved = self._pair(values)
        together = {name: value for each in values for name, value in each.items()}
        first, first_cells = part[0]
        compute = self._compute(first, step, self._time_of(first, first_cells), first_cells, together)
        for place, ((line, cells), one) in enumerate(zip(part, values, strict=True)):
            if place not in moved:
                metrics = self._builder.metrics(line, one)
                yield Row(
                    line,
                    step,
                    self._time_of(line, cells),
                    compute,
                    metrics | self._beside(line, cells, metrics),
                )

    def _pair(self, values: list[dict[str, float | None]]) -> set[int]:
        """Put each standard error beside the value it belongs to, which is of the same step: `X_stderr` to `X`, and
        the one that is named to the pass rate that is named. The places that it took them from."""
        columns = self._builder.options.columns
        owners = {columns.get("pass_rate_stderr"): columns.get("pass_rate")}
        places: dict[str, list[int]] = {}
        for place, one in enumerate(values):
            for name in one:
                places.setdefault(name, []).append(place)
        moved = set()
        for name, own in places.items():
            owner = owners.get(name) or name.removesuffix("_stderr")
            if owner != name:
                for place, beside in zip(own, places.get(owner, ()), strict=False):
                    values[beside][name] = values[place][name]
                    moved.add(place)
        return moved

    def _beside(
        self, line: int, cells: Sequence[Any], metrics: Mapping[str, float | None]
    ) -> dict[str, float | None]:
        """What columns of a long table say of its value: the pass rate, or the standard error of whatever it is."""
        if "pass_rate" in self._layout.roles or "pass_rate_stderr" not in self._layout.roles:
            return self._pass_rate(line, cells)
        error = self._amount(line, "pass_rate_stderr", cells)
        return {} if error is None else {
            f"{name}_stderr": self._builder.stderr(line, name, error) if name == PASS_RATE else error
            for name in metrics
            if name != K and not name.endswith("_stderr")
        }  # fmt: skip

    def _metric(self, line: int, cells: Sequence[Any]) -> dict[str, float | None]:
        name = text(cells[self._layout.roles["metric"]])
        value = self._columns.of(line, f"the value of {name}", cells[self._layout.roles["value"]])
        return {} if value is NOTHING else {name: value}

    def _step_of(self, line: int, cells: Sequence[Any]) -> int:
        self._position += 1
        position = self._layout.roles.get("step")
        if position is None:
            return self._position
        if not (self._carry_step and is_empty(cells[position])):
            self._step = self._builder.step(line, cells[position])
        return self._step

    def _time_of(self, line: int, cells: Sequence[Any]) -> datetime | None:
        position = self._layout.roles.get("time")
        if position is None or is_empty(cells[position]):
            return None
        return self._builder.time(line, cells[position])

    def _compute(
        self, line: int, step: int, time: datetime | None, cells: Sequence[Any], values: Mapping[str, Any]
    ) -> dict[str, float | None]:
        elapsed = self._amount(line, "elapsed", cells)
        if not self._layout.roles.keys() & set(COMPUTE):
            return self._builder.compute(line, step, time, values, elapsed)
        totals = {role: self._amount(line, role, cells) for role in COMPUTE if role in self._layout.roles}
        added = {role: totals.pop(role) for role in self._builder.options.per_row if role in totals}
        return self._builder.totals(line, step, time, elapsed, totals, added)

    def _pass_rate(self, line: int, cells: Sequence[Any]) -> dict[str, float | None]:
        roles, found = self._layout.roles, {}
        for role, check in (
            ("pass_rate", self._builder.pass_rate),
            ("pass_rate_stderr", self._builder.stderr),
        ):
            if role in roles and not is_empty(cells[roles[role]]):
                found[f"eval/{role}"] = check(line, role, self._amount(line, role, cells))
        return found

    def _amount(self, line: int, role: str, cells: Sequence[Any]) -> float | None:
        position = self._layout.roles.get(role)
        if position is None or is_empty(cells[position]):
            return None
        return number_of(partial(self._builder.bad, line), role, cells[position])
