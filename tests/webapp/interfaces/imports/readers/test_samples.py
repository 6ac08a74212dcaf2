"""Files that the real tools wrote (make_samples.py): everything that was logged comes out, and nothing else."""

import struct
from datetime import datetime

import pytest

from tests.webapp.interfaces.imports.readers.reading import EXPECTED, SAMPLES, ours, rows_of, runs_of
from webapp.interfaces.imports.readers.kinds import guess_kind
from webapp.interfaces.imports.readers.rows import Row


def single(value: float | None) -> float | None:
    """As a 32-bit float holds it, which is what TensorBoard stores."""
    return None if value is None else struct.unpack("f", struct.pack("f", value))[0]


def at(time: datetime | None) -> float:
    assert time is not None and time.tzinfo is not None
    return time.timestamp()


@pytest.mark.parametrize("name", ["done", "failed", "killed"])
def test_wandb(name: str) -> None:
    expected = EXPECTED["wandb"][name]
    run = runs_of("wandb", SAMPLES / "wandb", devices=2)[name]
    rows = list(run.rows())

    assert [[row.step, row.metrics] for row in rows] == [
        [step, ours(all_)] for step, all_ in expected["rows"]
    ]
    assert (run.key, run.task, run.model, run.seed) == (name, "math", "tiny-1b", 7)
    assert run.state == expected["state"] and run.config == expected["config"]
    assert [row.compute["tokens"] for row in rows] == [1000 * row.step for row in rows]
    hours = [row.compute["device_hours"] for row in rows]
    assert hours == sorted(hours) and 0 < hours[0] < hours[-1] < 0.1  # type: ignore[type-var]
    assert all(row.compute["flops"] is None for row in rows)


def test_wandb_says_that_a_killed_run_has_no_end() -> None:
    runs = runs_of("wandb", SAMPLES / "wandb")
    assert runs["done"].notes == []
    said = " ".join(runs["killed"].notes)
    assert "does not say how the run ended" in said and "in the middle of a record" in said


@pytest.mark.parametrize("name", ["old", "new"])
def test_tensorboard(name: str) -> None:
    run = runs_of("tensorboard", SAMPLES / "tensorboard")[name]
    rows = list(run.rows())

    expected = EXPECTED["tensorboard"][name]
    assert [[row.step, at(row.time), row.metrics] for row in rows] == [
        [step, time, {key: single(value) for key, value in ours(values).items()}]
        for step, time, values in expected
    ]
    assert [row.compute["tokens"] for row in rows] == [1000 * row.step for row in rows]
    assert [row.line for row in rows] == sorted({row.line for row in rows})


def test_a_writer_that_was_made_anew_goes_on_with_the_run() -> None:
    rows = list(runs_of("tensorboard", SAMPLES / "tensorboard", devices=4)["old"].rows())
    assert rows[4].line < 2**32 < rows[5].line
    assert rows[-1].compute["device_hours"] == pytest.approx(4 * 8 * 60 / 3600)


@pytest.mark.parametrize(
    ("name", "state"), [("done", "succeeded"), ("stopped", "cancelled"), ("going on", None)]
)
def test_mlflow(name: str, state: str | None) -> None:
    expected = EXPECTED["mlflow"][name]
    run = runs_of("mlflow", SAMPLES / "mlruns", columns={"pass_rate": "val-core/gsm8k/acc/mean_at_4"})[name]
    rows = list(run.rows())

    assert [[row.step, at(row.time), without_pass_rate(row)] for row in rows] == [
        [step, time, ours(values)] for step, time, values in expected["rows"]
    ]
    assert [row.metrics["eval/pass_rate"] for row in rows] == [0.02 * row.step for row in rows]
    assert run.config == expected["params"] and run.state == state
    assert (run.task, run.model, run.seed) == ("math", "tiny-1b", 7)


def without_pass_rate(row: Row) -> dict[str, float | None]:
    return {name: value for name, value in row.metrics.items() if name not in ("eval/pass_rate", "eval/k")}


def test_mlflow_leaves_deleted_runs_out() -> None:
    assert set(runs_of("mlflow", SAMPLES / "mlruns")) == set(EXPECTED["mlflow"])


def test_verls_only_pass_rate_is_known_by_its_name() -> None:
    rows = list(runs_of("mlflow", SAMPLES / "mlruns")["done"].rows())
    assert [(row.metrics["eval/pass_rate"], row.metrics["eval/k"]) for row in rows] == [
        (0.02 * row.step, 4) for row in rows
    ]


@pytest.mark.parametrize("file", ["history.csv", "history.parquet", "history_with_index.csv"])
def test_wandb_history(file: str) -> None:
    rows = rows_of("wandb-history", SAMPLES / file, devices=8)
    assert [[row.step, at(row.time), row.metrics] for row in rows] == [
        [step, pytest.approx(time, abs=1e-3), ours(values)] for step, time, values in EXPECTED["history"]
    ]
    assert rows[-1].compute["device_hours"] == pytest.approx(8 * 9 * 60.5 / 3600)


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("wandb", "wandb"), ("tensorboard", "tensorboard"), ("mlruns", "mlflow"), ("mlflow.db", "mlflow"),
        ("history.csv", "wandb-history"),
        ("history.parquet", "wandb-history"), ("expected.json", None), ("", None),
    ],
)  # fmt: skip
def test_kinds_are_told_apart(place: str, kind: str | None) -> None:
    assert guess_kind(SAMPLES / place) == kind
