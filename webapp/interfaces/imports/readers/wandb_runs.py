"""W&B: the files `run-ID.wandb` that its client writes offline, and that it writes online before it sends."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from headroom.adapters.naming import model_of, seed_of, verl_devices
from webapp.interfaces.imports.readers.building import Builder, Dialect, numbers
from webapp.interfaces.imports.readers.framing import WandbRecord, messages, wandb_records
from webapp.interfaces.imports.readers.rows import (
    BadSource,
    FoundRun,
    Options,
    Row,
    inside,
    line_of,
    note_torn,
    since_1970,
    source_files,
)
from webapp.interfaces.tracking.translate import GLOBAL_STEP

WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
NO_END = "The file does not say how the run ended: it goes on, or it was killed."


def read(root: Path, options: Options) -> list[FoundRun]:
    """One run for each id, in as many files as it was resumed in. Raises BadSource where there is none."""
    files = source_files(root, lambda name: name.endswith(".wandb"), "run-*.wandb")
    runs: dict[str, WandbRun] = {}
    for file in files:
        seen = Seen(file, inside(root, file))
        seen.look()
        if seen.run_id or seen.is_damaged:
            runs.setdefault(seen.run_id or seen.name, WandbRun([], options)).parts.append(seen)
    if not runs:
        raise BadSource(
            root.name, None, "No run had begun when these files ended: W&B writes each 15 seconds."
        )
    return [run.found(key) for key, run in runs.items()]


@dataclass
class Seen:
    """What one file says beside its history."""

    path: Path
    name: str
    run_id: str = ""
    project: str = ""
    display_name: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    has_global_step: bool = False
    is_damaged: bool = False
    notes: list[str] = field(default_factory=list)

    def look(self) -> None:
        """Read it once; damage is said where the rows are read."""
        try:
            for _, record in self.records():
                self._note(record)
        except BadSource:
            self.is_damaged = True

    def records(self) -> Iterator[tuple[int, Any]]:
        """Raises BadSource."""
        with self.path.open("rb") as opened:
            records = wandb_records(opened, self.name, partial(note_torn, self.name, self.notes))
            yield from messages(WandbRecord, records, self.name, "none of W&B's")

    def _note(self, record: Any) -> None:
        kind = record.WhichOneof("one")
        if kind == "run":
            self.run_id = record.run.run_id or self.run_id
            self.project = record.run.project or self.project
            self.display_name = record.run.display_name or self.display_name
            self._configure(record.run.config)
        elif kind == "config":
            self._configure(record.config)
        elif kind == "exit":
            self.exit_code = record.exit.exit_code
        elif kind == "history" and not self.has_global_step:
            self.has_global_step = any(_name(item) == GLOBAL_STEP for item in record.history.item)

    def _configure(self, config: Any) -> None:
        for item in config.update:
            _put(self.config, list(item.nested_key) or [item.key], _value(item))
        for item in config.remove:
            self.config.pop(item.key, None)
        self.config.pop("_wandb", None)


@dataclass
class WandbRun:
    """One run, in the order of its files."""

    parts: list[Seen]
    options: Options
    notes: list[str] = field(default_factory=list)

    def found(self, key: str) -> FoundRun:
        last = self.parts[-1]
        config = {name: value for part in self.parts for name, value in part.config.items()}
        state = None if last.exit_code is None else "succeeded" if last.exit_code == 0 else "failed"
        if state is None:
            self.notes.append(NO_END)
        self.notes += [note for part in self.parts for note in part.notes]
        return FoundRun(
            key=key,
            name=last.display_name or self.options.name or key,
            rows=lambda: self._rows(config),
            config=config,
            task=last.project,
            model=model_of(config),
            seed=seed_of(config),
            state=state,
            notes=self.notes,
        )

    def _rows(self, config: Mapping[str, Any]) -> Iterator[Row]:
        builder = Builder(self.parts[0].name, self.options, self.notes, Dialect(devices=verl_devices(config)))
        has_global_step = any(part.has_global_step for part in self.parts)
        step = 0
        for number, part in enumerate(self.parts):
            builder.file = part.name
            for ordinal, record in part.records():
                if record.WhichOneof("one") != "history":
                    continue
                values, own = _split(record.history)
                if has_global_step:
                    logged = values.get(GLOBAL_STEP)
                else:
                    logged = record.history.step.num if own.get("_step") is None else own["_step"]
                step = step if logged is None else builder.step(ordinal, logged)
                if values:
                    line = line_of(number, ordinal)
                    yield builder.of_tracker(
                        line, step, since_1970(own.get("_timestamp")), values, own.get("_runtime")
                    )


def _split(history: Any) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """(metrics, W&B's own values) of one record."""
    values = numbers({_name(item): _value(item) for item in history.item})
    own = {name: value for name, value in values.items() if name.startswith("_")}
    return {name: value for name, value in values.items() if name not in own}, own


def _name(item: Any) -> str:
    return ".".join(item.nested_key) or item.key


def _value(item: Any) -> Any:
    """What was logged; nothing for pictures, tables and the like. Newer clients have typed values, older ones JSON."""
    kind = item.WhichOneof("one")
    if kind in ("boolean", "integer", "number", "text"):
        return getattr(item, kind)
    try:
        value = json.loads(item.json if kind == "json" else item.value_json)
    except (ValueError, RecursionError):
        return ""
    if isinstance(value, Mapping) and "_type" in value:
        return ""
    return "" if value is None else WORDS.get(value, value) if isinstance(value, str) else value


def _put(config: dict[str, Any], names: list[str], value: Any) -> None:
    *outer, last = names
    for name in outer:
        inner = config.get(name)
        config[name] = config = inner if isinstance(inner, dict) else {}
    config[last] = value
