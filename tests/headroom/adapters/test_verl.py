"""The logger alone; verl's own `Tracking` with it is in tests/parity."""

import json
from pathlib import Path
from typing import Any

import pytest

from headroom.adapters.verl import VerlLogger
from headroom.dumps import Dumps
from tests.headroom.fake_server import FakeServer

STEP = {
    "actor/entropy": 0.4, "critic/rewards/mean": 0.3, "timing_s/step": 100.0, "timing_s/testing": 8.0,
    "timing_s/save_checkpoint": 2.0, "perf/total_num_tokens": 1000, "training/epoch": 0, "prompt": "1+1",
}  # fmt: skip
CHECKED = {"val-core/gsm8k/acc/mean@4": 0.25, "val-aux/gsm8k/reward/mean@4": 0.3}


@pytest.fixture
def make(server: FakeServer, tmp_path: Path):
    trainer = {"n_gpus_per_node": 4, "nnodes": 2, "default_local_dir": str(tmp_path / "ckpt")}

    def one(**settings: Any) -> VerlLogger:
        url = {"url": server.url, "token": "hr_test"}
        return VerlLogger(
            "gsm8k", "grpo-8b", {"trainer": trainer, "algorithm": {"gamma": 1.0}}, **url | settings
        )

    return one


def test_steps_evaluations_and_compute(make, server: FakeServer) -> None:
    logger = make()
    logger.log(CHECKED, step=0)
    logger.log(STEP, step=1)
    logger.log(STEP | CHECKED, step=2)
    logger.finish()

    start, first, second = server.records.values()
    assert start["metrics"] == CHECKED | {"eval/pass_rate": 0.25, "eval/k": 4} and start["step"] == 0
    assert first["metrics"]["train/entropy"] == 0.4 and first["metrics"]["train/reward"] == 0.3
    assert "prompt" not in first["metrics"] and "eval/pass_rate" not in first["metrics"]
    assert second["metrics"]["eval/pass_rate"] == 0.25
    hours = [record["compute"]["device_hours"] for record in (start, first, second)]
    assert hours == pytest.approx([0, 8 * 90 / 3600, 2 * 8 * 90 / 3600])
    assert second["compute"]["tokens"] == 2000
    (made,) = [body for path, body in server.notices if path == "runs"]
    assert made["config"]["algorithm"] == {"gamma": 1.0} and (made["name"], made["task"]) == (
        "grpo-8b",
        "gsm8k",
    )


def test_a_restart_is_the_next_attempt_of_the_same_run(make, server: FakeServer, tmp_path: Path) -> None:
    first = make()
    for step in (1, 2, 3):
        first.log(STEP, step=step)
    first.finish(exit_code=1)

    second = make()
    second.log(STEP, step=3)  # the checkpoint was of step 2
    second.finish()

    starts = [
        (body["attempt"], body["resumed_from_step"]) for what, body in server.notices if what == "start"
    ]
    assert starts == [(1, None), (2, 2)]
    lines = [json.loads(line) for line in (tmp_path / "ckpt" / "headroom.jsonl").read_text().splitlines()]
    hours = [line["compute"]["device_hours"] for line in lines]
    assert hours[3] == pytest.approx(hours[2])  # step 3, once more
    assert [body["state"] for what, body in server.notices if what == "finish"] == ["failed", "succeeded"]


@pytest.mark.parametrize(("name", "found"), [(None, None), ("val-core/math/acc/mean@8", 0.5)])
def test_of_two_data_sets_the_pass_rate_has_to_be_named(make, server: FakeServer, name, found) -> None:
    logger = make(pass_rate=name)
    logger.log(CHECKED | {"val-core/math/acc/mean@8": 0.5}, step=0)
    logger.finish()

    (record,) = server.records.values()
    assert record["metrics"].get("eval/pass_rate") == found


def test_dumps_are_samples_once_they_are_whole(make, server: FakeServer, tmp_path: Path) -> None:
    folder = tmp_path / "rollouts"
    folder.mkdir()
    (folder / "0.jsonl").write_text('{"input": "of", "output": "before"}\n')
    logger = make()
    logger._dumps = [Dumps(folder, "train")]
    for step in (1, 2):
        row = {"input": "1+1", "output": "2", "score": 1.0, "step": step}
        (folder / f"{step}.jsonl").write_text(json.dumps(row) + "\n")
        logger.log(STEP, step=step)
    logger.finish()

    assert [name for _, name in server.files] == ["train/1?attempt=1", "train/2?attempt=1"]
