"""What W&B gives out of a run's history: `run.history()` or `run.scan_history()` as CSV or Parquet."""

from dataclasses import replace
from pathlib import Path

from webapp.interfaces.imports.readers import table
from webapp.interfaces.imports.readers.csv_file import CsvTable
from webapp.interfaces.imports.readers.parquet_file import ParquetTable
from webapp.interfaces.imports.readers.rows import BadSource, FoundRun, Options
from webapp.interfaces.imports.readers.wandb_runs import GLOBAL_STEP

OWN = ("_step", "_timestamp", "_runtime")
SAMPLED = "run.history() gives a sample unless it is asked for more; scan_history() gives every row."


def read(path: Path | str, options: Options) -> list[FoundRun]:
    """Raises BadSource where it is none, and where options name no column that it has."""
    source = table_of(Path(path))
    missing = [name for name in OWN if name not in source.columns]
    if missing:
        raise BadSource(source.file, None, f"This is no history of W&B: it has no column {missing[0]}.")
    has_global_step = GLOBAL_STEP in source.columns
    own = {"step": GLOBAL_STEP if has_global_step else "_step", "time": "_timestamp", "elapsed": "_runtime"}
    run = next((name for name in ("run", "run_id", "run_name") if name in source.columns), None)
    named = {"run": run} if run else {}
    options = replace(options, columns={**own, **named, **options.columns})
    source.notes.append(SAMPLED)
    return table.found_runs(source, options, carry_step=has_global_step, hidden=OWN)


def table_of(path: Path) -> CsvTable | ParquetTable:
    """By the first bytes. Raises BadSource."""
    with path.open("rb") as opened:
        is_parquet = opened.read(4) == b"PAR1"
    return ParquetTable(path) if is_parquet else CsvTable(path)
