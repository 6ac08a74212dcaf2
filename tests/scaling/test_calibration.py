"""What forecasts of finished runs would have been worth, by both programs that say so."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.validate_real import main as validate_real
from scaling import extrapolate
from scaling.calibration import LEVELS, IntervalForecast, forecast, judge, mean_of_last, read, rows
from scaling.cli import main
from scaling.cli.calibrate import table


def csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def lines(n: int, run: str = "a") -> str:
    return "".join(f"{run},{k},{0.1 + k / 100:.4f}\n" for k in range(1, n + 1))


def test_a_run_is_judged_by_the_mean_of_its_last_eighth(tmp_path) -> None:
    (curve,) = read(csv(tmp_path / "runs.csv", "run,compute,reward\n" + lines(32)))

    at, came = curve.end

    assert (at, came) == pytest.approx((30.5, curve.reward[-4:].mean()))
    seen = []
    judge([curve], {"spy": lambda early, at: seen.append((len(early.compute), at))})
    assert seen == [(12, 30.5), (16, 30.5), (24, 30.5)]


def test_numbers_of_the_table_are_those_of_the_definitions(tmp_path) -> None:
    curves = read(csv(tmp_path / "runs.csv", "run,compute,reward\n" + lines(32) + lines(40, "b")))

    def shifted(by: float):
        return lambda _, at: IntervalForecast(0.1 + at / 100 + by, ((0.0, 1.0), (0.9, 1.0)))

    text = table("All", rows(judge(curves, {"high": shifted(0.02), "none": lambda *_: None})))

    assert "| 50 % | high | 2 | 0 | 0.0200 | +0.0200 | 100 % (22 to 100) | 0 % (0 to 78) | 1.0000 |" in text
    assert "| 50 % | none | 2 | 2 | - | - | - | - | - |" in text


def test_the_last_five_have_their_t_interval() -> None:
    reward = np.r_[0.9, 0.5, 0.52, 0.48, 0.51, 0.49]
    said = mean_of_last(reward, LEVELS)

    assert said.value == pytest.approx(0.5)
    (lo, hi), _ = said.intervals
    assert hi - lo == pytest.approx(2 * 2.131847 * reward[1:].std(ddof=1) / 5**0.5)


def test_runs_without_a_forecast_are_named_with_the_reason(tmp_path, capsys) -> None:
    level = "".join(f"flat,{k},0.4\n" for k in range(1, 31))
    short = "".join(f"short,{k},0.{k}\n" for k in range(1, 9))
    file = str(csv(tmp_path / "runs.csv", "run,compute,reward\n" + lines(32) + level + short))

    assert main(["calibrate", file]) == 0

    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("- ")]
    assert told == [
        "- flat has no forecast from 37.5 %, 50 %, 75 %: "
        "all evaluations have the pass rate 0.4: nothing shows when, or whether, it rises",
        "- short has no forecast from 37.5 %: only 3 evaluations before the cut: at least 5 are needed",
        "- short has no forecast from 50 %: only 4 evaluations before the cut: at least 5 are needed",
    ]


TWO_TASKS = (
    "run,task,compute,reward\n"
    + lines(32).replace("a,", "a,sums,")
    + lines(40, "b").replace("b,", "b,words,")
)


def test_both_programs_write_the_same_tables(tmp_path, capsys) -> None:
    file = str(csv(tmp_path / "mine.csv", TWO_TASKS))

    assert main(["calibrate", file]) == 0
    out = capsys.readouterr().out
    assert validate_real(["--corpus", file]) == 0

    assert capsys.readouterr().out == out
    assert "## mine, sums" in out and "## mine, words" in out and "## All 2 runs" in out


def test_the_tables_as_json(tmp_path, capsys) -> None:
    assert main(["calibrate", "--json", str(csv(tmp_path / "mine.csv", TWO_TASKS))]) == 0

    found = json.loads(capsys.readouterr().out)
    assert [one["title"] for one in found["tables"]] == ["mine, sums", "mine, words", "All 2 runs"]
    first = found["tables"][-1]["rows"][0]
    assert (first["cut"], first["method"], first["runs"], first["without"]) == (0.375, "forecast", 2, 0)
    assert len(first["inside"]) == len(found["levels"]) and first["rmse"] >= abs(first["bias"])


def test_tokens_beside_another_compute_are_what_the_forecast_goes_by(tmp_path) -> None:
    rows_of = "".join(f"a,{k + min(k, 10)},{0.1 + k / 100:.4f},{1000 * k}\n" for k in range(1, 33))
    (curve,) = read(csv(tmp_path / "a.csv", "run,compute,reward,tokens\n" + rows_of))
    gap = rows_of.replace(",7000\n", ",\n")
    (unknown,) = read(csv(tmp_path / "b.csv", "run,compute,reward,tokens\n" + gap))

    early = curve.until(0.5)
    at = 2.0 * early.compute[-1]
    assert early.work is not None and unknown.work is None
    by_tokens = extrapolate(early.work, early.reward, [2.0 * early.work[-1]]).value[0]
    assert forecast(early, at).value == pytest.approx(by_tokens)


def test_too_few_evaluations_are_a_run_without_a_forecast(tmp_path) -> None:
    found = rows(judge(read(csv(tmp_path / "a.csv", "run,compute,reward\n" + lines(12)))))

    assert [(one.cut, one.method, one.without) for one in found[:2]] == [
        (0.375, "forecast", 1),
        (0.375, "Eq. 1", 1),
    ]
    assert found[0].rmse is None and found[-1].without == 0


def test_what_cannot_be_read_ends_in_one_line(tmp_path, capsys) -> None:
    file = str(csv(tmp_path / "bad.csv", "run,compute,reward\na,1,0.5\na,2,x\n"))

    for program, arguments in ((main, ["calibrate", file]), (validate_real, ["--corpus", file])):
        assert program(arguments) == 2
        err = capsys.readouterr().err
        assert f"{file}: row 2 (line 3): reward 'x' is not a number" in err and err.count("\n") == 1
