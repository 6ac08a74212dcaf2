"""MLflow's store in a SQLite file, which is its default (`mlflow.db`), or what `headroom import` copied out of another
database."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from webapp.interfaces.imports.readers.building import check_name
from webapp.interfaces.imports.readers.mlflow_runs import MAX_METRICS, MlflowRun, Point
from webapp.interfaces.imports.readers.rows import BadSource, FoundRun, Options

HEADER = b"SQLite format 3\0"
TABLES = ("experiments", "runs", "metrics", "params", "tags")
MAX_RUNS = 10_000
MAX_VALUE = 1024 * 1024  # bytes of one text
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


def read(path: Path, options: Options) -> list[FoundRun]:
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
                raise BadSource(path.name, None, f"There are more than {MAX_RUNS} runs: name experiments.")
            runs.append(
                _run(store, path, str(run_id), name or "", experiment or "", status or "").found(options)
            )
    if not runs:
        raise BadSource(path.name, None, "There is no run of MLflow in this database.")
    return runs


def _run(
    store: sqlite3.Connection, path: Path, run_id: str, name: str, experiment: str, status: str
) -> MlflowRun:
    tags, params = (
        {str(key): str(value) for key, value in store.execute(query, [run_id])} for query in (TAGS, PARAMS)
    )
    keys = store.execute("SELECT DISTINCT key FROM metrics WHERE run_uuid = ? ORDER BY key", [run_id])
    names = [str(key) for (key,) in keys.fetchmany(MAX_METRICS + 1)]
    return MlflowRun(
        place=f"{path.name}, run {run_id}",
        run_id=run_id,
        name=str(name) or tags.get("mlflow.runName", ""),
        experiment=str(experiment),
        status=str(status),
        params=params,
        metric_names=names,
        histories=partial(_histories, path, run_id, names),
    )


def _histories(path: Path, run_id: str, names: Sequence[str]) -> list[Iterator[Point]]:
    place = f"{path.name}, run {run_id}"
    if len(names) > MAX_METRICS:
        raise BadSource(place, None, f"There are more than {MAX_METRICS} metrics.")
    for name in names:
        check_name(place, None, name)
    return [_points(path, run_id, place)]


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
            store.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
            store.execute("PRAGMA trusted_schema = OFF")
            _check_tables(store, path)
            yield store
    except sqlite3.Error as error:
        raise BadSource(path.name, None, f"This database cannot be read: {error}.") from None


def _check_tables(store: sqlite3.Connection, path: Path) -> None:
    found: dict[Any, Any] = dict(store.execute("SELECT name, type FROM sqlite_master"))
    missing = [name for name in TABLES if found.get(name) != "table"]
    if missing:
        raise BadSource(path.name, None, f"This is no store of MLflow: it has no table {missing[0]}.")
