"""What W&B's and TensorBoard's files can hold beside the plain case of the samples."""

import struct
import time
import zlib
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from tests.webapp.interfaces.imports.readers.reading import broken, rows_of, runs_of, written
from webapp.interfaces.imports.readers.framing import BLOCK, WANDB_HEADER, Event, WandbRecord

# --- W&B


def wandb_file(records: list[Any]) -> bytes:
    """In LevelDB's framing, with blocks of 32 KiB."""
    content = bytearray(WANDB_HEADER)
    for record in records:
        data, is_first = record.SerializeToString(), True
        while is_first or data:
            left = BLOCK - len(content) % BLOCK
            if left < 7:
                content += bytes(left)
                left = BLOCK
            part, data = data[: left - 7], data[left - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[
                is_first, not data
            ]
            content += struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            is_first = False
    return bytes(content)


def begin(run_id: str, **config: str) -> Any:
    record = WandbRecord()
    record.run.run_id, record.run.display_name, record.run.project = run_id, run_id, "math"
    for name, value in config.items():
        record.run.config.update.add(key=name, value_json=value)
    return record


def history(step: int, **values: str) -> Any:
    record = WandbRecord()
    record.history.step.num = step
    for name, value in values.items():
        record.history.item.add(key=name, value_json=value)
    return record


def test_transformers_logs_its_own_step(tmp_path: Path) -> None:
    records = [
        begin("a"),
        history(0, **{"train/global_step": "10", "train/reward": "0.5", "train/num_tokens": "100"}),
        history(1, **{"train/global_step": "10", "eval/rewards/acc/mean": "0.25"}),
        history(2, seen="1"),
        history(3, **{"train/global_step": "20", "eval/rewards/acc/mean": "0.5"}),
    ]
    path = written(tmp_path, "run-a.wandb", wandb_file(records))
    rows = rows_of("wandb", path, columns={"pass_rate": "eval/rewards/acc/mean"})
    assert [(row.step, row.metrics.get("eval/pass_rate"), row.compute["tokens"]) for row in rows] == [
        (10, None, 100), (10, 0.25, 100), (10, None, 100), (20, 0.5, None)
    ]  # fmt: skip


def test_a_run_that_was_resumed_is_one(tmp_path: Path) -> None:
    for number, steps in ((1, (0, 1)), (2, (2, 3))):
        records = [begin("same", lr=str(number))] + [history(step, loss=str(step)) for step in steps]
        written(tmp_path, f"offline-run-2026010{number}-same/run-same.wandb", wandb_file(records))
    (run,) = runs_of("wandb", tmp_path).values()
    assert [row.metrics["loss"] for row in run.rows()] == [0, 1, 2, 3] and run.config == {"lr": 2}


def test_values_of_newer_and_older_clients(tmp_path: Path) -> None:
    record = history(
        0, nested='{"a": {"b": 2}}', table='{"_type": "table-file"}', text='"x"', nan="NaN", none="null"
    )
    record.history.item.add(key="typed", number=0.5)
    record.history.item.add(key="count", integer=-3)
    record.history.item.add(key="flag", boolean=True)
    record.history.item.add(key="word", text="x")
    record.history.item.add(nested_key=["outer", "inner"], value_json="7")
    record.history.item.add(key="infinite", value_json='"Infinity"')
    (row,) = rows_of("wandb", written(tmp_path, "run-a.wandb", wandb_file([begin("a"), record])))
    assert row.metrics == {
        "nested.a.b": 2, "nan": None, "typed": 0.5, "count": -3, "flag": 1, "outer.inner": 7, "infinite": None
    }  # fmt: skip
    assert row.time is None


def test_records_that_cross_blocks(tmp_path: Path) -> None:
    records = [begin("a")] + [history(n, loss=str(n), text=f'"{"x" * (9000 * n)}"') for n in range(12)]
    rows = rows_of("wandb", written(tmp_path, "run-a.wandb", wandb_file(records)))
    assert [row.metrics for row in rows] == [{"loss": n} for n in range(12)]


def test_verls_run_in_wandb_has_its_compute(tmp_path: Path) -> None:
    step = {"timing_s/step": "90", "perf/total_num_tokens": "1000"}
    config = {"trainer": '{"nnodes": 2, "n_gpus_per_node": 4}'}
    records = [begin("a", **config)] + [history(n, **step) for n in (1, 2)]
    rows = rows_of("wandb", written(tmp_path, "run-a.wandb", wandb_file(records)))
    assert rows[1].compute == {
        "device_hours": pytest.approx(2 * 8 * 90 / 3600),
        "flops": None,
        "tokens": 2000,
    }


def test_what_is_no_file_of_wandb(tmp_path: Path) -> None:
    error = broken("wandb", written(tmp_path, "a/run-a.wandb", b"text that is longer"))
    assert error.line == 1 and "no file of W&B" in error.reason
    assert "no run-*.wandb" in broken("wandb", tmp_path / "nothing").reason
    assert "No run had begun" in broken("wandb", written(tmp_path, "b/run-b.wandb", WANDB_HEADER)).reason


def test_one_damaged_run_keeps_the_others_in(tmp_path: Path) -> None:
    whole = wandb_file([begin("a"), history(0, loss="1"), history(1, loss="2")])
    written(tmp_path, "1/run-a.wandb", whole)
    written(tmp_path, "2/run-b.wandb", wandb_file([begin("b"), history(0, loss="1")]) + b"\1" * 500)
    runs = runs_of("wandb", tmp_path)
    assert len(list(runs["a"].rows())) == 2
    rows = runs["b"].rows()
    assert next(rows).metrics == {"loss": 1}
    assert broken("wandb", tmp_path).line == 3


# --- TensorBoard


def event_file(events: list[Any]) -> bytes:
    content = b""
    for event in events:
        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        content += length + masked(length) + data + masked(data)
    return content


def masked(data: bytes) -> bytes:
    checksum = google_crc32c.value(data)
    return struct.pack("<I", (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def scalar(step: int, tag: str, value: float, wall_time: float = 1.7e9) -> Any:
    event = Event(step=step, wall_time=wall_time)
    event.summary.value.add(tag=tag, simple_value=value)
    return event


def test_a_tag_that_comes_again_in_one_step_begins_a_row(tmp_path: Path) -> None:
    events = [scalar(1, "a", 1), scalar(1, "b", 2), scalar(1, "a", 3), scalar(2, "a", 4)]
    rows = rows_of("tensorboard", written(tmp_path, "x.tfevents.1", event_file(events)))
    assert [(row.line, row.step, row.metrics) for row in rows] == [
        (1, 1, {"a": 1, "b": 2}), (3, 1, {"a": 3}), (4, 2, {"a": 4})
    ]  # fmt: skip


def test_the_newest_step_is_read_at_once(tmp_path: Path) -> None:
    events = [scalar(1, "a", 1), scalar(2, "a", 2, wall_time=time.time())]
    rows = rows_of("tensorboard", written(tmp_path, "x.tfevents.1", event_file(events)))
    assert [row.step for row in rows] == [1, 2]


def settings() -> Any:
    """As `add_hparams` writes them."""
    event = Event(wall_time=1.7e9)
    event.summary.value.add(tag="_hparams_/session_start_info").metadata.plugin_data.plugin_name = "hparams"
    return event


@pytest.mark.parametrize(
    "results", [[], [scalar(0, "hparam/acc", 0.5)], [scalar(9, "a", 1), scalar(9, "b", 1)]]
)
def test_settings_in_the_folder_of_a_run_are_no_run(tmp_path: Path, results: list[Any]) -> None:
    written(tmp_path, "a/x.tfevents.1", event_file([scalar(1, "a", 1), scalar(2, "a", 1)]))
    written(tmp_path, "a/1700000000.5/x.tfevents.1", event_file([settings(), *results]))
    assert set(runs_of("tensorboard", tmp_path)) == {"a"}


def test_runs_with_settings_of_their_own_stay(tmp_path: Path) -> None:
    written(tmp_path, "a/x.tfevents.1", event_file([settings(), scalar(1, "a", 1)]))
    written(tmp_path, "a/b/x.tfevents.1", event_file([settings(), scalar(1, "a", 1), scalar(2, "a", 1)]))
    written(tmp_path, "a/c/x.tfevents.1", event_file([scalar(1, "a", 1)]))
    assert set(runs_of("tensorboard", tmp_path)) == {"a", "a/b", "a/c"}


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        ({"dtype": 1, "float_val": [0.5]}, 0.5), ({"dtype": 2, "double_val": [0.1]}, 0.1),
        ({"dtype": 3, "int_val": [-3]}, -3), ({"dtype": 9, "int64_val": [2**40]}, 2**40),
        ({"dtype": 1, "content": struct.pack("<f", 0.25)}, 0.25),
        ({"dtype": 2, "content": struct.pack("<d", 0.1)}, 0.1),
        ({"dtype": 19, "half_val": [0x3800]}, 0.5), ({"dtype": 14, "half_val": [0x3F00]}, 0.5),
        ({"dtype": 7}, None), ({"dtype": 1, "content": b"123"}, None), ({"dtype": 1, "float_val": [1, 2]}, None),
        ({"dtype": 1, "float_val": [float("nan")]}, "nan"),
    ],
)  # fmt: skip
def test_tensors_of_one_number(tmp_path: Path, tensor: dict[str, Any], value: Any) -> None:
    event = Event(step=1, wall_time=1.7e9)
    event.summary.value.add(tag="x").tensor.MergeFrom(type(event.summary.value.add().tensor)(**tensor))
    path = written(tmp_path, "x.tfevents.1", event_file([event, scalar(1, "y", 1)]))
    (row,) = rows_of("tensorboard", path)
    expected = {} if value is None else {"x": None if value == "nan" else value}
    assert row.metrics == expected | {"y": 1}


def test_folders_without_scalars_are_no_runs(tmp_path: Path) -> None:
    written(tmp_path, "train/x.tfevents.1", event_file([scalar(1, "a", 1)]))
    written(tmp_path, "hparams/x.tfevents.1", event_file([Event(wall_time=1.7e9)]))
    assert set(runs_of("tensorboard", tmp_path)) == {"train"}
    assert "no scalars" in broken("tensorboard", tmp_path / "hparams").reason
    assert "no event file" in broken("tensorboard", tmp_path / "nothing").reason


def test_steps_below_0_are_refused(tmp_path: Path) -> None:
    error = broken(
        "tensorboard", written(tmp_path, "x.tfevents.1", event_file([scalar(1, "a", 1), scalar(-1, "a", 1)]))
    )
    assert error.line == 2 and "A step is an integer" in error.reason
