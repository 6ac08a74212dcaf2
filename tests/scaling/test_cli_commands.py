"""compare, forecast, plan and simulate on the command line; `fit` has its own file."""

import csv
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import scaling
from scaling import plan
from scaling.cli import main
from scaling.compare import compare
from scaling.course import course_of
from scaling.forecast import rolling
from scaling.ranking import compared
from scaling.scores import late_mean
from scaling.seeds import CORPUS
from scaling.simulate import rewards


def points(*, a=0.6, b=1.9, c_mid=100.0, last=400.0, seed=0):
    compute = np.linspace(last / 50, last, 50)
    rng = np.random.default_rng(seed)
    return compute, rewards(compute, r0=0.1, a=a, b=b, c_mid=c_mid, sd=0.01, rng=rng)


def write(path: Path, compute, reward) -> str:
    lines = [f"{float(c)!r},{float(r)!r}" for c, r in zip(compute, reward, strict=True)]
    path.write_text("\n".join(["compute,reward", *lines]) + "\n")
    return str(path)


@pytest.fixture
def files(tmp_path) -> dict[str, str]:
    return {
        "fast": write(tmp_path / "fast.csv", *points()),
        "high": write(tmp_path / "high.csv", *points(a=0.7, b=1.5, c_mid=200.0, last=800.0, seed=1)),
        "better": write(tmp_path / "better.csv", *points(a=0.75, seed=1)),
        "early": write(tmp_path / "early.csv", *points(last=60.0)),
        "flat": write(tmp_path / "flat.csv", range(1, 9), [0.4] * 8),
    }


def run_json(capsys, *argv: str) -> dict:
    assert main([*argv, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def run_text(capsys, *argv: str) -> str:
    assert main(argv) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def fit_of(file: str):
    with open(file) as lines:
        rows = list(csv.DictReader(lines))
    return scaling.fit([float(r["compute"]) for r in rows], [float(r["reward"]) for r in rows])


# --- compare


def test_compare_gives_both_differences_and_the_papers_rule(files, capsys) -> None:
    payload = run_json(capsys, "compare", files["fast"], files["high"], "--at", "100")

    fast, high = fit_of(files["fast"]), fit_of(files["high"])
    assert list(payload) == ["runs", "level", "seeds_sd", "here", "ceiling", "why", "rule"]
    assert payload["rule"]["winner"] == compare(fast, high).winner == "b"
    found = compared([[course_of(fast)], [course_of(high)]], CORPUS, 100.0)
    for place, said in ((found.here, payload["here"]), (found.ceiling, payload["ceiling"])):
        gap = place.gap(0, 1)
        assert gap is not None
        assert (said["compute"], said["value"], said["lo"], said["hi"], said["real"]) == (
            place.compute, gap.value, gap.lo, gap.hi, gap.real,
        )  # fmt: skip
    assert payload["here"]["value"] > 0 > payload["ceiling"]["value"]  # the curves cross
    course = course_of(fast)
    assert payload["runs"][0]["interval"] == list(course.interval) and payload["runs"][0]["ceiling"] is None


def test_compare_reads_as_sentences(files, capsys) -> None:
    text = run_text(capsys, "compare", files["fast"], files["better"])

    assert "At 400: the second is better, -0.1" in text
    assert "At the forecast ceiling: the second is better, -0.1" in text
    assert "Seeds of one recipe are taken to differ by 0.007" in text
    assert "The paper's rule on A of Eq. 1: b, the second has the higher ceiling" in text


def test_compare_says_why_a_run_is_not_compared(files, capsys) -> None:
    text = run_text(capsys, "compare", files["early"], files["high"])

    assert f"{files['early']}: not compared, seen to less than a quarter of the compute" in text
    assert "is better" not in text and "not known   0." in text and "undecided" in text


def test_compare_with_nothing_forecast_decides_nothing(files, capsys) -> None:
    payload = run_json(capsys, "compare", files["fast"], files["flat"])

    assert payload["here"] is None and payload["ceiling"] is None
    assert payload["rule"]["winner"] == "undecided" and payload["runs"][1]["status"] == "failed"
    text = run_text(capsys, "compare", files["fast"], files["flat"])
    assert text.count(f"{files['flat']}: ") == 1 and "not known   no forecast\n" in text


# --- forecast


def test_forecast_is_what_rolling_gives(files, capsys) -> None:
    payload = run_json(capsys, "forecast", files["fast"], "--fraction", "0.5", "--fraction", "0.05")
    few, half = payload["forecasts"]

    expected = rolling(*points(), (0.5,))[0]
    assert (half["predicted"], half["came"]) == (expected.predicted, expected.came)
    assert half["interval"] == list(expected.interval) and half["coverage"] == expected.coverage
    assert few["status"] == "failed" and few["predicted"] is None and "only 2 points" in few["message"]
    text = run_text(capsys, "forecast", files["fast"], "--fraction", "0.5")
    assert half["sentence"] in text and "of 25 later evaluations inside the 90 % band" in text


def test_forecast_gives_that_of_several_forms_first_for_the_mean_of_the_last_eighth(files, capsys) -> None:
    compute, reward = points()
    at, came, _ = late_mean(compute, reward)
    payload = run_json(capsys, "forecast", files["fast"], "--fraction", "0.5", "--fraction", "0.05")
    few, half = (row["averaged"] for row in payload["forecasts"])

    early = compute <= 0.5 * compute[-1]
    expected = scaling.extrapolate(compute[early], reward[early], [at])
    assert (payload["late_compute"], payload["late_came"]) == (at, came)
    assert half["value"] == expected.value[0] and half["interval"] == [expected.lo[0], expected.hi[0]]
    assert few["value"] is None and "only 2 points" in few["message"]
    first, *rows = run_text(capsys, "forecast", files["fast"], "--fraction", "0.5").splitlines()
    assert first.startswith(f"the mean of the last eighth, {came:.3f}, by several forms averaged")
    assert rows[0] == (
        f"from 50 % of the compute, {expected.value[0]:.3f} [{expected.lo[0]:.3f}, {expected.hi[0]:.3f}]"
    )


def test_a_cutoff_after_a_jump_has_no_forecast_of_several_forms_and_says_why(tmp_path, capsys) -> None:
    reward = [0.3 + 0.001 * k for k in range(10)] + [0.6 + 0.001 * k for k in range(10)]
    file = write(tmp_path / "jumps.csv", range(1, 21), reward)

    text = run_text(capsys, "forecast", file, "--fraction", "0.8")
    assert "from 80 % of the compute, no forecast (the pass rate jumps from" in text


def test_forecast_takes_the_options_of_a_fit(files, capsys) -> None:
    payload = run_json(
        capsys, "forecast", files["fast"], "--until", "200", "--form", "logistic", "--level", "0.8"
    )

    assert (payload["form"], payload["level"], payload["compute"]) == ("logistic", 0.8, 200.0)
    assert len(payload["forecasts"]) == 7


# --- plan


def test_plan_answers_what_was_asked_of_one_run(files, capsys) -> None:
    asked = ("--target", "0.58", "--budget", "900", "--delta", "0.02")
    payload = run_json(capsys, "plan", files["fast"], *asked)
    (run,) = payload["runs"]

    course = course_of(fit_of(files["fast"]))
    compute, interval = plan.compute_to(course, 0.58)
    assert (run["target"]["compute"], run["target"]["interval"]) == (compute, list(interval))
    assert (run["stop"]["left"], *run["stop"]["interval"]) == plan.left(course)
    assert run["stop"]["stop"] is plan.may_stop(course, 0.02)
    assert (run["budget"]["value"], *run["budget"]["interval"]) == course.value_at(900.0)
    assert (run["budget"]["gain"], *run["budget"]["gain_interval"]) == plan.gain(course, 900.0)
    assert payload["choice"] is None
    text = run_text(capsys, "plan", files["fast"], *asked)
    for key in ("target", "budget", "stop"):
        assert run[key]["sentence"] in text


def test_plan_leaves_out_what_was_not_asked(files, capsys) -> None:
    (run,) = run_json(capsys, "plan", files["fast"], "--delta", "0.5")["runs"]

    assert run["target"] is None and run["budget"] is None
    assert run["stop"]["stop"] is True and run["stop"]["sentence"].startswith("stop: ")


def test_plan_of_several_runs_says_which_is_likely_the_best(files, capsys) -> None:
    argv = ["plan", files["fast"], files["high"], files["flat"], "--budget", "2000"]
    payload = run_json(capsys, *argv)

    assert [one["file"] for one in payload["choice"]] == [files["high"], files["fast"], files["flat"]]
    text = run_text(capsys, *argv)
    assert f"{files['high']}: the best at 2000 with probability 0.97\n" in text
    assert payload["choice"][2]["why"] and f"{files['flat']}: {payload['choice'][2]['why']}" in text
    assert text.count(f"{files['flat']}: ") == 1, "why it has no forecast is said once"


def test_plan_names_no_best_where_only_one_can_be_judged(files, capsys) -> None:
    argv = ["plan", files["fast"], files["flat"], "--budget", "2000"]

    assert [one["chance"] for one in run_json(capsys, *argv)["choice"]] == [0.0, 0.0]
    text = run_text(capsys, *argv)
    assert f"{files['fast']}: no other run can be judged there" in text and "the best" not in text


def test_a_plan_for_a_tail_that_is_not_known_is_open_in_json_and_in_words(files, capsys) -> None:
    argv = ("plan", files["early"], "--target", "0.95", "--budget", "5000", "--delta", "0.02")
    (run,) = run_json(capsys, *argv)["runs"]

    assert run["ceiling"] is None and run["interval"][1] - run["interval"][0] > 0.1
    assert run["target"]["interval"][1] is None and run["budget"]["value"] is None
    assert run["stop"]["stop"] is False
    text = run_text(capsys, *argv)
    assert "to never)" in text and "5000 lies beyond what is forecast" in text and "go on: " in text


# --- simulate


SIMULATE = (
    "simulate",
    "--r0",
    "0.1",
    "--A",
    "0.6",
    "--B",
    "1.9",
    "--c-mid",
    "100",
    "--n",
    "40",
    "--seed",
    "3",
)


def test_simulate_prints_points_that_fit_reads_back(tmp_path, capsys) -> None:
    text = run_text(capsys, *SIMULATE, "--to", "800", "--sd", "0.005")
    (tmp_path / "s.csv").write_text(text)

    fitted = run_json(capsys, "fit", str(tmp_path / "s.csv"))

    assert fitted["n"] == 40 and fitted["window"] == [20.0, 800.0]
    lo, hi = fitted["intervals"]["A"]
    assert lo - 0.01 < 0.6 < hi + 0.01
    as_json = run_json(capsys, *SIMULATE, "--to", "800", "--sd", "0.005")
    assert text.splitlines()[1] == f"{as_json['compute'][0]!r},{as_json['reward'][0]!r}"


def test_simulate_is_the_library_and_its_seed_decides(capsys) -> None:
    payload = run_json(capsys, *SIMULATE, "--rho", "0.5", "--sd", "0.02")

    rng = np.random.default_rng(3)
    compute = np.linspace(10.0, 400.0, 40)
    expected = rewards(compute, r0=0.1, a=0.6, b=1.9, c_mid=100.0, sd=0.02, rho=0.5, rng=rng)
    assert payload["compute"] == list(compute) and payload["reward"] == list(expected)
    assert run_json(capsys, *SIMULATE, "--seed", "4")["reward"] != run_json(capsys, *SIMULATE)["reward"]


# --- pictures


@pytest.mark.parametrize("command", ["fit", "compare", "forecast"])
def test_plot_writes_a_page_beside_the_numbers(files, capsys, tmp_path, command) -> None:
    names = [files["fast"], files["early"]] if command == "compare" else [files["fast"]]
    plain = run_text(capsys, command, *names)

    assert run_text(capsys, command, *names, "--plot", str(tmp_path / "p.html")) == plain
    assert "Plotly.newPlot" in (tmp_path / "p.html").read_text()


# --- refusals


@pytest.mark.parametrize(
    "argv, reason",
    [
        (["plan", "{fast}"], "nothing to plan: give --target, --budget or --delta"),
        (["plan", "{fast}", "{fast}", "--budget", "5"], "the same file is given twice"),
        (["compare", "{fast}", "{fast}"], "the same file is given twice"),
        (["plan", "{fast}", "--delta", "0"], "'0' is not above zero"),
        (["plan", "{fast}", "--target", "inf"], "'inf' is not a finite number"),
        (["plan", "{fast}", "{bad}", "--budget", "5"], "bad.csv: row 2 (line 3): reward 'x' is not a number"),
        (["compare", "{fast}", "{bad}"], "bad.csv: row 2 (line 3): reward 'x' is not a number"),
        (["compare", "{fast}", "{high}", "--at", "0"], "'0' is not above zero"),
        (["forecast", "{bad}"], "bad.csv: row 2 (line 3): reward 'x' is not a number"),
        (["forecast", "{below}"], "below.csv: row 3 (line 4): compute -1 is not above zero"),
        (["forecast", "{fast}", "--fraction", "1"], "'1' is not between 0 and 1"),
        (["forecast", "none.csv"], "none.csv: No such file"),
        (["simulate", "--A", "0.1", "--r0", "0.2", "--B", "1", "--c-mid", "1"], "--A 0.1 is below --r0 0.2"),
        (["simulate", "--A", "1.2", "--B", "1", "--c-mid", "1"], "'1.2' is not between 0 and 1"),
        (
            ["simulate", "--A", "1", "--B", "1", "--c-mid", "1", "--n", "0"],
            "'0' is not a whole number above zero",
        ),
        (["simulate", "--A", "1", "--B", "1", "--c-mid", "1", "--seed", "-1"], "'-1' is not a whole number"),
        (["simulate", "--A", "1", "--B", "1"], "required: --c-mid"),
        (["fit", "{fast}", "--plot", "a.pdf"], "a.pdf: a picture is .html or .png"),
        (["fit", "{fast}", "--plot", "no/such/a.html"], "no/such/a.html: No such file"),
        (["fit", "{fast}.parquet"], "fast.csv.parquet: "),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line(files, capsys, tmp_path, argv, reason) -> None:
    (tmp_path / "bad.csv").write_text("compute,reward\n1,0.1\n2,x\n")
    (tmp_path / "below.csv").write_text("compute,reward\n1,0.1\n2,0.2\n-1,0.3\n4,0.4\n5,0.5\n")
    named = {**files, "bad": str(tmp_path / "bad.csv"), "below": str(tmp_path / "below.csv")}
    try:
        status = main([part.format(**named) for part in argv])
    except SystemExit as stop:
        status = stop.code

    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.count("\n") == 1 and reason in err


def test_errors_of_the_evaluations_come_from_a_column_or_from_the_number_of_samples(tmp_path, capsys) -> None:
    compute, reward = points()
    lines = [f"{c!r},{r!r},0.02" for c, r in zip(compute.tolist(), reward.tolist(), strict=True)]
    file = tmp_path / "a.csv"
    file.write_text("\n".join(["compute,reward,se", *lines]))

    widths = []
    for options in ([], ["--stderr", "se"], ["--prompts", "300", "--generations", "4"], ["--prompts", "600"]):
        assert main(["fit", str(file), "--json", *options]) == 0
        lo, hi = json.loads(capsys.readouterr().out)["intervals"]["A"]
        widths.append(hi - lo)
    scatter, column, many, few = widths

    assert column == pytest.approx(2 * scatter, rel=0.35)  # 0.02 against a scatter of 0.01
    assert few == pytest.approx(1.41 * many, rel=0.2)
    assert main(["fit", str(file), "--stderr", "se", "--prompts", "100"]) == 2
    assert "two answers to one question" in capsys.readouterr().err
    assert main(["fit", str(file), "--stderr", "nope"]) == 2
    assert "no column 'nope'" in capsys.readouterr().err


def test_a_crashed_evaluation_is_left_out_and_named(tmp_path, capsys) -> None:
    compute, reward = points()
    reward[30] = 0.0
    file = write(tmp_path / "a.csv", compute, reward)

    assert main(["fit", file, "--robust", "--start", "0.1"]) == 0

    assert "1 left out as outliers, at compute 248" in capsys.readouterr().out


def test_a_png_is_drawn_by_the_machines_chromium(files, capsys, tmp_path) -> None:
    if shutil.which("chromium") is None:
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail("REQUIRE_BROWSER=1, but there is no chromium on the PATH")
        pytest.skip("no chromium on the PATH")

    assert main(["fit", files["fast"], "--plot", str(tmp_path / "a.png")]) == 0

    picture = (tmp_path / "a.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">II", picture[16:24]) == (2000, 1200)


@pytest.mark.parametrize("missing", ["kaleido", "plotly"])
def test_a_picture_whose_library_is_missing_is_refused_before_anything_is_fitted(
    files, tmp_path, missing
) -> None:
    """In a process of its own, in which the library cannot be found."""
    hidden = (
        "import sys, importlib.util as u; find = u.find_spec; "
        f"u.find_spec = lambda name, *rest: None if name == {missing!r} else find(name, *rest); "
        "from scaling.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", hidden, "fit", files["fast"], "--plot", str(tmp_path / "a.png")]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr.count("\n") == 1
        and f"need{'s' if missing == 'kaleido' else ''} {missing}, which is not" in done.stderr
    )
