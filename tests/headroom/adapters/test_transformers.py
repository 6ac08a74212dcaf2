"""The callback as a trainer calls it; the real trainers of transformers and TRL are in tests/parity."""

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import TrainerControl, TrainerState

from headroom.adapters.naming import of_transformers
from headroom.adapters.transformers import HeadroomCallback
from tests.headroom.fake_server import FakeServer


class Training:
    """What a trainer tells its callbacks."""

    def __init__(
        self, folder: Path, callback: HeadroomCallback, *, step: int = 0, first: bool = True
    ) -> None:
        self.args: Any = SimpleNamespace(
            output_dir=str(folder), run_name=None, world_size=4, num_generations=8,
            seed=42, device=SimpleNamespace(type="cuda"),
            to_sanitized_dict=lambda: {"learning_rate": 0.1},
        )  # fmt: skip
        self.state = TrainerState(global_step=step, is_world_process_zero=first)
        self.callback = callback
        model = SimpleNamespace(
            config=SimpleNamespace(to_diff_dict=lambda: {"hidden": 8}, name_or_path="org/model")
        )
        self.tell("on_train_begin", model=model)

    def tell(self, event: str, **more: Any) -> None:
        getattr(self.callback, event)(self.args, self.state, TrainerControl(), **more)

    def step(self, **logs: float) -> None:
        self.tell("on_step_begin")
        self.state.global_step += 1
        self.tell("on_step_end")
        self.tell("on_log", logs={"loss": 0.5} | logs)

    def evaluate(self, **logs: float) -> None:
        self.tell("on_log", logs=logs, eval_dataloader=SimpleNamespace(dataset=range(50)))


@pytest.fixture
def settings(server: FakeServer) -> dict[str, Any]:
    return {"url": server.url, "token": "hr_test", "task": "math", "pass_rate": "eval_rewards/exact/mean"}


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "headroom.jsonl").read_text().splitlines()]


def test_a_training_reports_and_goes_on_after_a_resume(settings, server: FakeServer, tmp_path: Path) -> None:
    first = Training(tmp_path, HeadroomCallback(**settings))
    first.step(num_tokens=100)
    first.evaluate(**{"eval_rewards/exact/mean": 0.25, "eval_loss": 1.0})
    first.step(num_tokens=200)
    first.tell("on_train_end")
    second = Training(tmp_path, HeadroomCallback(**settings), step=1)
    second.step(num_tokens=210)
    second.tell("on_train_end")

    (made,) = [body for path, body in server.notices if path == "runs"]
    assert (made["name"], made["task"], made["model"]) == (tmp_path.name, "math", "org/model")
    assert made["config"] == {"trainer": {"learning_rate": 0.1}, "model": {"hidden": 8}}
    assert made["seed"] == 42
    starts = [body for what, body in server.notices if what == "start"]
    assert [(body["attempt"], body["resumed_from_step"]) for body in starts] == [(1, None), (2, 1)]
    assert starts[0]["device"] == {"kind": "cuda", "count": 4}
    step1, evaluated, rate, step2, again = records(tmp_path)
    assert evaluated["metrics"] == {"eval/rewards/exact/mean": 0.25, "eval/loss": 1.0}
    assert rate["metrics"]["eval/pass_rate"] == 0.25 and rate["metrics"]["eval/k"] == 8
    assert rate["metrics"]["eval/pass_rate_stderr"] == pytest.approx((0.25 * 0.75 / 50) ** 0.5)
    assert (again["attempt"], again["step"]) == (2, 2)
    assert step2["compute"]["device_hours"] > step1["compute"]["device_hours"] > 0
    assert (
        again["compute"]["device_hours"] >= rate["compute"]["device_hours"]
    )  # goes on from the checkpoint's step
    assert again["compute"]["tokens"] == 210


def test_only_the_first_process_reports(settings, server: FakeServer, tmp_path: Path) -> None:
    other = Training(tmp_path, HeadroomCallback(**settings), first=False)
    other.step()
    other.tell("on_train_end")

    assert server.requests == [] and list(tmp_path.iterdir()) == []


def test_a_pass_rate_is_taken_where_it_is_named_only(tmp_path: Path, caplog) -> None:
    training = Training(tmp_path, HeadroomCallback())
    for _ in range(2):
        training.evaluate(**{"eval_reward": 0.4, "eval_rewards/exact/mean": 0.4})
    training.tell("on_train_end")

    assert not any("eval/pass_rate" in record["metrics"] for record in records(tmp_path))
    assert caplog.text.count("names the pass rate among eval_rewards/exact/mean") == 1


def test_the_accuracy_reward_of_trl_is_the_pass_rate(tmp_path: Path) -> None:
    training = Training(tmp_path, HeadroomCallback())
    training.evaluate(**{"eval_reward": 0.9, "eval_rewards/accuracy_reward/mean": 0.4})
    training.tell("on_train_end")

    rates = [record["metrics"]["eval/pass_rate"] for record in records(tmp_path)[1:]]
    assert rates == [0.4]


def test_a_server_that_is_away_ends_no_training(
    settings, server: FakeServer, tmp_path: Path, caplog, monkeypatch
) -> None:
    server.stop()

    callback = HeadroomCallback(**settings)
    training = Training(tmp_path, callback)
    monkeypatch.setattr(callback.run, "finish", partial(callback.run.finish, timeout=0.2))
    training.step()
    training.tell("on_train_end")

    assert len(records(tmp_path)) == 1
    assert "until it answers, all of this run waits in" in caplog.text


def test_a_server_that_refuses_ends_no_training(settings, server: FakeServer, tmp_path: Path, caplog) -> None:
    server.refuse = lambda path, body: (401, "unknown token")

    training = Training(tmp_path, HeadroomCallback(**settings))
    training.step()
    training.tell("on_train_end")

    assert len(records(tmp_path)) == 1
    assert "journalled offline, `python -m headroom sync` sends it" in caplog.text


def test_names() -> None:
    logs = {
        "reward": 1, "loss": 2, "eval_reward": 3, "entropy": 4, "eval_rewards/exact/mean": 5, "train_runtime": 6,
        "completions/clipped_ratio": 7, "sampling/importance_sampling_ratio/max": 8, "rewards/exact/mean": 9,
    }  # fmt: skip

    assert of_transformers(logs) == {
        "train/reward": 1, "train/loss": 2, "eval/reward": 3, "train/entropy": 4, "eval/rewards/exact/mean": 5,
        "train/runtime": 6, "train/truncation_rate": 7, "train/ratio_max": 8, "train/rewards/exact/mean": 9,
    }  # fmt: skip
