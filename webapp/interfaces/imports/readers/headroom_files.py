"""What Headroom gave out itself: a run's journal (metrics.jsonl), or the CSV of its curve."""

from dataclasses import replace
from pathlib import Path

from webapp.interfaces.imports.readers import table
from webapp.interfaces.imports.readers.csv_file import CsvTable
from webapp.interfaces.imports.readers.jsonl_files import read_journal
from webapp.interfaces.imports.readers.rows import COMPUTE, BadSource, FoundRun, Options

CURVE = ("compute", "reward", "stderr", "step", "attempt", *COMPUTE)
COLUMNS = {
    "step": "step",
    "pass_rate": "reward",
    "pass_rate_stderr": "stderr",
    **{name: name for name in COMPUTE},
}


def read(path: Path | str, options: Options) -> list[FoundRun]:
    """Raises BadSource."""
    file = Path(path)
    if file.is_dir() or file.suffix == ".jsonl":
        return read_journal(file, options)
    source = CsvTable(file)
    missing = [name for name in CURVE if name not in source.columns]
    if missing:
        raise BadSource(source.file, 1, f"This is no curve of Headroom: it has no column {missing[0]}.")
    options = replace(options, columns=COLUMNS, per_row=())
    return table.found_runs(source, options, hidden=("compute", "attempt"))
