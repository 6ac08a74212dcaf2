"""Exports of neptune-exporter, written with the schema that it documents."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.webapp.interfaces.imports.readers.reading import broken, runs_of
from webapp.interfaces.imports.readers.kinds import guess_kind

SCHEMA = pa.schema(
    [
        ("project_id", pa.string()), ("run_id", pa.string()), ("attribute_path", pa.string()),
        ("attribute_type", pa.string()), ("step", pa.decimal128(18, 6)), ("timestamp", pa.timestamp("ms", "UTC")),
        ("int_value", pa.int64()), ("float_value", pa.float64()), ("string_value", pa.string()),
        ("bool_value", pa.bool_()), ("datetime_value", pa.timestamp("ms", "UTC")),
        ("string_set_value", pa.list_(pa.string())), ("file_value", pa.struct([("path", pa.string())])),
    ]
)  # fmt: skip
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def parameter(run: str, path: str, kind: str, value: Any) -> dict[str, Any]:
    return {"run_id": run, "attribute_path": path, "attribute_type": kind, f"{kind}_value": value}


def series(
    run: str, path: str, values: list[float | None], step: Decimal = Decimal(1)
) -> list[dict[str, Any]]:
    return [
        {
            "run_id": run, "attribute_path": path, "attribute_type": "float_series", "step": step * number,
            "timestamp": BEGAN + timedelta(hours=number), "float_value": value,
        }
        for number, value in enumerate(values, start=1)
    ]  # fmt: skip


def export(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([{"project_id": "team/math"} | row for row in rows], schema=SCHEMA)
    pq.write_table(table, path, compression="snappy")
    return path


def test_runs_of_an_export(tmp_path: Path) -> None:
    first = [
        parameter("RUN-1", "sys/name", "string", "grpo 8b"),
        parameter("RUN-1", "sys/failed", "bool", True),
        parameter("RUN-1", "config/lr", "float", 1e-6),
        parameter("RUN-1", "seed", "int", 3),
        *series("RUN-1", "train/reward", [0.1, float("nan")]),
    ]
    export(tmp_path / "math" / "RUN-1_part_0.parquet", first)
    export(tmp_path / "math" / "RUN-1_part_2.parquet", series("RUN-1", "train/num_tokens", [100.0, 300.0]))
    export(tmp_path / "math" / "RUN-1_part_10.parquet", series("RUN-1", "acc", [0.25, 0.5, 0.75]))
    export(tmp_path / "math" / "RUN-2_part_0.parquet", series("RUN-2", "train/reward", [0.2]))

    assert guess_kind(tmp_path) == "neptune"
    runs = runs_of("neptune", tmp_path, devices=4, columns={"pass_rate": "acc"})
    assert set(runs) == {"grpo 8b", "RUN-2"}
    run = runs["grpo 8b"]
    assert (run.task, run.seed, run.state, run.config) == (
        "math",
        3,
        "failed",
        {"config/lr": 1e-6, "seed": 3},
    )
    rows = list(run.rows())
    assert [(row.step, row.metrics.get("train/reward")) for row in rows[:2]] == [(1, 0.1), (2, None)]
    rates = [(row.step, row.metrics["eval/pass_rate"], dict(row.compute)) for row in rows[4:]]
    assert rates == [
        (1, 0.25, {"device_hours": 0.0, "flops": None, "tokens": 100}),
        (2, 0.5, {"device_hours": 4.0, "flops": None, "tokens": 300}),
        (3, 0.75, {"device_hours": 8.0, "flops": None, "tokens": None}),
    ]
    assert [row.line for row in rows] == sorted({row.line for row in rows})


def test_several_runs_in_one_file(tmp_path: Path) -> None:
    path = export(tmp_path / "a.parquet", series("A", "loss", [1.0, 2.0]) + series("B", "loss", [3.0]))
    runs = runs_of("neptune", path)
    assert [row.metrics for row in runs["A"].rows()] == [{"loss": 1.0}, {"loss": 2.0}]
    assert [row.metrics for row in runs["B"].rows()] == [{"loss": 3.0}]


def test_what_is_refused(tmp_path: Path) -> None:
    halves = export(tmp_path / "halves.parquet", series("A", "loss", [1.0], step=Decimal("0.5")))
    assert broken("neptune", halves).line == 1 and "A step is an integer" in broken("neptune", halves).reason
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"run_id": ["a"]}), other)
    assert "no column attribute_path" in broken("neptune", other).reason
    empty = export(tmp_path / "empty.parquet", [])
    assert "There are no rows" in broken("neptune", empty).reason
    assert "no .parquet file" in broken("neptune", tmp_path / "nothing").reason


def test_a_plain_parquet_table(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = {
        "step": pa.array([1, 2, 3]), "time": pa.array([BEGAN + timedelta(hours=n) for n in range(3)]),
        "loss": pa.array([1.5, None, float("inf")]), "name": pa.array(["x", "y", "z"]),
        "nested": pa.array([[1], [], None]),
        "exact": pa.array([Decimal("0.1"), Decimal("0.2"), None]), "flag": pa.array([True, False, None]),
    }  # fmt: skip
    pq.write_table(pa.table(columns), path, row_group_size=2)
    (run,) = runs_of("parquet", path, devices=2).values()
    rows = list(run.rows())
    assert [row.metrics for row in rows] == [
        {"loss": 1.5, "exact": 0.1, "flag": 1.0}, {"exact": 0.2, "flag": 0.0}, {"loss": None},
    ]  # fmt: skip
    assert [row.line for row in rows] == [1, 2, 3] and rows[2].compute["device_hours"] == 4.0
    assert any("no plain values" in note for note in run.notes) and any(
        '"name" is text' in note for note in run.notes
    )
