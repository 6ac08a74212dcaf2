"""What Headroom gave out itself: journals; exports of records, curves and runs as JSONL, CSV or Parquet; the CSV of a
curve."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from webapp.base.formats import original
from webapp.interfaces.exports.columns import ABOUT, OWN, RECORD, metric_of
from webapp.interfaces.imports.readers.building import (
    ANY_STEP,
    PASS_RATE,
    Builder,
    Dialect,
    numbers,
)
from webapp.interfaces.imports.readers.jsonl_files import objects
from webapp.interfaces.imports.readers.rows import (
    COMPUTE,
    MAX_RUNS,
    STATES,
    BadSource,
    FoundRun,
    Options,
    Row,
    broken_run,
    grouped,
    inside,
    source_files,
)
from webapp.interfaces.imports.readers.table import is_empty, number_of, text
from webapp.interfaces.imports.readers.table_files import CsvTable, ParquetTable

ENDINGS = (".jsonl", ".csv", ".parquet")
CURVE = ("compute", "stderr", "step", "attempt", *COMPUTE)  # of a curve, beside `reward` or `value`
RUNS = ("id", "origin", "state", "config")  # some of those of a list of runs
WHOLE = re.compile(r"[0-9]{1,10}")
LATER = "A later attempt went on from before these steps: what earlier ones had of them is left out."


class Entry(NamedTuple):
    """A line of a file, or a row by the names of its columns."""

    line: int
    position: Any  # from where it can be read again
    said: Mapping[str, Any]


@dataclass
class Span:
    """Where the entries of a run lie. begins: attempt -> the first step it has."""

    position: Any
    last_line: int = 0
    about: Mapping[str, Any] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)

    def is_superseded(self, attempt: int, step: int) -> bool:
        """A journal does not say from which step an attempt went on; what an attempt has again is its own then."""
        after = self.about.get("superseded_after")
        if isinstance(after, Mapping):
            return isinstance(last := after.get(str(attempt)), int) and step > last
        return any(later > attempt and step >= begin for later, begin in self.begins.items())


def is_own(columns: Sequence[str]) -> bool:
    """Whether a table with these columns is of ours."""
    return any(set(own) <= set(columns) for own in (RECORD, CURVE, RUNS))


def read(root: Path, options: Options) -> list[FoundRun]:
    """Each run of each file. Raises BadSource; in a folder a broken file keeps none of the others out."""
    if root.is_file():
        return File(root, root.name, "", options).runs(is_only=True)
    files = source_files(root, lambda name: name.endswith(ENDINGS), ".jsonl, .csv or .parquet file")
    found: list[FoundRun] = []
    for file in files:
        name = inside(root, file)
        try:
            found += File(file, name, name, options).runs(is_only=len(files) == 1)
        except BadSource as error:
            found.append(broken_run(name, error))
    return found


@dataclass(frozen=True)
class File:
    """One file; `key` names it within the source."""

    path: Path
    name: str
    key: str
    options: Options

    def runs(self, is_only: bool) -> list[FoundRun]:
        """Raises BadSource."""
        notes: list[str] = []
        spans = self._spans(self._builder(notes))
        if not spans:
            raise BadSource(self.name, None, "There are no rows.")
        title = self.options.name if self.options.name and is_only else self.name.rpartition(".")[0]
        return [self._run(run, span, run or title, [*notes]) for run, span in spans.items()]

    def _run(self, run: str, span: Span, title: str, notes: list[str]) -> FoundRun:
        about = span.about
        name, task, model = (text(about.get(each)) for each in ("name", "task", "model"))
        seed, state = about.get("seed"), about.get("state")
        seed = int(str(seed)) if WHOLE.fullmatch(str(seed)) else None  # a list of runs may have it as text
        config, meaning = (
            each if isinstance(each := about.get(of), Mapping) else {} for of in ("config", "meaning")
        )
        return FoundRun(
            key="\n".join(part for part in (self.key, run) if part),
            name=name or title,
            rows=lambda: self._rows(run, span, self._builder(notes)),
            config=config,
            task=task,
            model=model,
            seed=seed,
            state=state if state in STATES else None,
            meaning=meaning,
            notes=notes,
        )

    def _builder(self, notes: list[str]) -> Builder:
        """Names are ours, and the pass rate is what is called so."""
        return Builder(self.name, self.options, notes, Dialect(rename=str, pass_rates=(), steps=ANY_STEP))

    def _entries(self, builder: Builder, position: Any = None) -> Iterator[Entry]:
        """Raises BadSource."""
        if self.path.suffix == ".jsonl":
            yield from (Entry(*each) for each in objects(self.path, builder, position))
            return
        is_text = self.path.suffix != ".parquet"
        table = CsvTable(self.path) if is_text else ParquetTable(self.path, self.name)
        if not is_own(table.columns):
            missing = next(name for name in RECORD if name not in table.columns)
            raise BadSource(self.name, 1, f"This is no export of Headroom: it has no column {missing}.")
        as_meant = original if is_text else lambda cell: cell  # in a CSV what would be a formula is marked
        columns = [as_meant(name) for name in table.columns]
        for line, place, cells in table.rows(position):
            yield Entry(line, place, dict(zip(columns, map(as_meant, cells), strict=True)))

    def _spans(self, builder: Builder) -> dict[str, Span]:
        """Each run, in one pass that looks at the form of each entry, too. Raises BadSource."""
        spans: dict[str, Span] = {}
        for line, position, said in self._entries(builder):
            run = text(said.get("id" if _is_run(said) else "run"))
            if run not in spans and len(spans) == MAX_RUNS:
                raise builder.bad(line, f"There are more than {MAX_RUNS:,} runs.")
            span = spans.setdefault(run, Span(position))
            span.last_line = line
            span.about = _about(builder, line, said) or span.about
            if not _is_run(said):
                attempt, step = _place(builder, line, said)
                span.begins[attempt] = min(step, span.begins.get(attempt, step))
        return spans

    def _rows(self, run: str, span: Span, builder: Builder) -> Iterator[Row]:
        """One for each record; a long table has several rows of one. Raises BadSource."""
        for entries in grouped(self._own(run, span, builder), _belong):
            line, _, said = entries[0]
            attempt, step = _place(builder, line, said)
            if span.is_superseded(attempt, step):
                builder.note(LATER)
                continue
            metrics: dict[str, float | None] = {}
            for entry in entries:
                metrics |= _metrics(builder, entry.line, entry.said)
            yield Row(
                line,
                step,
                None if is_empty(said.get("time")) else builder.time(line, said["time"]),
                _compute(builder, line, said),
                builder.metrics(line, metrics),
            )

    def _own(self, run: str, span: Span, builder: Builder) -> Iterator[Entry]:
        for entry in self._entries(builder, span.position):
            if entry.line > span.last_line:
                return
            if text(entry.said.get("run")) == run and not _is_run(entry.said):
                yield entry


def _is_run(said: Mapping[str, Any]) -> bool:
    """Whether it is of a list of runs, and no record."""
    return "origin" in said and "step" not in said


def _belong(group: list[Entry], entry: Entry) -> bool:
    """To one record, of which a long table has a row for each value."""
    first, said = group[0].said, entry.said
    if "seq" not in said or not isinstance(said.get("metric"), str):
        return False
    is_same = all(said.get(name) == first.get(name) for name in ("attempt", "seq"))
    return is_same and all(each.said["metric"] != said["metric"] for each in group)


def _about(builder: Builder, line: int, said: Mapping[str, Any]) -> Mapping[str, Any]:
    """What stands there of the run; empty where nothing does. Raises BadSource."""
    if _is_run(said):
        return dict(said) | {"config": _object(builder, line, said.get("config"))}
    return _object(builder, line, said.get(ABOUT))


def _object(builder: Builder, line: int, value: Any) -> Mapping[str, Any]:
    """A table has it as JSON. Raises BadSource."""
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise builder.bad(line, "What is said of the run is no JSON.") from None
    return value if isinstance(value, Mapping) else {}


def _place(builder: Builder, line: int, said: Mapping[str, Any]) -> tuple[int, int]:
    """Attempt and step. Raises BadSource for what is no record."""
    is_table = "metrics" not in said and set(COMPUTE) <= said.keys()
    if "step" not in said or not (
        is_table or ("compute" in said and isinstance(said.get("metrics"), Mapping))
    ):
        raise builder.bad(line, "This is no record of Headroom: step, compute and metrics belong to one.")
    attempt = said.get("attempt", 1)
    if not WHOLE.fullmatch(str(attempt)):
        raise builder.bad(line, "The attempt is no integer.")
    return int(attempt), builder.step(line, said["step"])


def _metrics(builder: Builder, line: int, said: Mapping[str, Any]) -> dict[str, float | None]:
    """Raises BadSource."""
    if "metrics" in said:
        return numbers(said["metrics"])
    if not said.keys().isdisjoint(("metric", "value", "reward")):
        name = text(said.get("metric", PASS_RATE))
        found = {name: said.get("value", said.get("reward"))}
        if not is_empty(said.get("stderr")):
            found[f"{name}_stderr"] = said["stderr"]
    else:
        found = {
            metric_of(name): cell for name, cell in said.items() if name not in OWN and not is_empty(cell)
        }
    bad = partial(builder.bad, line)
    return {name: None if is_empty(cell) else number_of(bad, name, cell) for name, cell in found.items()}


def _compute(builder: Builder, line: int, said: Mapping[str, Any]) -> dict[str, float | None]:
    bad = partial(builder.bad, line)
    compute = said["compute"] if "metrics" in said else {name: said[name] for name in COMPUTE}
    if not isinstance(compute, Mapping):
        raise bad("The compute of this record is not made of numbers.")
    of_numbers = lambda _: bad("The compute of this record is not made of numbers.")
    known = {
        name: None if is_empty(amount) else number_of(of_numbers, name, amount)
        for name, amount in compute.items()
    }
    if any(amount is not None and amount < 0 for amount in known.values()):
        raise bad("An amount of compute is below 0.")
    return {name: known.get(name) for name in COMPUTE}
