"""The corpus: real runs that travel with Headroom, as two Parquet files that can be committed.

    CORPUS/study.yaml       the study file that asked for them
    CORPUS/runs.parquet     a row for each run: what it was, what became of it, on what
    CORPUS/points.parquet   its points: evaluations all of them, diagnostics thinned

The same content gives the same bytes (of the same pyarrow); each file is replaced whole.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from training.study.plan import Place
from training.whole_files import replace_file

RUNS, POINTS, STUDY = "runs.parquet", "points.parquet", "study.yaml"
PASS_RATE = "eval/pass_rate"
AXES = ("device_hours", "flops", "tokens")
_JSON = ("places", "config", "versions", "machine")  # columns that hold JSON
_NAME = pa.dictionary(pa.int32(), pa.string())
POINT_SCHEMA = pa.schema(
    [
        pa.field("run", _NAME, nullable=False),
        pa.field("metric", _NAME, nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("seconds", pa.float32(), nullable=False),  # since the run began
        *(
            pa.field(axis, pa.float64()) for axis in AXES
        ),  # cumulative training compute, evaluation not counted
        pa.field("value", pa.float32(), nullable=False),
        pa.field("stderr", pa.float32()),
    ]
)
_FLOATS = ("value", "stderr")
_PLAIN = [name for name in POINT_SCHEMA.names if name not in _FLOATS]


class CorpusError(ValueError):
    """A corpus that cannot be read; the message names the file and the reason."""


@dataclass(frozen=True)
class CorpusRun:
    """One run: `config` is its whole recipe, with seed and budget."""

    id: str
    places: tuple[Place, ...]  # the arms of the studies that it belongs to
    recipe: str
    content_hash: str
    task: str
    model: str
    seed: int
    steps: int  # its budget
    state: str  # succeeded or lost
    reason: str  # of a loss
    failed_tries: int
    began: str  # ISO 8601, with offset
    wall_seconds: float  # with start-up and evaluations
    cpu_free_share: float | None  # of the machine's cores, that nothing else used
    config: dict[str, Any] = field(repr=False)
    versions: dict[str, str] = field(repr=False)  # of libraries, this program and the model's `weights`
    machine: dict[str, Any] = field(repr=False)  # processor, cores


@dataclass(frozen=True)
class Points:
    """Points of one run in the order of training, all [n]; NaN where a value does not exist."""

    metric: np.ndarray  # of str
    step: np.ndarray
    seconds: np.ndarray  # since the run began
    device_hours: np.ndarray
    flops: np.ndarray
    tokens: np.ndarray
    value: np.ndarray
    stderr: np.ndarray

    def of(self, metric: str) -> "Points":
        """Of one metric."""
        kept = self.metric == metric
        return Points(*(getattr(self, one.name)[kept] for one in fields(self)))


@dataclass(frozen=True)
class Corpus:
    """Runs by their ids, and the table of all points, sorted by run."""

    runs: Mapping[str, CorpusRun]
    table: pa.Table
    study: bytes = b""  # the file that asked for them

    def points(self, run_id: str) -> Points:
        """Of one run; none for a run without any."""
        part = self.table_of(run_id)
        # float32 to the nearest float64: 0.3 stays what a float32 of 0.3 is
        return Points(*(_array(part.column(one.name)) for one in fields(Points)))

    def table_of(self, run_id: str) -> pa.Table:
        """The rows of one run."""
        start, stop = self._places.get(run_id, (0, 0))
        return self.table.slice(start, stop - start)

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        names = self.table.column("run").cast(pa.string()).to_numpy(zero_copy_only=False)
        if not len(names):
            return {}
        starts = np.flatnonzero(np.r_[True, names[1:] != names[:-1]])
        stops = np.r_[starts[1:], len(names)]
        return {str(names[a]): (int(a), int(b)) for a, b in zip(starts, stops, strict=True)}


def _array(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_dictionary(column.type):
        return column.cast(pa.string()).to_numpy(zero_copy_only=False)
    return column.to_numpy()


def empty() -> Corpus:
    """One without runs."""
    return Corpus({}, POINT_SCHEMA.empty_table())


def read_corpus(folder: Path) -> Corpus:
    """Raises CorpusError; a corpus that is not there yet is one."""
    try:
        rows = pq.read_table(folder / RUNS).to_pylist()
        table = pq.read_table(folder / POINTS, schema=POINT_SCHEMA)
        study = (folder / STUDY).read_bytes()
        return Corpus({row["id"]: _run(row) for row in rows}, table.combine_chunks(), study)
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"the corpus {folder} cannot be read: {str(error).splitlines()[0]}") from None


def exists(folder: Path) -> bool:
    """Whether there is a corpus."""
    return (folder / RUNS).is_file()


def _run(row: dict[str, Any]) -> CorpusRun:
    content = row | {name: json.loads(row[name]) for name in _JSON}
    content["places"] = tuple(Place(*place) for place in content["places"])
    return CorpusRun(**content)


def write_corpus(folder: Path, runs: Iterable[CorpusRun], tables: Iterable[pa.Table], study: bytes) -> None:
    """`tables`: as `table_of` gives them, in any order; a run without one has no points. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    by_run = {str(table.column("run")[0]): table for table in tables if len(table)}
    points = pa.concat_tables([by_run[name] for name in sorted(by_run)] or [POINT_SCHEMA.empty_table()])
    replace_file(folder / STUDY, study)
    # The points first: whoever reads in between finds a run's points without the run, never a run without them.
    _write(folder / POINTS, points.combine_chunks().unify_dictionaries(), _PLAIN)
    rows = [asdict(run) for run in sorted(runs, key=lambda run: run.id)]
    rows = [row | {name: json.dumps(row[name], sort_keys=True) for name in _JSON} for row in rows]
    _write(folder / RUNS, pa.Table.from_pylist(rows, schema=RUN_SCHEMA), True)


_TYPES = {int: pa.int64(), str: pa.string(), float: pa.float64(), float | None: pa.float64()}
RUN_SCHEMA = pa.schema([(one.name, _TYPES.get(one.type, pa.string())) for one in fields(CorpusRun)])  # type: ignore[arg-type]


def _write(path: Path, table: pa.Table, dictionary: list[str] | bool) -> None:
    partial = path.with_name(path.name + ".partial")
    split = {} if dictionary is True else {"column_encoding": dict.fromkeys(_FLOATS, "BYTE_STREAM_SPLIT")}
    pq.write_table(
        table,
        partial,
        compression="zstd",
        compression_level=12,
        use_dictionary=dictionary,
        store_schema=True,
        **split,
    )
    partial.replace(path)


def point_table(run_id: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows of (metric, step, seconds, device_hours, flops, tokens, value, stderr), in the order of training."""
    columns: Iterator[Any] = zip(*rows, strict=True) if rows else iter([()] * (len(POINT_SCHEMA) - 1))
    arrays = [pa.array([run_id] * len(rows), pa.string()), *map(list, columns)]
    made = [pa.array(values, _plain(one.type)) for values, one in zip(arrays, POINT_SCHEMA, strict=True)]
    return pa.table(made, schema=pa.schema([(one.name, _plain(one.type)) for one in POINT_SCHEMA])).cast(
        POINT_SCHEMA
    )


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_dictionary(kind) else kind
