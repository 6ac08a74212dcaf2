"""The kinds of sources that can be imported: `read` finds the runs in one, `preview` shows how a table begins."""

from pathlib import Path

from webapp.imports.readers import csv_file, parquet_file
from webapp.imports.readers.rows import FoundRun, Kind, Options, Preview

KINDS: dict[str, Kind] = {  # name, stable: part of addresses and of what is stored
    "csv": Kind("CSV", "file", (".csv", ".tsv", ".csv.gz"), csv_file.read, csv_file.preview),
    "parquet": Kind("Parquet", "file", (".parquet", ".pq"), parquet_file.read, parquet_file.preview),
}


def read(kind: str, source: Path | str, options: Options) -> list[FoundRun]:
    """The runs in `source`: a file, an unpacked folder (see `archives.unpacked`), or the address of a server.

    Raises BadSource for what is not of this kind, KeyError for a kind that is none.
    """
    return KINDS[kind].read(source, options)


def preview(kind: str, path: Path, options: Options) -> Preview:
    """The beginning of a table with a guess of its mapping. Raises BadSource; ValueError for a kind without one."""
    show = KINDS[kind].preview
    if show is None:
        raise ValueError(f"{KINDS[kind].label} needs no mapping")
    return show(path, options)


def guess_kind(path: Path) -> str | None:
    """The only kind that a file's or folder's name and beginning suggest; None where there is none."""
    fitting = [name for name, kind in KINDS.items() if path.name.lower().endswith(kind.endings)]
    return fitting[0] if len(fitting) == 1 else None
