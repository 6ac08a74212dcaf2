"""`python -m scaling axis`."""

import json
from pathlib import Path

import pytest

from scaling.cli import main
from tests.scaling.test_axis import SIZES, run, truth


def runs(path: Path, sizes=SIZES) -> str:
    rows = [f"m{size},{size},{c},{r}" for size in sizes for c, r in zip(*run(size), strict=True)]
    path.write_text("\n".join(["run,size,compute,reward", *rows]) + "\n")
    return str(path)


def test_the_curve_of_an_unseen_size(tmp_path, capsys) -> None:
    file = runs(tmp_path / "a.csv")

    assert (
        main(["axis", file, "--column", "size", "--value", "72", "--at", "72", "--at", "360", "--json"]) == 0
    )

    said = json.loads(capsys.readouterr().out)
    assert (said["runs"], said["values"], [one["compute"] for one in said["forecasts"]]) == (
        6,
        6,
        [72.0, 360.0],
    )
    lo, hi = said["ceiling_interval"]
    assert lo <= truth(72.0)["a"] <= hi
    assert main(["axis", file, "--column", "size", "--value", "72", "--at", "72"]) == 0
    out = capsys.readouterr().out
    assert (
        out.startswith("6 runs at 6 values of size; forecast for 72") and "at 72 " in out and "C_mid" in out
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run,compute,reward\na,1,0.5\n", "no column 'size'"),
        (
            "run,size,compute,reward\na,1,1,0.5\na,2,2,0.5\n",
            "row 2 (line 3): size is 2, and 1 in another row of the same run",
        ),
        ("run,size,compute,reward\na,1,1,0.5\nb,2,2,0.5\n", "2 axis values fit any law"),
        ("run,size,compute,reward\na,x,1,0.5\n", "row 1 (line 2): size 'x' is not a number"),
    ],
)
def test_bad_input_ends_in_one_line(tmp_path, capsys, text: str, words: str) -> None:
    (tmp_path / "a.csv").write_text(text)

    assert main(["axis", str(tmp_path / "a.csv"), "--column", "size", "--value", "3"]) == 2

    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
