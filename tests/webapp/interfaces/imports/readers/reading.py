"""What tests of the readers do alike."""

import json
from pathlib import Path
from typing import Any

from webapp.interfaces.imports.readers.kinds import KINDS
from webapp.interfaces.imports.readers.rows import BadSource, FoundRun, Options, Row

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
EXPECTED = json.loads((SAMPLES / "expected.json").read_text())
RENAMED = {"train/completions/clipped_ratio": "train/truncation_rate"}


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(kind: str, source: Path | str, options: Options) -> list[FoundRun]:
    return KINDS[kind].read(source, options)


def runs_of(kind: str, path: Path, **options: Any) -> dict[str, FoundRun]:
    return {run.name: run for run in read(kind, path, Options(**options))}


def rows_of(kind: str, path: Path, **options: Any) -> list[Row]:
    (run,) = read(kind, path, Options(**options))
    return list(run.rows())


def broken(kind: str, path: Path, **options: Any) -> BadSource:
    """What the reader says is wrong, be it of the source or of its rows."""
    try:
        for run in read(kind, path, Options(**options)):
            list(run.rows())
    except BadSource as error:
        return error
    raise AssertionError("nothing is wrong with it")


def ours(metrics: dict[str, float | None]) -> dict[str, float | None]:
    return {RENAMED.get(name, name): value for name, value in metrics.items()}
