"""`headroom tail` follows what verl's own file logger writes."""

import json
from pathlib import Path

import numpy as np
import pytest

from headroom.tailing import Tail

verl_tracking = pytest.importorskip("verl.utils.tracking", reason="verl is not installed: make parity")


def test_its_lines_and_its_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grpo.jsonl"
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(path))
    step = {"timing_s/step": np.float32(36), "perf/total_num_tokens": 1000, "actor/kl": float("nan")}
    tail = Tail(path, devices=10)

    first = verl_tracking.Tracking("math", "grpo", ["file"])
    first.log({"val-core/gsm8k/acc/mean@4": np.float64(0.25)}, step=0)
    first.log(step, step=1)
    assert tail.poll() == 2
    second = verl_tracking.Tracking("math", "grpo", ["file"])
    assert tail.poll() == 0
    second.log(step, step=2)
    assert tail.poll() == 1
    tail.finish("succeeded", "")

    records = [json.loads(line) for line in tail.journal.read_text().splitlines()]
    assert [(each["attempt"], each["step"]) for each in records] == [(1, 0), (1, 1), (2, 2)]
    assert records[0]["metrics"]["eval/pass_rate"] == 0.25 and "actor/kl" not in records[1]["metrics"]
    assert (
        records[2]["compute"]["device_hours"] == pytest.approx(0.2)
        and records[2]["compute"]["tokens"] == 2000
    )
    assert path.read_text().count("\n") == 1
