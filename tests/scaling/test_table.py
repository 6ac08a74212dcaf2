import sys
from pathlib import Path

import pytest

from scaling.table import TableError, read_points


def read(path: Path):
    return read_points(path, compute="compute", reward="reward")


def parquet(path: Path, columns: dict) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    pq.write_table(pyarrow.table(columns), path)
    return path


def test_a_csv_gives_its_columns_and_the_names_of_its_rows(tmp_path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("other, reward,compute\nx,0.1,1\n\ny,0.2,2e3\n")

    table = read(path)

    assert (table.compute, table.reward) == ([1.0, 2000.0], [0.1, 0.2])
    assert table.rows == ["row 1 (line 2)", "row 2 (line 4)"]


def test_parquet_without_pyarrow_is_refused_in_one_line(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(
        TableError, match="^Parquet needs pyarrow, which is not installed; CSV works without$"
    ):
        read(tmp_path / "a.parquet")


def test_parquet_is_read_where_pyarrow_is(tmp_path) -> None:
    path = parquet(tmp_path / "a.parquet", {"reward": [0.1, 0.25], "compute": [1, 2], "note": ["x", "y"]})

    table = read(path)

    assert (table.compute, table.reward) == ([1.0, 2.0], [0.1, 0.25])
    assert table.rows == ["row 1", "row 2"]


@pytest.mark.parametrize(
    "columns, reason",
    [
        ({"compute": [1.0, 2.0], "reward": [0.1, None]}, "row 2: reward is missing"),
        (
            {"compute": [1.0, float("nan")], "reward": [0.1, 0.2]},
            "row 2: compute is nan, not a finite number",
        ),
        ({"compute": [[1.0]], "reward": [0.1]}, r"row 1: compute '\[1.0\]' is not a number"),
        ({"hours": [1.0], "reward": [0.1]}, "no column 'compute'; the columns are 'hours', 'reward'"),
    ],
)
def test_bad_parquet_names_the_row(tmp_path, columns, reason) -> None:
    path = parquet(tmp_path / "a.pq", columns)

    with pytest.raises(TableError, match=reason):
        read(path)


def test_bytes_that_are_no_parquet(tmp_path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"compute,reward\n")

    with pytest.raises(TableError, match="is not a Parquet file"):
        read(tmp_path / "a.parquet")
    with pytest.raises(TableError, match="No such file"):
        read(tmp_path / "b.parquet")
