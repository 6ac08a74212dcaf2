"""Scripts as people write them for wandb, from first line to last, and libraries that import it themselves."""

import argparse
import importlib
import math
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headroom.wandb_shim as wandb
from headroom.wandb_shim.sdk import BY_NAME
from tests.headroom.fake_server import FakeServer
from tests.headroom.wandb_shim.conftest import logged, records, said


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`import wandb` is the shim, until the test is over."""
    for name in ("wandb", "wandb.sdk", *BY_NAME):
        monkeypatch.setitem(sys.modules, name, sys.modules.get(name, wandb))
    wandb.install()
    yield
    wandb.finish()


def test_a_loop_that_logs(online: FakeServer) -> None:
    wandb.login()
    total = 5
    run = wandb.init(entity="my-team", project="first-steps", config={"learning_rate": 0.02, "epochs": total})
    offset = random.Random(0).random() / 5
    for epoch in range(2, run.config.epochs):
        acc = 1 - 2**-epoch - offset
        run.log({"acc": acc, "loss": 2**-epoch + offset})
    run.finish()

    assert [sorted(record["metrics"]) for record in online.records.values()] == [["acc", "loss"]] * 3
    assert online.notices[-1][1]["state"] == "succeeded"


def test_a_script_with_arguments_a_summary_and_a_table(online: FakeServer) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    wandb.init(project="tables", config=parser.parse_args([]), job_type="eval")
    wandb.config.setdefaults({"batch_size": 4})
    table = wandb.Table(columns=["input", "guess", "score"])
    best = 0.0
    for i in range(wandb.config.batch_size):
        score = i * wandb.config.lr
        best = max(best, score)
        table.add_data(f"{i}+{i}=", 2 * i, score)
        wandb.log({"score": score, "epoch": i}, commit=i % 2 == 1)
    wandb.log({"predictions": table, "scores": wandb.Histogram(table.get_column("score"))})
    wandb.log({"chart": wandb.plot.bar(table, "input", "score", title="Scores")})
    wandb.run.summary["best"] = best
    wandb.summary.update({"rows": len(table.data)})
    wandb.finish()

    stored = list(online.records.values())
    assert [record["step"] for record in stored] == [0, 0, 1, 1, 2]
    assert stored[-1]["metrics"]["predictions.score.mean"] == pytest.approx(0.15)
    ours = [
        body["config"]["wandb"]
        for what, body in online.notices
        if what == "describe" and "wandb" in body["config"]
    ]
    assert ours[-1]["summary"] == {"best": pytest.approx(0.3), "rows": 4}


def test_a_pipeline_of_artifacts() -> None:
    Path("raw.csv").write_text("a,b\n1,2\n")
    with wandb.init(project="pipeline", job_type="load") as run:
        data = wandb.Artifact("raw", type="dataset", metadata={"rows": 1})
        data.add_file("raw.csv")
        run.log_artifact(data).wait()
    with wandb.init(project="pipeline", job_type="train") as run:
        folder = run.use_artifact("raw:latest").download()
        rows = (Path(folder) / "raw.csv").read_text().splitlines()
        model = wandb.Artifact("model", type="model")
        with model.new_file("weights.txt", mode="w") as file:
            file.write(rows[1])
        run.log_artifact(model, aliases=["best"])
        run.link_artifact(model, "registry/models")
        run.log({"rows": len(rows)})

    assert logged() == {"rows": 2}
    assert Path(wandb.init().use_model("model:best"), "weights.txt").read_text() == "1,2"


def test_a_sweep(online: FakeServer) -> None:
    def main() -> None:
        wandb.init(project="sweeps")
        score = wandb.config.x**3 + wandb.config.y
        wandb.log({"score": score})

    asked = {
        "method": "random",
        "metric": {"goal": "minimize", "name": "score"},
        "parameters": {"x": {"max": 0.1, "min": 0.01}, "y": {"values": [1, 3, 7]}},
    }
    wandb.agent(wandb.sweep(sweep=asked, project="sweeps"), function=main, count=3)

    made = [body["config"] for path, body in online.notices if path == "runs"]
    assert len(made) == 3 and all(0.01 <= each["x"] <= 0.1 and each["y"] in (1, 3, 7) for each in made)


def test_a_torch_loop_that_watches_its_model(caplog: pytest.LogCaptureFixture) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with wandb.init(
        project="torch", config={"optimizer": optimizer.__class__, "device": torch.device("cpu")}
    ) as run:
        run.watch(model, criterion=torch.nn.MSELoss(), log="all", log_freq=1)
        for step in range(3):
            loss = (model(torch.ones(4, 2)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log({"loss": loss.detach(), "weights": model.weight.detach()}, step=step)
        run.unwatch(model)
        torch.save(model.state_dict(), Path(run.dir) / "model.pt")
        wandb.save(str(Path(run.dir) / "*.pt"))

    assert [step for step, _ in said()] == [0, 1, 2]
    assert said()[-1][1]["loss"] < said()[0][1]["loss"] and math.isfinite(logged()["weights.std"])
    assert caplog.text.count("not watched") == 1 and "could not" not in caplog.text


def test_the_curve_of_trl_needs_no_form() -> None:
    """As its callback for wandb logs them, with its own `accuracy_reward`."""
    wandb.init()
    for step in (0, 1):
        wandb.log({"train/num_tokens": 100.0 * step, "train/rewards/accuracy_reward/mean": 0.5}, step=step)
        wandb.log({"eval/rewards/accuracy_reward/mean": 0.25, "eval/reward": 0.7}, step=step)

    found = [
        (each["step"], each["compute"]["tokens"]) for each in records() if "eval/pass_rate" in each["metrics"]
    ]
    assert found == [(0, 0.0), (1, 100.0)] and logged()["eval/pass_rate"] == 0.25


@pytest.mark.usefixtures("installed")
def test_transformers_reports_to_it(online: FakeServer) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.integrations import WandbCallback, is_wandb_available

    assert is_wandb_available()
    callback = WandbCallback()
    args = SimpleNamespace(
        to_dict=lambda: {"learning_rate": 1e-6, "output_dir": Path("out")}, run_name="grpo", output_dir="out"
    )
    state = transformers.TrainerState(is_world_process_zero=True, logging_steps=1)
    model = SimpleNamespace(config={"hidden_size": 8}, num_parameters=lambda: 123)
    control = transformers.TrainerControl()
    callback.on_train_begin(args, state, control, model=model)
    for step in (10, 20):
        state.global_step = step
        callback.on_log(args, state, control, model=model, logs={"loss": 1 / step, "reward": 0.5})
        callback.on_log(args, state, control, model=model, logs={"eval_loss": 2 / step})
    callback.on_log(args, state, control, model=model, logs={"train_runtime": 3.0, "total_flos": 1e12})
    callback.on_train_end(args, state, control, model=model)
    assert wandb.run.name == "grpo"
    wandb.finish()

    (made,) = [body for path, body in online.notices if path == "runs"]
    assert (made["name"], made["task"]) == ("grpo", "huggingface")
    stored = [(record["step"], record["metrics"]) for record in online.records.values()]
    assert [step for step, _ in stored] == [10, 10, 20, 20, 20]
    assert stored[0][1]["train/loss"] == 0.1 and stored[1][1]["eval/loss"] == 0.2
    config = {
        name: value
        for what, body in online.notices
        if what == "describe"
        for name, value in body["config"].items()
    }
    assert (config["learning_rate"], config["hidden_size"], config["model/num_parameters"]) == (1e-6, 8, 123)
    assert config["wandb"]["summary"] == {"train_runtime": 3.0, "total_flos": 1e12}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "line",
    [
        "import wandb.sdk.lib.config_util",
        "import wandb.util, wandb.plot",
        "from wandb import Api, Artifact, Settings, init, log",
        "from wandb.apis.public import Api",
        "from wandb.data_types import Table",
        "from wandb.errors import CommError, UsageError",
        "from wandb.sdk.lib import RunDisabled, runid",
        "from wandb.sdk.lib.config_util import ConfigError",
        "from wandb.sdk.wandb_run import Run",
        "from wandb.wandb_run import Run",
    ],
)
def test_libraries_import_what_they_know(line: str) -> None:
    names: dict[str, Any] = {}
    exec(line, names)
    assert importlib.import_module("wandb") is wandb
    if "Api" in line:
        assert names["Api"] is wandb.Api
