"""The program that holds forecasts of real runs against what came."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.validate_real import OWN, Said, judge, last_five, main, read, table
from scaling.table import TableError


def csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def rows(n: int, run: str = "a") -> str:
    return "".join(f"{run},{k},{0.1 + k / 100:.4f}\n" for k in range(1, n + 1))


def test_a_run_is_judged_by_the_mean_of_its_last_eighth(tmp_path) -> None:
    (curve,) = read(csv(tmp_path / "runs.csv", "run,compute,reward\n" + rows(32)), "tokens")

    at, came = curve.end

    assert (at, came) == pytest.approx((30.5, curve.reward[-4:].mean()))
    seen = []
    judge([curve], {"spy": lambda compute, reward, at: seen.append((len(compute), at))})
    assert seen == [(12, 30.5), (16, 30.5), (24, 30.5)]


def test_numbers_of_the_table_are_those_of_the_definitions(tmp_path) -> None:
    curves = read(csv(tmp_path / "runs.csv", "run,compute,reward\n" + rows(32) + rows(40, "b")), "tokens")

    def shifted(by: float):
        return lambda compute, reward, at: Said(0.1 + at / 100 + by, ((0.0, 1.0), (0.9, 1.0)))

    text = table("All", judge(curves, {"high": shifted(0.02), "none": lambda *_: None}))

    assert "| 50 % | high | 2 | 0 | 0.0200 | +0.0200 | 100 % | 0 % | 1.0000 |" in text
    assert "| 50 % | none | 2 | 2 | - | - | - | - | - |" in text


def test_the_last_five_have_their_t_interval() -> None:
    reward = np.r_[0.9, 0.5, 0.52, 0.48, 0.51, 0.49]
    said = last_five(np.arange(6.0), reward, 9.0)

    assert said.value == pytest.approx(0.5)
    (lo, hi), _ = said.intervals
    assert hi - lo == pytest.approx(2 * 2.131847 * reward[1:].std(ddof=1) / 5**0.5)


def test_the_corpus_that_travels_along_can_be_read() -> None:
    curves = read(OWN, "tokens")

    assert {curve.run for curve in curves if curve.source == "qwen25"} == {
        f"Qwen2.5 {size}" for size in ("0.5B", "1.5B", "3B", "7B", "14B", "32B", "72B")
    }
    assert all((np.diff(curve.compute) >= 0).all() and len(curve.compute) >= 30 for curve in curves)


def test_the_program_writes_its_tables(tmp_path, capsys) -> None:
    text = (
        "run,task,compute,reward\n"
        + rows(32).replace("a,", "a,sums,")
        + rows(40, "b").replace("b,", "b,words,")
    )

    assert main(["--corpus", str(csv(tmp_path / "mine.csv", text))]) == 0

    out = capsys.readouterr().out
    assert "## mine, sums" in out and "## mine, words" in out and "## All 2 runs" in out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run,compute\na,1\n", "there is no column 'reward'"),
        ("run,compute,reward\na,1,x\n", "row 1: compute or reward is not a number"),
        ("run,compute,reward\na,0,0.5\n", "run a: point 0: compute 0 is not above zero"),
        ("run,compute,reward\na,1,1.5\n", "run a: point 0: reward 1.5 is not between 0 and 1"),
        ("run,compute,reward\n", "no rows"),
    ],
)
def test_bad_files_end_in_one_line(tmp_path, capsys, text: str, words: str) -> None:
    path = csv(tmp_path / "bad.csv", text)

    assert main(["--corpus", str(path)]) == 2

    err = capsys.readouterr().err
    assert str(path) in err and words in err and err.count("\n") == 1
    with pytest.raises(TableError):
        read(path, "tokens")


def test_a_folder_without_runs_and_a_missing_file_are_said_to_be_so(tmp_path, capsys) -> None:
    assert main(["--corpus", str(tmp_path)]) == 2
    assert main(["--corpus", str(tmp_path / "none.csv")]) == 2

    assert "no .csv and no .parquet file in it" in (err := capsys.readouterr().err) and "No such file" in err
