"""Files of MLflow: its file store (`mlruns/EXPERIMENT/RUN/` with `meta.yaml`, `metrics/`, `params/` and `tags/`), its
store in a SQLite file (`mlflow.db`), and what `headroom import` copied out of another database.

What they and MLflow's server have in common: a run's description, and rows out of metric histories.
"""

import heapq
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import yaml

from headroom.adapters import naming
from training.plain_yaml import LOADER
from webapp.interfaces.imports.readers.building import (
    ANY_STEP,
    Builder,
    Dialect,
    check_name,
    finite,
    only_pass_rates,
)
from webapp.interfaces.imports.readers.rows import (
    MAX_GROUP,
    MAX_RUNS,
    BadSource,
    FoundRun,
    Options,
    Row,
    broken_run,
    files_below,
    grouped,
    inside,
    plain_value,
    since_1970,
)
from webapp.interfaces.tracking.translate import DESCRIPTION, MLFLOW_ENDS, NO_WORDS, TRANSFORMERS, said_by

MAX_METRICS = 10_000


class Point(NamedTuple):
    """One value of one metric. milliseconds: since 1970."""

    milliseconds: int
    step: int
    name: str
    value: float


@dataclass(frozen=True)
class MlflowRun:
    """A run as MLflow keeps it. histories: the points of each metric, in the order they were logged.

    status: MLflow's word, or empty.
    """

    place: str
    run_id: str
    name: str
    experiment: str
    status: str
    params: Mapping[str, str]
    tags: Mapping[str, str]
    metric_names: Sequence[str]
    histories: Callable[[], Sequence[Iterator[Point]]]
    notes: list[str] = field(default_factory=list)

    def found(self, options: Options) -> FoundRun:
        config = {name: plain_value(value) for name, value in self.params.items()}
        said = {name: value for name, value in self.tags.items() if not name.startswith(NO_WORDS)}
        told = {"tags": said, "description": self.tags.get(DESCRIPTION)}
        return FoundRun(
            key=self.run_id,
            name=self.name or self.tags.get("mlflow.runName") or options.name or self.run_id,
            rows=lambda: self._rows(options, config),
            config={name: words for name, words in told.items() if words} | config,
            task=self.experiment,
            model=naming.model_of(config),
            seed=naming.seed_of(config),
            state=MLFLOW_ENDS.get(self.status),
            notes=self.notes,
        )

    def _rows(self, options: Options, config: Mapping[str, Any]) -> Iterator[Row]:
        """One for all that was logged at a moment, in the order of time; line: the how many-th."""
        if len(self.metric_names) > MAX_METRICS:
            raise BadSource(self.place, None, f"There are more than {MAX_METRICS:,} metrics.")
        for name in self.metric_names:
            check_name(self.place, None, name)
        is_transformers = said_by(self.params, {}).trainer == TRANSFORMERS
        builder = Builder(
            self.place,
            options,
            self.notes,
            Dialect(
                # transformers says by its params that names without a group are its own
                rename=naming.name_of_transformers if is_transformers else naming.of_tracker,
                devices=naming.verl_devices(config),
                pass_rates=only_pass_rates(self.metric_names),
                steps=ANY_STEP,
            ),
        )
        points = heapq.merge(*self.histories(), key=lambda point: point[:3])
        for line, group in enumerate(grouped(points, _belong), start=1):
            first = group[0]
            values = {point.name: finite(point.value) for point in group}
            yield builder.of_tracker(line, first.step, since_1970(first.milliseconds / 1000), values)


def _belong(group: Sequence[Point], point: Point) -> bool:
    """MLflow's clients write what is logged together with one time."""
    first = group[0]
    if point[:2] != first[:2] or len(group) == MAX_GROUP:
        return False
    return point.name != group[-1].name  # those of one moment are in the order of their names


META, DATABASE = "meta.yaml", ".db"
NOT_RUNS = ("artifacts", "models", "traces", "inputs", "outputs", ".trash", "metrics", "params", "tags")
STATUS = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}
MAX_META = 256 * 1024
MAX_VALUE = 64 * 1024  # of a parameter or tag
CHUNK = 16 * 1024  # bytes of each history that are held at a time
MAX_LINE = 4096
TORN = "The last line of a metric is not whole, as after a crash, and left out."


def read(root: Path, options: Options) -> list[FoundRun]:
    """Every run that is not deleted, in the experiments below a folder that `options` name, or in all; or in the only
    database there is. Raises BadSource where there is none."""
    if root.is_file():
        return read_database(root, options)
    metas = files_below(root, lambda name: name == META, without=NOT_RUNS)
    databases = files_below(root, lambda name: name.endswith(DATABASE), without=NOT_RUNS)
    if not metas and len(databases) == 1:
        return read_database(databases[0], options)
    runs: list[FoundRun] = []
    described = {}
    for meta in metas:
        try:
            described[meta.parent] = _described(root, meta)
        except BadSource as error:
            if not (meta.parent / "metrics").is_dir():
                raise
            runs.append(broken_run(inside(root, meta.parent), error))
    for folder, about in described.items():
        run_id = _word(about.get("run_id") or about.get("run_uuid"))
        if run_id and about.get("lifecycle_stage") != "deleted":
            experiment = _word(described.get(folder.parent, {}).get("name"))
            if not options.experiments or experiment in options.experiments:
                runs.append(_run(root, folder, about, experiment).found(options))
    if not runs:
        raise BadSource(root.name, None, "There is no run of MLflow in this folder.")
    return runs


def _described(root: Path, meta: Path) -> dict[str, Any]:
    """Raises BadSource."""
    name = inside(root, meta)
    if meta.stat().st_size > MAX_META:
        raise BadSource(name, None, f"This file is larger than {MAX_META:,} bytes.")
    try:
        found = yaml.load(meta.read_bytes(), Loader=LOADER)  # nosec B506  # a safe one
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise BadSource(name, None, "This file is not YAML.") from None
    if not isinstance(found, Mapping):
        raise BadSource(name, None, "This file describes neither a run nor an experiment.")
    return dict(found)


def _run(root: Path, folder: Path, meta: Mapping[str, Any], experiment: str) -> MlflowRun:
    notes: list[str] = []
    metrics = files_below(folder / "metrics", lambda name: True)
    names = {path: path.relative_to(folder / "metrics").as_posix() for path in metrics}
    return MlflowRun(
        place=inside(root, folder),
        run_id=_word(meta.get("run_id") or meta.get("run_uuid")),
        name=_word(meta.get("run_name")),
        experiment=experiment,
        status=_status(meta.get("status")),
        params=_texts(folder / "params"),
        tags=_texts(folder / "tags"),
        metric_names=list(names.values()),
        histories=lambda: [_history(path, inside(root, path), name, notes) for path, name in names.items()],
        notes=notes,
    )


def _status(value: Any) -> str:
    return STATUS.get(value, "") if isinstance(value, int) else _word(value)


def _word(value: Any) -> str:
    """Text, or a number as text; nothing for lists and the like, which a short file can make very long."""
    return str(value) if isinstance(value, str | int) else ""


def _texts(folder: Path) -> dict[str, str]:
    """File name -> content, cut where it is no parameter any more."""
    found = {}
    for path in files_below(folder, lambda name: True):
        with path.open("rb") as opened:
            found[path.relative_to(folder).as_posix()] = (
                opened.read(MAX_VALUE).decode(errors="replace").strip()
            )
    return found


def _history(path: Path, file: str, name: str, notes: list[str]) -> Iterator[Point]:
    """Raises BadSource."""
    for number, line in enumerate(_lines(path, file), start=1):
        if not line.endswith(b"\n"):
            if TORN not in notes:
                notes.append(TORN)
            return
        words = line.split()
        try:
            if len(words) not in (2, 3, 5):
                raise ValueError
            yield Point(int(words[0]), int(words[2]) if len(words) > 2 else 0, name, float(words[1]))
        except ValueError:
            raise BadSource(file, number, "A line is time, value and step; this one is not.") from None


def _lines(path: Path, file: str) -> Iterator[bytes]:
    """With their ends. The file is open only while a chunk is read: a run may have thousands of metrics."""
    offset, rest, number = 0, b"", 0
    while True:
        with path.open("rb") as opened:
            opened.seek(offset)
            chunk = opened.read(CHUNK)
        offset += len(chunk)
        *whole, rest = (rest + chunk).split(b"\n")
        number += len(whole)
        for line in whole:
            yield line + b"\n"
        if not chunk:
            break
        if len(rest) > MAX_LINE:
            raise BadSource(file, number + 1, f"This line is longer than {MAX_LINE:,} bytes.")
    if rest:
        yield rest


HEADER = b"SQLite format 3\0"
TABLES = ("experiments", "runs", "metrics", "params", "tags")
MAX_TEXT = 1024 * 1024  # bytes of one text
NO_ROOM = ("SQLITE_IOERR_WRITE", "SQLITE_FULL")
INFINITE = 1.7976931348623157e308  # how MLflow stores what is infinite

RUNS = """
SELECT runs.run_uuid, runs.name, runs.status, experiments.name FROM runs
LEFT JOIN experiments ON experiments.experiment_id = runs.experiment_id
WHERE runs.lifecycle_stage IS NOT 'deleted' ORDER BY runs.start_time, runs.run_uuid
"""
TAGS = "SELECT key, value FROM tags WHERE run_uuid = ?"
PARAMS = "SELECT key, value FROM params WHERE run_uuid = ?"
POINTS = """
SELECT timestamp, step, key, value, is_nan FROM metrics WHERE run_uuid = ? ORDER BY timestamp, step, key, value
"""


def read_database(path: Path, options: Options) -> list[FoundRun]:
    """Every run that is not deleted, of the experiments that `options` name, or of all. Raises BadSource."""
    with _opened(path) as store:
        experiments = {str(name) for (name,) in store.execute("SELECT name FROM experiments")}
        if missing := set(options.experiments) - experiments:
            raise BadSource(path.name, None, f"There is no experiment {min(missing)}.")
        runs: list[FoundRun] = []
        for run_id, name, status, experiment in store.execute(RUNS):
            if options.experiments and experiment not in options.experiments:
                continue
            if len(runs) == MAX_RUNS:
                raise BadSource(path.name, None, f"There are more than {MAX_RUNS:,} runs: name experiments.")
            found = _run_in_store(store, path, str(run_id), (name or "", experiment or "", status or ""))
            runs.append(found.found(options))
    if not runs:
        raise BadSource(path.name, None, "There is no run of MLflow in this database.")
    return runs


def _run_in_store(
    store: sqlite3.Connection, path: Path, run_id: str, said: tuple[Any, Any, Any]
) -> MlflowRun:
    name, experiment, status = map(str, said)
    tags, params = (
        {str(key): str(value) for key, value in store.execute(query, [run_id])} for query in (TAGS, PARAMS)
    )
    keys = store.execute("SELECT DISTINCT key FROM metrics WHERE run_uuid = ? ORDER BY key", [run_id])
    names = [str(key) for (key,) in keys.fetchmany(MAX_METRICS + 1)]
    place = f"{path.name}, run {run_id}"
    return MlflowRun(
        place=place,
        run_id=run_id,
        name=name,
        experiment=experiment,
        status=status,
        params=params,
        tags=tags,
        metric_names=names,
        histories=lambda: [_points(path, run_id, place)],
    )


def _points(path: Path, run_id: str, place: str) -> Iterator[Point]:
    """Raises BadSource."""
    with _opened(path) as store:
        for moment, step, key, value, is_nan in store.execute(POINTS, [run_id]):
            try:
                number = float("nan") if is_nan else float(value)
                number = number if abs(number) < INFINITE else float("nan")  # neither is kept
                yield Point(int(moment), int(step), str(key), number)
            except (TypeError, ValueError, OverflowError):
                raise BadSource(
                    place, None, f"The history of {str(key)[:100]} has a point that is none."
                ) from None


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Read alone; what the file says of itself is not trusted. Raises BadSource."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)) as store:
            store.text_factory = lambda text: text.decode(errors="replace")
            store.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT)
            store.execute("PRAGMA trusted_schema = OFF")
            _check_tables(store, path)
            yield store
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "") in NO_ROOM:
            raise BadSource(path.name, None, "It takes more room to sort than a reader may have.") from None
        raise BadSource(path.name, None, f"This database cannot be read: {error}.") from None


def _check_tables(store: sqlite3.Connection, path: Path) -> None:
    found: dict[Any, Any] = dict(store.execute("SELECT name, type FROM sqlite_master"))
    missing = [name for name in TABLES if found.get(name) != "table"]
    if missing:
        raise BadSource(path.name, None, f"This is no store of MLflow: it has no table {missing[0]}.")
