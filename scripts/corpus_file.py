"""Writes scaling/data/corpus/NAME.parquet, by which forecasts are judged, from corpus/NAME: `corpus_file.py [--check]`.

The evaluations of the finished runs. A run stands under the first arm that it belongs to, as `study/arm`.
"""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scaling.calibration import AXES, OWN, PROVENANCE  # noqa: E402
from training.study.corpus import PASS_RATE, Corpus, CorpusRun, read_corpus  # noqa: E402

NAME = "miniature"
FILE = OWN / f"{NAME}.parquet"
SOURCE = (
    f"trained by this project: corpus/{NAME}, whose runs.parquet has each run's recipe, versions and machine"
)
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("task", "run", "recipe")),
        ("seed", pa.int64()),
        *((axis, pa.float64()) for axis in AXES),
        ("reward", pa.float64()),
    ],
    metadata=dict(zip(PROVENANCE, (SOURCE, "Apache-2.0"), strict=True)),
)


def table(corpus: Corpus) -> pa.Table:
    """A row for each evaluation of the runs that succeeded."""
    done = [run for run in corpus.runs.values() if run.state == "succeeded" and run.places]
    rows = [row for run in sorted(done, key=_name) for row in _rows(corpus, run)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _name(run: CorpusRun) -> str:
    return f"{run.places[0].study}/{run.places[0].arm} seed {run.seed}"


def _rows(corpus: Corpus, run: CorpusRun) -> list[dict]:
    points = corpus.points(run.id).of(PASS_RATE)
    named = {"task": run.task, "run": _name(run), "recipe": _name(run).split(" seed ")[0], "seed": run.seed}
    return [
        named | {axis: getattr(points, axis)[k] for axis in AXES} | {"reward": points.value[k]}
        for k in range(len(points.value))
    ]


def main() -> int:
    """Status 1 with --check where the file is not what would be written."""
    made = table(read_corpus(ROOT / "corpus" / NAME))
    if "--check" in sys.argv[1:]:
        return int(not (FILE.exists() and pq.read_table(FILE).equals(made, check_metadata=True)))
    pq.write_table(made, FILE, compression="zstd")
    return 0


if __name__ == "__main__":
    sys.exit(main())
