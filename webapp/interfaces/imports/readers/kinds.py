"""The kinds of sources that can be imported."""

import json
from collections.abc import Callable
from pathlib import Path

from webapp.interfaces.imports.readers import (
    event_files,
    headroom_files,
    jsonl_files,
    mlflow_files,
    mlflow_server,
    neptune_files,
    table,
    wandb_runs,
)
from webapp.interfaces.imports.readers.framing import WANDB_HEADER
from webapp.interfaces.imports.readers.rows import (
    MAX_LINE,
    BadSource,
    Options,
    Preview,
    SourceKind,
    files_below,
)
from webapp.interfaces.imports.readers.table_files import (
    HISTORY,
    CsvTable,
    ParquetTable,
    csv_table,
    read_history,
)


def _tables(label: str, endings: tuple[str, ...], opened: Callable[[Path], table.Table]) -> SourceKind:
    return SourceKind(
        label,
        "file",
        endings,
        lambda path, options: table.found_runs(opened(path), options),
        lambda path, options: table.preview(opened(path), options),
    )


KINDS: dict[str, SourceKind] = {  # name, stable: part of addresses and of what is stored
    "csv": _tables("CSV", (".csv", ".tsv", ".txt"), csv_table),
    "parquet": _tables("Parquet", (".parquet",), ParquetTable),
    "wandb": SourceKind("W&B run folders", "folder", (".wandb",), wandb_runs.read),
    "wandb-history": SourceKind("W&B history export", "file", (".csv", ".parquet"), read_history),
    "mlflow": SourceKind(
        "MLflow store (mlflow.db, mlruns)", "folder", (mlflow_files.DATABASE,), mlflow_files.read
    ),
    "mlflow-server": SourceKind("MLflow server", "address", (), mlflow_server.read, in_place=True),
    "tensorboard": SourceKind("TensorBoard event files", "folder", (), event_files.read),
    "verl": SourceKind("verl's file logger", "file", (".jsonl",), jsonl_files.read_verl),
    "prime-rl": SourceKind("prime-rl's metrics.jsonl", "file", (".jsonl",), jsonl_files.read_prime_rl),
    "neptune": SourceKind("Neptune export", "folder", (".parquet",), neptune_files.read),
    "headroom": SourceKind(
        "Headroom's journal or export", "file", headroom_files.ENDINGS, headroom_files.read
    ),
}


def preview(kind: str, path: Path, options: Options) -> Preview:
    """The beginning of a table with a guess of its mapping. Raises BadSource; ValueError for a kind without one."""
    show = KINDS[kind].preview
    if show is None:
        raise ValueError(f"{KINDS[kind].label} needs no mapping")
    return show(path, options)


def guess_kind(path: Path) -> str | None:
    """The only kind that a file's, or a folder's, names and beginnings suggest; None where there is none."""
    if path.is_file():
        return _of_file(path)
    kinds = {kind for file in files_below(path, _tells_something) if (kind := _of_file(file))}
    if files_below(path, lambda name: name == mlflow_files.META) and not kinds - {"csv", "mlflow"}:
        return "mlflow"
    return kinds.pop() if len(kinds) == 1 else None


def _tells_something(name: str) -> bool:
    return "tfevents" in name or name.endswith((".wandb", ".parquet", ".jsonl", ".csv", ".tsv", ".db"))


def _of_file(path: Path) -> str | None:
    if "tfevents" in path.name:
        return "tensorboard"
    with path.open("rb") as opened:
        begin = opened.read(max(len(WANDB_HEADER), len(mlflow_files.HEADER)))
        if begin.startswith(WANDB_HEADER):
            return "wandb"
        if begin == mlflow_files.HEADER:
            return "mlflow"
        if begin.startswith(b"PAR1"):
            return _of_columns(ParquetTable, path, "parquet")
        opened.seek(0)
        line = opened.readline(MAX_LINE)
    if path.suffix == ".jsonl" or line.startswith(b"{"):
        return _of_object(line)
    return _of_columns(CsvTable, path, "csv") if path.suffix in KINDS["csv"].endings else None


def _of_object(line: bytes) -> str | None:
    try:
        item = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(item, dict):
        return None
    if headroom_files.is_own(tuple(item)) or (isinstance(item.get("metrics"), dict) and "compute" in item):
        return "headroom"
    if "step" not in item:
        return None
    if isinstance(item.get("data"), dict):
        return "verl"
    return "prime-rl" if "time" in item else None


def _of_columns(opened: Callable[[Path], table.Table], path: Path, otherwise: str) -> str | None:
    try:
        columns = opened(path).columns
    except BadSource:
        return None
    if set(neptune_files.NEEDED) <= set(columns) and otherwise == "parquet":
        return "neptune"
    if headroom_files.is_own(columns):
        return "headroom"
    if set(HISTORY) <= set(columns):
        return "wandb-history"
    return otherwise if columns else None
