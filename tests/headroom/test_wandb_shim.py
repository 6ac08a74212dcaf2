"""Scripts that were written for wandb."""

import json
from pathlib import Path
from typing import Any

import pytest

import headroom.wandb_shim as wandb
from tests.headroom.fake_server import FakeServer


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in (
        "WANDB_MODE",
        "WANDB_RUN_ID",
        "WANDB_RESUME",
        "WANDB_NAME",
        "WANDB_PROJECT",
        "HEADROOM_MODE",
    ):
        monkeypatch.delenv(name, raising=False)
    yield
    wandb.finish()


def records() -> list[dict[str, Any]]:
    lines = [line for path in Path().rglob("*.jsonl") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def said() -> list[tuple[int, dict[str, Any]]]:
    return [(record["step"], record["metrics"]) for record in records()]


def test_a_script_of_wandb_runs_unchanged(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_URL", server.url)
    monkeypatch.setenv("HEADROOM_TOKEN", "hr_test")

    run = wandb.init(project="math", name="grpo", config={"lr": 0.1}, tags=["first"], group="seeds")
    wandb.config.update({"batch": 8})
    for step in range(3):
        wandb.log({"reward": step / 2, "actor": {"entropy": 0.5}})
    wandb.run.summary["best"] = 1.0
    wandb.finish()

    assert run.config.batch == 8 and run.config["lr"] == 0.1 and run.id == "made1"
    (made,) = [body for path, body in server.notices if path == "runs"]
    assert (made["name"], made["task"], made["config"]["lr"]) == ("grpo", "math", 0.1)
    assert made["config"]["wandb"] == {"tags": ["first"], "group": "seeds"}
    assert [record["metrics"] for record in server.records.values()] == [
        {"reward": step / 2, "actor.entropy": 0.5} for step in range(3)
    ]
    assert ("finish", {"attempt": 1, "state": "succeeded", "message": ""}) in server.notices
    assert wandb.run is None


def test_steps_follow_wandb_and_late_ones_are_kept() -> None:
    wandb.init()
    wandb.log({"a": 1})
    wandb.log({"b": 2}, commit=False)
    wandb.log({"c": 3})
    wandb.log({"d": 4}, step=10)
    wandb.log({"e": 5})
    wandb.log({"late": 6}, step=2)

    assert said() == [
        (0, {"a": 1}),
        (1, {"b": 2}),
        (1, {"c": 3}),
        (10, {"d": 4}),
        (10, {"e": 5}),
        (2, {"late": 6}),
    ]


def test_what_is_no_number_is_named_and_left_out(caplog) -> None:
    wandb.init()
    table = wandb.Table(columns=["prompt"])
    table.add_data("1+1=")
    wandb.log({"samples": table, "note": "x", "reward": 0.5, "loss": float("nan")})
    wandb.log({"samples": wandb.Image("x.png"), "reward": 0.6})

    assert said() == [(0, {"reward": 0.5}), (1, {"reward": 0.6})]
    assert caplog.text.count("'samples' is a Table, no number") == 1
    assert "'loss' has the value nan" in caplog.text


def test_compute_is_the_runs_compute() -> None:
    wandb.init()
    wandb.log({"eval/pass_rate": 0.4, "compute/device_hours": 2.5, "compute/tokens": 100})

    (record,) = records()
    assert record["compute"] == {"device_hours": 2.5, "flops": None, "tokens": 100}
    assert record["metrics"] == {"eval/pass_rate": 0.4}


def test_a_known_id_goes_on_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_RUN_ID", "abc/1")
    wandb.init()
    wandb.log({"a": 1})
    wandb.finish(exit_code=1)

    wandb.init(resume="allow")
    wandb.log({"a": 2})

    assert said() == [(0, {"a": 1}), (1, {"a": 2})]
    assert [path.name for path in Path().rglob("*.jsonl")] == ["abc-1.jsonl"]


def test_disabled_writes_nothing() -> None:
    with wandb.init(mode="disabled") as run:
        run.log({"a": 1})
        wandb.log({"a": 2})

    assert list(Path().rglob("*")) == []


def test_before_init_it_says_so() -> None:
    with pytest.raises(RuntimeError, match=r"call wandb.init\(\) first"):
        wandb.log({"a": 1})
    with pytest.raises(AttributeError, match="has no 'sweep'"):
        wandb.sweep  # noqa: B018
    with pytest.raises(ValueError, match="mode must be online, offline or disabled"):
        wandb.init(mode="on")


def test_log_never_raises(caplog) -> None:
    wandb.init()
    wandb.log({"a": 1}, step="three")  # type: ignore[arg-type]
    wandb.log(None)  # type: ignore[arg-type]

    assert "could not be recorded" in caplog.text and records() == []
