import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scaling.cli import main
from scaling.simulate import rewards

KEYS = [
    "form",
    "method",
    "status",
    "message",
    "params",
    "level",
    "intervals",
    "sse",
    "r2",
    "n",
    "window",
    "predictions",
    "forecast",
]


def write(path: Path, *, times: float = 6.0, header: str = "compute,reward") -> Path:
    compute = np.linspace(2.0 * times, 100.0 * times, 50)
    rng = np.random.default_rng(0)
    reward = rewards(compute, r0=0.1, a=0.6, b=1.9, c_mid=100.0, sd=0.01, rng=rng)
    lines = [f"{c},{r}" for c, r in zip(compute, reward, strict=True)]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def fit_json(capsys, *argv: str) -> dict:
    assert main(["fit", *argv, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_json_has_the_fixed_keys(tmp_path, capsys) -> None:
    payload = fit_json(capsys, str(write(tmp_path / "a.csv")), "--predict", "900", "--predict", "1e4")

    assert list(payload) == [*KEYS, "forecasts"]
    assert (payload["form"], payload["method"], payload["status"]) == ("sigmoid", "fast", "ok")
    assert list(payload["params"]) == list(payload["intervals"]) == ["R0", "A", "B", "C_mid"]
    assert [p["compute"] for p in payload["predictions"]] == [900.0, 10000.0]
    for p in payload["predictions"]:
        assert p["interval"][0] <= p["value"] <= p["interval"][1]
    assert [p["compute"] for p in payload["forecasts"]] == [900.0, 10000.0]
    for p in payload["forecasts"]:
        assert p["interval"][0] <= p["value"] <= p["interval"][1]
    ahead = payload["forecast"]
    assert ahead["interval"][0] <= ahead["ceiling"] <= ahead["interval"][1]


def test_the_forecast_comes_without_a_compute_to_forecast_at(tmp_path, capsys) -> None:
    payload = fit_json(capsys, str(write(tmp_path / "a.csv")))

    assert list(payload) == KEYS
    assert payload["forecast"]["status"] in ("ok", "not_identified")


def test_an_unbent_curve_has_an_open_interval_and_says_so(tmp_path, capsys) -> None:
    payload = fit_json(capsys, str(write(tmp_path / "a.csv", times=0.6)))

    assert payload["status"] == "not_identified"
    assert payload["intervals"]["A"][1] is None
    assert payload["message"].startswith("not identified: A is at least 0.")


def test_the_table_shows_no_ceiling_that_is_not_known(tmp_path, capsys) -> None:
    path = str(write(tmp_path / "a.csv", times=0.8))
    a = f"{fit_json(capsys, path)['params']['A']:.3g}"
    assert 0.1 < float(a) < 1.0

    assert main(["fit", path]) == 0
    text = capsys.readouterr().out

    assert "A           not known   at least 0." in text
    assert a not in text
    assert "compute without bound: not known   0." in text and "the tail is not known yet" in text


def test_a_failed_fit_is_all_null(tmp_path, capsys) -> None:
    path = tmp_path / "flat.csv"
    path.write_text("compute,reward\n" + "".join(f"{c},0.4\n" for c in range(1, 9)))

    payload = fit_json(capsys, str(path), "--predict", "20")

    assert payload["status"] == "failed" and payload["message"]
    assert payload["params"] is None and payload["sse"] is None
    assert payload["intervals"]["A"] == [None, None]
    assert payload["predictions"] == [{"compute": 20.0, "value": None, "interval": [None, None]}]
    assert main(["fit", str(path), "--predict", "20"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"status   failed: {payload['message']}",
        f"no forecast: {payload['forecast']['message']}",
    ]


def test_options_reach_the_fit(tmp_path, capsys) -> None:
    path = str(write(tmp_path / "a.csv", header="hours,pass"))
    columns = ("--compute", "hours", "--reward", "pass")

    payload = fit_json(
        capsys, path, *columns, "--window", "50:", "--until", "400", "--r0", "0.1", "--level", "0.8"
    )

    assert payload["window"][0] >= 50 and payload["window"][1] <= 400
    assert payload["params"]["R0"] == 0.1 and payload["intervals"]["R0"] == [0.1, 0.1]
    assert payload["level"] == 0.8
    assert fit_json(capsys, path, *columns, "--window", ":500", "--r0", "free")["window"][1] <= 500
    assert fit_json(capsys, path, *columns, "--form", "logistic")["form"] == "logistic"


@pytest.mark.parametrize(
    "text, reason",
    [
        ("compute,reward\n1,0.1\n2,abc\n", "row 2 (line 3): reward 'abc' is not a number"),
        ("compute,reward\n1,0.1\n\n2,nan\n", "row 2 (line 4): reward is nan, not a finite number"),
        ("compute,reward\n1,0.1\n2,inf\n", "row 2 (line 3): reward is inf"),
        ("compute,reward\n1,0.1\n2\n", "row 2 (line 3): reward is missing"),
        ("compute,reward\n0,0.1\n" + "1,0.2\n" * 5, "row 1 (line 2): compute 0 is not above zero"),
        ("compute,reward\n" + "1,0.2\n" * 5 + "-3,0.2\n", "row 6 (line 7): compute -3 is not above zero"),
        ("compute,reward\n" + "1,0.2\n" * 5 + "3,1.2\n", "row 6 (line 7): reward 1.2 is not between"),
        ("compute,reward\n1,0.1\n2,0.2\n3,0.3\n", "only 3 points: at least 5 are needed"),
        ("hours,reward\n1,0.1\n", "no column 'compute'; the columns are 'hours', 'reward'"),
        ("compute,reward,reward\n1,1,1\n", "more than one column 'reward'"),
        ("", "the file is empty"),
        ("compute,reward\n", "no points: at least 5 are needed"),
    ],
)
def test_bad_files_end_with_status_2_and_one_line(tmp_path, capsys, text, reason) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)

    assert main(["fit", str(path), "--json"]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and f"bad.csv: {reason}" in err


@pytest.mark.parametrize("name, reason", [("none.csv", "No such file"), ("", "Is a directory")])
def test_files_that_cannot_be_read(tmp_path, capsys, name, reason) -> None:
    assert main(["fit", str(tmp_path / name)]) == 2

    err = capsys.readouterr().err
    assert err.count("\n") == 1 and reason in err


def test_bytes_that_are_no_text(tmp_path, capsys) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xff\xfe\x00compute")

    assert main(["fit", str(path)]) == 2
    assert "not a CSV text file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv, reason",
    [
        (["--window", "5"], "'5' is not LO:HI"),
        (["--window", "a:5"], "'a' is not a number"),
        (["--window", "9:5"], "the window 9:5 is empty"),
        (["--until", "-1"], "'-1' is not above zero"),
        (["--until", "0.001"], "no points in the window (50 given)"),
        (["--level", "90"], "'90' is not between 0 and 1"),
        (["--r0", "2"], "neither 'free' nor in [0, 1)"),
        (["--predict", "nan"], "'nan' is not a finite number"),
        (["--form", "cubic"], "invalid choice: 'cubic'"),
        (["--method", "paper", "--form", "power"], "the paper's method fits the sigmoid"),
    ],
)
def test_bad_options_end_with_status_2_and_one_line(tmp_path, capsys, argv, reason) -> None:
    path = str(write(tmp_path / "a.csv"))
    try:
        status = main(["fit", path, *argv])
    except SystemExit as stop:
        status = stop.code

    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.count("\n") == 1 and reason in err


def test_a_reader_that_has_gone_is_no_error(tmp_path) -> None:
    command = [sys.executable, "-m", "scaling", "fit", str(write(tmp_path / "a.csv"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_the_module_runs_and_loads_nothing_heavy(tmp_path) -> None:
    heavy = ("celery", "django", "kaleido", "pandas", "plotly", "pyarrow", "ray", "torch")
    code = f"import sys, scaling.cli; print([m for m in {heavy} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ran = subprocess.run(
        [sys.executable, "-m", "scaling", "fit", str(write(tmp_path / "a.csv"))],
        capture_output=True,
        text=True,
    )

    assert loaded.stdout.strip() == "[]"
    assert ran.returncode == 0 and ran.stdout.startswith("sigmoid fit of 50 points")
