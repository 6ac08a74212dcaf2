"""Sweeps that one process tries by itself."""

from typing import Any

import pytest

import headroom.wandb_shim as wandb
from tests.headroom.fake_server import FakeServer


def tried(asked: dict[str, Any], count: int | None = None) -> list[dict[str, Any]]:
    found = []

    def train() -> None:
        with wandb.init(config={"lr": 9, "fixed": "yes"}) as run:
            assert run.sweep_id and run.get_sweep_url() is None
            found.append(run.config.as_dict())

    wandb.agent(wandb.sweep(asked, project="math"), function=train, count=count)
    return found


def test_a_grid_tries_all_of_it_over_what_the_script_says() -> None:
    parameters = {
        "lr": {"values": [0.1, 0.2]},
        "net": {"parameters": {"depth": {"min": 1, "max": 2}}},
        "seed": {"value": 3},
    }

    assert tried({"method": "grid", "parameters": parameters}) == [
        {"lr": lr, "fixed": "yes", "net": {"depth": depth}, "seed": 3}
        for lr in (0.1, 0.2)
        for depth in (1, 2)
    ]


def test_random_draws_stay_within_their_bounds() -> None:
    parameters = {
        "lr": {"distribution": "log_uniform_values", "min": 1e-6, "max": 1e-3},
        "layers": {"min": 2, "max": 4},
        "drop": {"min": 0.0, "max": 0.5},
        "batch": {"distribution": "q_uniform", "min": 8.0, "max": 64.0, "q": 8},
        "act": {"values": ["relu", "gelu"], "probabilities": [0.0, 1.0]},
        "noise": {"distribution": "normal", "mu": 5.0, "sigma": 0.0},
    }

    found = tried({"method": "random", "parameters": parameters}, count=20)

    assert len(found) == 20
    for each in found:
        assert 1e-6 <= each["lr"] <= 1e-3 and each["layers"] in (2, 3, 4) and 0 <= each["drop"] <= 0.5
        assert each["batch"] % 8 == 0 and each["act"] == "gelu" and each["noise"] == 5.0
    assert len({each["lr"] for each in found}) > 10


def test_each_trial_is_a_run_and_a_failed_one_does_not_end_the_others(
    online: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    def train() -> None:
        run = wandb.init()
        if run.config["lr"] == 2:
            raise RuntimeError("diverged")
        wandb.log({"loss": run.config["lr"]})

    sweep_id = wandb.sweep({"method": "grid", "parameters": {"lr": {"values": [1, 2, 3]}}}, project="math")
    wandb.agent(f"us/math/{sweep_id}", train, count=10)

    made = [body for path, body in online.notices if path == "runs"]
    assert [(body["task"], body["config"]["lr"]) for body in made] == [("math", 1), ("math", 2), ("math", 3)]
    assert {body["config"]["wandb"]["sweep"] for body in made} == {sweep_id}
    states = [body["state"] for what, body in online.notices if what == "finish"]
    assert states == ["succeeded", "failed", "succeeded"] and "diverged" in caplog.text
    assert wandb.run is None and wandb.init().sweep_id is None


def test_an_agent_gives_up_after_failures_in_a_row() -> None:
    calls = []

    def fails() -> None:
        calls.append(1)
        raise ValueError("no")

    wandb.agent(wandb.sweep({"method": "random", "parameters": {"a": {"value": 1}}}), fails)
    assert len(calls) == 3


def test_agents_go_on_where_another_ended_and_stop_at_the_cap() -> None:
    found = []

    def train() -> None:
        found.append(wandb.init().config["a"])

    known = wandb.sweep({"parameters": {"a": {"values": [1, 2, 3, 4]}}, "run_cap": 3})
    wandb.agent(known, train, count=2)
    wandb.agent(known, train)
    assert found == [1, 2, 3, 4]


def test_what_sweeps_do_not_do_is_said(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        known = wandb.sweep(
            {
                "method": "bayes",
                "early_terminate": {"type": "hyperband"},
                "parameters": {"a": {"min": 0.0, "max": 1.0}},
            }
        )
        wandb.agent(known)
        wandb.controller(known)
    wandb.agent("unknown", lambda: None)

    for words in (
        "bayes is drawn at random",
        "not ended early",
        "programs of sweeps are not started",
        "no controller",
    ):
        assert caplog.text.count(words) == 1


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"method": "magic", "parameters": {}}, "method is one of grid, random, bayes"),
        (
            {"method": "random", "parameters": {"a": {"distribution": "odd"}}},
            "the parameter a of the sweep cannot be drawn",
        ),
        (
            {"method": "grid", "parameters": {"a": {"min": 0.0, "max": 1.0}}},
            "the parameter a of the sweep cannot be drawn",
        ),
        (
            {"method": "grid", "parameters": {"a": {"values": []}}},
            "the parameter a of the sweep has no values",
        ),
        ({"method": "grid", "parameters": {"a": 3}}, "the parameter a of the sweep must be a dictionary"),
    ],
)
def test_a_sweep_that_cannot_be_tried_is_refused_at_once(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(wandb.UsageError, match=words):
        wandb.sweep(asked)
