"""Parquet files of neptune-exporter: one row for each value of each attribute of a run."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from headroom.adapters.naming import VERL_BESIDE, VERL_STEP, VERL_TOKENS, model_of, seed_of, verl_devices
from webapp.interfaces.imports.readers.building import (
    TOTALS,
    Builder,
    Dialect,
    number,
    only_pass_rates,
)
from webapp.interfaces.imports.readers.rows import (
    COMPUTE,
    MAX_RUNS,
    BadSource,
    FoundRun,
    Options,
    Row,
    inside,
    line_of,
    source_files,
)
from webapp.interfaces.imports.readers.table_files import ParquetTable

VALUES = {  # attribute_type of a parameter -> its column
    "float": "float_value", "int": "int_value", "string": "string_value", "bool": "bool_value",
    "datetime": "datetime_value",
}  # fmt: skip
NEEDED = ("run_id", "attribute_path", "attribute_type", "step", "timestamp", "float_value")
COLUMNS = ("project_id", *NEEDED, *sorted(set(VALUES.values()) - {"float_value"}))
SERIES = "float_series"
NAMES = ("sys/name", "sys/custom_run_id")
MAX_CONFIG = 10_000  # parameters
MAX_TEXT = 10_000  # characters of one
MAX_COMPUTE_STEPS = 1_000_000
Cells = Mapping[str, Any]


def read(root: Path, options: Options) -> list[FoundRun]:
    """Every run of an export. Raises BadSource."""
    files = source_files(root, lambda name: name.endswith(".parquet"), ".parquet file")
    runs: dict[tuple[str, str], NeptuneRun] = {}
    for file in sorted(files, key=_by_number):
        part = (file, inside(root, file))
        for line, cells in _rows_of(part):
            run_id, project = cells["run_id"], cells.get("project_id") or ""
            if not run_id:
                raise BadSource(part[1], line, "This row has no run_id.")
            if len(runs) == MAX_RUNS and (project, run_id) not in runs:
                raise BadSource(part[1], line, f"There are more than {MAX_RUNS:,} runs.")
            runs.setdefault((project, run_id), NeptuneRun(project, run_id, options)).note(part, line, cells)
    if not runs:
        raise BadSource(root.name, None, "There are no rows.")
    return [run.found() for run in runs.values()]


def _by_number(path: Path) -> list[Any]:
    """`part_10` behind `part_9`."""
    return [int(piece) if piece.isdigit() else piece for piece in re.split(r"(\d+)", path.as_posix())]


Part = tuple[Path, str]  # one file of the export, and its name


def _rows_of(part: Part) -> Iterator[tuple[int, Cells]]:
    """Raises BadSource."""
    table = ParquetTable(*part, only=COLUMNS)
    missing = [name for name in NEEDED if name not in table.columns]
    if missing:
        raise BadSource(table.file, None, f"This is no export of Neptune: it has no column {missing[0]}.")
    for line, _, cells in table.rows():
        yield line, dict(zip(table.columns, cells, strict=True))


@dataclass
class NeptuneRun:
    """One run; `note` is told every row of it once, before `found`."""

    project: str
    run_id: str
    options: Options
    parts: list[Part] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    system: dict[str, Any] = field(default_factory=dict)
    pass_rates: set[str] = field(default_factory=set)
    began: datetime | None = None
    compute: dict[int, dict[str, float | None]] = field(default_factory=dict)  # step -> what was logged of it
    notes: list[str] = field(default_factory=list)

    def note(self, part: Part, line: int, cells: Cells) -> None:
        """Raises BadSource."""
        if not self.parts or self.parts[-1] != part:
            self.parts.append(part)
        path, kind = str(cells["attribute_path"] or ""), cells["attribute_type"]
        if kind == SERIES:
            self._note_point(part, line, path, cells)
        elif kind in VALUES and len(self.config) + len(self.system) < MAX_CONFIG:
            value = cells.get(VALUES[kind])
            found = self.system if path.startswith("sys/") else self.config
            found[path] = value[:MAX_TEXT] if isinstance(value, str) else value

    def _note_point(self, part: Part, line: int, path: str, cells: Cells) -> None:
        self.pass_rates.update(only_pass_rates([path]))
        time = cells["timestamp"]
        if time is not None and (self.began is None or time < self.began):
            self.began = time
        if path in self._of_compute():
            step = Builder(part[1], self.options, []).step(line, cells["step"])
            if len(self.compute) >= MAX_COMPUTE_STEPS and step not in self.compute:
                raise BadSource(part[1], line, f"There are more than {MAX_COMPUTE_STEPS:,} steps.")
            self.compute.setdefault(step, {})[path] = _value(part, line, cells)

    def _of_compute(self) -> set[str]:
        named = {self.options.columns[role] for role in COMPUTE if role in self.options.columns}
        return (
            named
            | {name for names in TOTALS.values() for name in names}
            | {VERL_TOKENS, VERL_STEP, *VERL_BESIDE}
        )

    def found(self) -> FoundRun:
        config = {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in self.config.items()
        }
        return FoundRun(
            key=f"{self.project}\n{self.run_id}",
            name=next((str(self.system[name]) for name in NAMES if self.system.get(name)), self.run_id),
            rows=lambda: self._rows(config),
            config=config,
            task=self.project.rpartition("/")[2],
            model=model_of(config),
            seed=seed_of(config),
            state="failed" if self.system.get("sys/failed") is True else None,
            notes=self.notes,
        )

    def _rows(self, config: Mapping[str, Any]) -> Iterator[Row]:
        """One for each point of a series, in the order of the export: series after series."""
        builder = Builder(
            self.parts[0][1],
            self.options,
            self.notes,
            Dialect(devices=verl_devices(config), pass_rates=self.pass_rates),
        )
        used = {step: builder.compute(0, step, None, values) for step, values in sorted(self.compute.items())}
        has_hours = any(each["device_hours"] is not None for each in used.values())
        for number_of_part, part in enumerate(self.parts):
            builder.file = part[1]
            for line, cells in _rows_of(part):
                is_own = (cells["run_id"], cells.get("project_id") or "") == (self.run_id, self.project)
                if is_own and cells["attribute_type"] == SERIES:
                    step = builder.step(line, cells["step"])
                    time = cells["timestamp"]
                    compute = dict(used.get(step) or dict.fromkeys(COMPUTE))
                    if not has_hours:
                        compute["device_hours"] = self._hours(time)
                    values = {str(cells["attribute_path"]): _value(part, line, cells)}
                    yield Row(
                        line_of(number_of_part, line), step, time, compute, builder.metrics(line, values)
                    )

    def _hours(self, time: datetime | None) -> float | None:
        """Devices x time since the run's first point: its series come one after the other."""
        if self.options.devices is None or time is None or self.began is None:
            return None
        return self.options.devices * (time - self.began).total_seconds() / 3600


def _value(part: Part, line: int, cells: Cells) -> float | None:
    value = cells["float_value"]
    try:
        return None if value is None else number(value)
    except TypeError:
        raise BadSource(part[1], line, "The value of this point is no number.") from None
