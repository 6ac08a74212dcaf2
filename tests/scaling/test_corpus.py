"""Files of finished runs: who is who, what is refused, and the corpus that travels along."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scaling.calibration import OWN, provenance, read
from scaling.noise import MIN_FOR_DIPS, problem
from scaling.points import prepare
from scaling.table import TableError

ROOT = Path(__file__).resolve().parents[2]


def csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def parquet(path: Path, columns: dict, **metadata: str) -> Path:
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)
    return path


def test_runs_are_told_apart_by_task_name_recipe_and_seed(tmp_path) -> None:
    text = "run,task,recipe,seed,compute,reward\na,t,r,0,2,0.4\na,t,r,1,2,0.3\na,t,r,0,1,0.2\na,u,r,0,1,0.1\n"

    curves = read(csv(tmp_path / "mine.csv", text))

    assert [(one.task, one.run, one.recipe, one.seed) for one in curves] == [
        ("t", "a", "r", "0"),
        ("t", "a", "r", "1"),
        ("u", "a", "r", "0"),
    ]
    assert (curves[0].compute.tolist(), curves[0].reward.tolist()) == ([1.0, 2.0], [0.2, 0.4])


def test_without_a_task_the_file_is_one(tmp_path) -> None:
    (curve,) = read(csv(tmp_path / "mine.csv", "run,compute,reward\na,1,0.2\n"))

    assert (curve.source, curve.task, curve.recipe, curve.seed) == ("mine", "mine", "", "")


def test_a_run_comes_on_the_axis_asked_for_or_on_the_first_that_it_has(tmp_path) -> None:
    columns = {
        "run": ["a", "a", "a", "b"],
        "reward": [0.1, 0.2, 0.3, 0.4],
        "tokens": [0.0, 5.0, 6.0, None],
        "flops": [0.0, 50.0, 60.0, 70.0],
    }
    file = parquet(tmp_path / "c.parquet", columns, source="here", licence="CC0")

    tokens, flops = read(file), read(file, "flops")

    assert [one.compute.tolist() for one in tokens] == [[5.0, 6.0], [70.0]]  # not the start, at compute 0
    assert [one.compute.tolist() for one in flops] == [[50.0, 60.0], [70.0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run,compute\na,1\n", "no column 'reward'; the columns are 'run', 'compute'"),
        ("run,compute,reward\na,1,x\n", "row 1 (line 2): reward 'x' is not a number"),
        ("run,compute,reward\na,1,0.5\n\na,0,0.5\n", "row 2 (line 4): compute 0 is not above zero"),
        ("run,compute,reward\na,1,1.5\n", "row 1 (line 2): reward 1.5 is not between 0 and 1"),
        ("run,compute,reward\n,1,0.5\n", "row 1 (line 2): run is missing"),
        ("run,compute,reward\na,,0.5\n", "row 1 (line 2): compute is missing"),
        ("run,compute,reward\n", "no rows"),
        ("", "the file is empty"),
    ],
)
def test_bad_files_are_refused_with_file_row_and_reason(tmp_path, text: str, words: str) -> None:
    path = csv(tmp_path / "bad.csv", text)

    with pytest.raises(TableError) as refused:
        read(path)

    assert str(refused.value) == f"{path}: {words}"


def test_parquet_without_provenance_or_compute_is_refused(tmp_path) -> None:
    columns = {"run": ["a"], "reward": [0.1], "tokens": [1.0]}

    with pytest.raises(TableError, match="no provenance: the metadata name no 'licence'$"):
        read(parquet(tmp_path / "c.parquet", columns, source="here"))
    with pytest.raises(TableError, match="no column of compute: one of tokens, device_hours, flops$"):
        read(parquet(tmp_path / "d.parquet", {"run": ["a"], "reward": [0.1]}, source="here", licence="CC0"))


def test_a_folder_without_runs_and_a_missing_file_are_said_to_be_so(tmp_path) -> None:
    with pytest.raises(TableError, match="no .csv and no .parquet file in it$"):
        read(tmp_path)
    with pytest.raises(TableError, match="none.csv: No such file"):
        read(tmp_path / "none.csv")


def test_the_corpus_that_travels_along_can_be_read_and_says_where_it_is_from() -> None:
    curves = read(OWN)

    assert {curve.run for curve in curves if curve.source == "qwen25"} == {
        f"Qwen2.5 {size}" for size in ("0.5B", "1.5B", "3B", "7B", "14B", "32B", "72B")
    }
    assert sum(curve.source == "miniature" for curve in curves) >= 14
    assert all((np.diff(curve.compute) >= 0).all() and len(curve.compute) >= 30 for curve in curves)
    readme = (OWN / "README.md").read_text()
    for file in OWN.glob("*.parquet"):
        assert all(provenance(file).values()) and f"`{file.name}`" in readme


def test_the_miniature_is_what_its_runs_say() -> None:
    """Else run scripts/corpus_file.py."""
    done = subprocess.run([sys.executable, "scripts/corpus_file.py", "--check"], cwd=ROOT, timeout=120)

    assert done.returncode == 0


def test_of_the_corpus_only_the_runs_that_collapse_are_ever_said_to_fall() -> None:
    def falls(compute: np.ndarray, reward: np.ndarray) -> bool:
        counts = range(MIN_FOR_DIPS, len(reward) + 1)
        return any("falls" in problem(prepare(compute[:n], reward[:n])) for n in counts)

    runs = read(OWN / "miniature.parquet")

    assert {one.recipe for one in runs if falls(one.compute, one.reward)} == {"size/3M"}
