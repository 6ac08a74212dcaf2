import json
from pathlib import Path

import pytest

from training.data import DataError
from training.data.files import read_problems, read_rows


def write_parquet(path: Path, rows: list[dict]) -> Path:
    import pyarrow
    import pyarrow.parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def contents(path: Path) -> list[tuple[int, str]]:
    return [(row.number, row.text("a")) for row in read_rows(path)]


def test_jsonl_rows_have_their_lines_number(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": "x"}\n\n{"a": "ü"}\n', encoding="utf-8")

    assert contents(path) == [(1, "x"), (3, "ü")]


def test_json_list(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('[{"a": "x"}, {"a": "y"}]')

    assert contents(path) == [(1, "x"), (2, "y")]


def test_parquet_with_nested_fields_and_many_batches(tmp_path: Path) -> None:
    rows = [{"a": str(i), "choices": {"text": ["x", "y"], "label": ["A", "B"]}} for i in range(600)]
    path = write_parquet(tmp_path / "rows.parquet", rows)

    read = list(read_rows(path))

    assert [(row.number, row.text("a")) for row in read] == [(i + 1, str(i)) for i in range(600)]
    assert read[0].mapping("choices") == {"text": ["x", "y"], "label": ["A", "B"]}


def test_folder_of_shards_in_order_without_hidden_files(tmp_path: Path) -> None:
    write_parquet(tmp_path / "0001.parquet", [{"a": "second"}])
    write_parquet(tmp_path / "0000.parquet", [{"a": "first"}])
    (tmp_path / ".hidden.jsonl").write_text("broken")
    (tmp_path / "README.md").write_text("not data")

    assert contents(tmp_path) == [(1, "first"), (1, "second")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"a": "x"}\n{"a": \n', r"a.jsonl, row 2: is not JSON: Expecting value \(column"),
        ("a.jsonl", b'{"a": "x"}\n\n[1]\n', "a.jsonl, row 3: must be an object, not a list"),
        ("a.jsonl", b'{"a": "\xff"}\n', "a.jsonl, row 1: is not UTF-8"),
        ("a.jsonl", b"[" * 100_000, "a.jsonl, row 1: is not JSON"),
        ("a.json", b'{"a": "x"}', "a.json: must hold a list of objects, not an object"),
        ("a.json", b'[{"a": "x"}, 3]', "a.json, row 2: must be an object, not a number"),
        ("a.json", b"[\n{]", "a.json, row 2: is not JSON"),
        ("a.json", b"\xff", "a.json: is not UTF-8"),
        ("a.parquet", b"PAR1 no more", "a.parquet: is not Parquet that can be read"),
        ("a.csv", b"a,b", "a.csv: must end in .jsonl, .json, .parquet"),
    ],
)
def test_broken_file(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(DataError, match=message):
        list(read_rows(path))


def test_missing_file_and_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing.jsonl: no such file"):
        list(read_rows(tmp_path / "nothing.jsonl"))
    with pytest.raises(DataError, match="the folder has no .jsonl, .json, .parquet file"):
        list(read_rows(tmp_path))


def test_problems_are_read_again_only_when_the_file_changed(tmp_path: Path) -> None:
    from training.data.adapters.own import math

    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"prompt": "p", "answer": "1"}))

    first = read_problems(path, math)
    assert read_problems(path, math) is first
    path.write_text(json.dumps({"prompt": "p", "answer": "1234"}))
    assert [problem.answer for problem in read_problems(path, math)] == ["1234"]


def test_no_rows(tmp_path: Path) -> None:
    from training.data.adapters.own import math

    path = tmp_path / "rows.jsonl"
    path.write_text("\n")

    with pytest.raises(DataError, match="has no rows"):
        read_problems(path, math)
