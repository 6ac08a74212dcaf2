"""The program that leaves each value of an axis out."""

from benchmarks.validate_axis import main
from tests.scaling.test_axis import SIZES
from tests.scaling.test_cli_axis import runs


def test_each_run_has_a_line_of_what_the_others_say(tmp_path, capsys) -> None:
    file = runs(tmp_path / "sizes.csv", SIZES[:5])

    assert main(["--corpus", file, "--column", "size"]) == 0

    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| m")]
    assert [line.split(" | ")[0] for line in lines] == [f"| m{size}" for size in SIZES[:5]]
    came, forecast = (float(x) for x in lines[2].split(" | ")[1:3])
    assert abs(came - forecast) < 0.03
    assert main(["--corpus", str(tmp_path / "none.csv")]) == 2
    assert "No such file" in capsys.readouterr().err
