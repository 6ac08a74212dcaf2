"""MLflow's file store: `mlruns/EXPERIMENT/RUN/` with `meta.yaml`, `metrics/`, `params/` and `tags/`."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from webapp.interfaces.imports.readers import mlflow_database
from webapp.interfaces.imports.readers.building import check_name
from webapp.interfaces.imports.readers.found import broken_run, files_below, inside
from webapp.interfaces.imports.readers.mlflow_runs import MAX_METRICS, MlflowRun, Point
from webapp.interfaces.imports.readers.rows import BadSource, FoundRun, Options

META, DATABASE = "meta.yaml", ".db"
NOT_RUNS = ("artifacts", "models", "traces", "inputs", "outputs", ".trash", "metrics", "params", "tags")
STATUS = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}
MAX_META = 256 * 1024
MAX_VALUE = 64 * 1024  # of a parameter or tag
CHUNK = 16 * 1024  # bytes of each history that are held at a time
MAX_LINE = 4096
TORN = "The last line of a metric is not whole, as after a crash, and left out."


def read(path: Path | str, options: Options) -> list[FoundRun]:
    """Every run that is not deleted, in the experiments below a folder that `options` name, or in all; or in the only
    database there is. Raises BadSource where there is none."""
    root = Path(path)
    if root.is_file():
        return mlflow_database.read(root, options)
    metas = files_below(root, lambda name: name == META, without=NOT_RUNS)
    databases = files_below(root, lambda name: name.endswith(DATABASE), without=NOT_RUNS)
    if not metas and len(databases) == 1:
        return mlflow_database.read(databases[0], options)
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
        raise BadSource(name, None, f"This file is larger than {MAX_META} bytes.")
    try:
        found = yaml.safe_load(meta.read_bytes())
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise BadSource(name, None, "This file is not YAML.") from None
    if not isinstance(found, Mapping):
        raise BadSource(name, None, "This file describes neither a run nor an experiment.")
    return dict(found)


def _run(root: Path, folder: Path, meta: Mapping[str, Any], experiment: str) -> MlflowRun:
    notes: list[str] = []
    metrics = files_below(folder / "metrics", lambda name: True)
    names = {path: path.relative_to(folder / "metrics").as_posix() for path in metrics}
    tags = _texts(folder / "tags")
    return MlflowRun(
        place=inside(root, folder),
        run_id=_word(meta.get("run_id") or meta.get("run_uuid")),
        name=_word(meta.get("run_name")) or tags.get("mlflow.runName", ""),
        experiment=experiment,
        status=_status(meta.get("status")),
        params=_texts(folder / "params"),
        metric_names=list(names.values()),
        histories=partial(_histories, root, names, notes),
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


def _histories(root: Path, names: Mapping[Path, str], notes: list[str]) -> list[Iterator[Point]]:
    if len(names) > MAX_METRICS:
        folder = inside(root, next(iter(names)).parent)
        raise BadSource(folder, None, f"There are more than {MAX_METRICS} metrics.")
    for path, name in names.items():
        check_name(inside(root, path), None, name)
    return [_history(path, inside(root, path), name, notes) for path, name in names.items()]


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
            raise BadSource(file, number + 1, f"This line is longer than {MAX_LINE} bytes.")
    if rest:
        yield rest
