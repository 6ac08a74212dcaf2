"""Trainers with the loggers they bring: TRL's GRPOTrainer and verl's Tracking, which know nothing of Headroom."""

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.parity.test_callback import LETTERS, has_an_a, tokenizer
from tests.trackers.conftest import ROOT, Headroom


def train(folder: Path, report_to: str, name: str, *, steps: int, resume: bool = False) -> None:
    import torch
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=2 + len(LETTERS), pad_token_id=0, eos_token_id=1, **sizes)
    )
    rows = Dataset.from_list([{"prompt": "a+b="} for _ in range(8)])
    config = GRPOConfig(
        output_dir=str(folder / "out"), max_steps=steps, logging_steps=1, eval_strategy="steps", eval_steps=2,
        save_steps=2, per_device_train_batch_size=4, per_device_eval_batch_size=4, num_generations=4,
        max_completion_length=4, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[report_to],
        run_name=name, disable_tqdm=True, dataloader_pin_memory=False, seed=5, log_completions=True,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model, has_an_a, config, train_dataset=rows, eval_dataset=rows.select(range(4)),
        processing_class=tokenizer(),
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=resume)


def steps_of(points: list[tuple[Any, float]]) -> list[int]:
    return [step for step, _ in points]


@pytest.mark.usefixtures("mlflow_env")
def test_grpo_of_trl_through_mlflow(
    headroom: Headroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "trl")
    tags = '{"headroom.pass_rate": "eval_rewards/has_an_a/mean", "headroom.devices": "1", "headroom.task": "letters"}'
    monkeypatch.setenv("MLFLOW_TAGS", tags)

    train(tmp_path, "mlflow", "grpo through mlflow", steps=4)
    (run_id,) = mlflow.search_runs(experiment_names=["trl"])["run_id"]
    monkeypatch.setenv("MLFLOW_RUN_ID", run_id)
    train(tmp_path, "mlflow", "grpo through mlflow", steps=6, resume=True)

    detail = headroom.run("grpo through mlflow")
    assert detail["state"] == "succeeded" and (detail["task"], detail["seed"]) == ("letters", 5)
    assert detail["config"]["max_steps"] == "4"  # as it was logged first: MLflow's params do not change
    assert steps_of(headroom.curve("grpo through mlflow")) == [2, 4, 6]
    assert steps_of(headroom.curve("grpo through mlflow", "train/reward")) == [1, 2, 3, 4, 5, 6]
    hours = headroom.curve("grpo through mlflow", x="device_hours")
    assert all(math.isfinite(x) and x > 0 for x, _ in hours) and hours == sorted(hours)
    tokens = [record["compute"]["tokens"] for record in headroom.records("grpo through mlflow")]
    known = [amount for amount in tokens if amount is not None]
    assert known == sorted(known) and known[-1] > known[0]


@pytest.mark.usefixtures("trackio_env")
def test_grpo_of_trl_through_trackio(headroom: Headroom, tmp_path: Path) -> None:
    train(tmp_path, "trackio", "grpo through trackio", steps=3)

    assert steps_of(headroom.curve("grpo through trackio", "train/reward")) == [1, 2, 3]
    detail = headroom.run("grpo through trackio")
    assert detail["seed"] == 5 and detail["config"]["max_steps"] == 3
    check_completions(headroom, "grpo through trackio")


def check_completions(headroom: Headroom, name: str) -> None:
    """TRL says of no table whether it is of a batch or of an evaluation, so those of one step stand together."""
    assert headroom.samples(name) == [("train", 1, 4), ("train", 2, 8), ("train", 3, 8)]
    for response in headroom.responses(name, "train", 1):
        assert response["prompt"] == "a+b=" and response["advantage"] is not None
        assert response["reward"] == float("a" in response["response"])


def test_grpo_of_trl_through_wandb(headroom: Headroom, tmp_path: Path) -> None:
    """In a process of its own: TRL looks for wandb when it is imported, and here it was imported before. A reward with
    the name of TRL's own needs no word to be the pass rate."""
    script = (
        "from headroom import wandb_shim\nwandb_shim.install()\n"
        "from pathlib import Path\nfrom tests.trackers.test_trainers import has_an_a, train\n"
        "has_an_a.__name__ = 'accuracy_reward'\n"
        f"train(Path({str(tmp_path)!r}), 'wandb', 'grpo through wandb', steps=3)"
    )
    variables = {"HEADROOM_URL": headroom.url, "HEADROOM_TOKEN": headroom.write, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script], env=os.environ | variables, check=True, timeout=300)

    assert steps_of(headroom.curve("grpo through wandb", "train/reward")) == [1, 2, 3]
    curve = headroom.curve("grpo through wandb")
    assert curve == headroom.curve("grpo through wandb", "eval/rewards/accuracy_reward/mean")
    assert steps_of(curve) == [2, 3]
    assert all(tokens > 0 for tokens, _ in headroom.curve("grpo through wandb", x="tokens"))
    check_completions(headroom, "grpo through wandb")
    detail = headroom.run("grpo through wandb")
    assert detail["state"] == "succeeded" and detail["config"]["max_steps"] == 3
    assert detail["config"]["wandb"]["summary"]["train_runtime"] > 0


VERL = {
    "trainer": {"n_gpus_per_node": 8, "nnodes": 2, "logger": ["mlflow"]},
    "actor_rollout_ref": {"model": {"path": "Qwen/Qwen3-8B"}},
}
STEP = {
    "timing_s/step": 100.0, "timing_s/testing": 10.0, "perf/total_num_tokens": 1000, "critic/rewards/mean": 0.5,
}  # fmt: skip


def log_steps(name: str, backend: str) -> None:
    from verl.utils.tracking import Tracking

    tracking = Tracking("verl's project", name, [backend], VERL)
    tracking.log({"val-core/gsm8k/reward/mean@4": 0.1}, step=0)
    for step in (1, 2):
        tracking.log(STEP | {"val-core/gsm8k/reward/mean@4": 0.1 + step / 10}, step=step)
    tracking.finish()


def check_verl(headroom: Headroom, name: str) -> None:
    assert headroom.curve(name) == [(0, 0.1), (1, 0.2), (2, pytest.approx(0.3))]
    hours = headroom.curve(name, x="device_hours")
    assert [x for x, _ in hours] == pytest.approx([0.0, 16 * 90 / 3600, 2 * 16 * 90 / 3600])
    assert steps_of(headroom.curve(name, "train/reward")) == [1, 2]
    assert headroom.records(name)[-1]["compute"]["tokens"] == 2000.0


@pytest.mark.usefixtures("mlflow_env")
def test_verls_tracking_through_mlflow(headroom: Headroom) -> None:
    log_steps("verl through mlflow", "mlflow")

    check_verl(headroom, "verl through mlflow")
    detail = headroom.run("verl through mlflow")
    assert (detail["state"], detail["model"]) == ("succeeded", "Qwen/Qwen3-8B")
    assert detail["config"]["trainer/n_gpus_per_node"] == "8"


@pytest.mark.usefixtures("trackio_env")
def test_verls_tracking_through_trackio(headroom: Headroom) -> None:
    log_steps("verl through trackio", "trackio")

    check_verl(headroom, "verl through trackio")


@pytest.mark.usefixtures("wandb_env")
def test_verls_tracking_through_wandb(headroom: Headroom) -> None:
    log_steps("verl through wandb", "wandb")

    check_verl(headroom, "verl through wandb")
    detail = headroom.run("verl through wandb")
    assert (detail["state"], detail["task"]) == ("succeeded", "verl's project")
    assert detail["config"]["trainer"]["n_gpus_per_node"] == 8


GENERATIONS = [("1 + 1 =", "2", 1.0), ("1 + 1 =", "3", 0.0)]


def log_generations(backend: str, name: str) -> None:
    from verl.utils.tracking import Tracking, ValidationGenerationsLogger

    tracking, generations = Tracking("verl's project", name, [backend], VERL), ValidationGenerationsLogger()
    for step in (1, 2):
        tracking.log(STEP, step=step)
        generations.log([backend], GENERATIONS, step)
    tracking.finish()


def check_generations(headroom: Headroom, name: str) -> None:
    assert headroom.samples(name) == [("eval", 1, 2), ("eval", 2, 2)]
    for step in (1, 2):
        found = headroom.responses(name, "eval", step)
        assert [(one["prompt"], one["response"], one["reward"]) for one in found] == GENERATIONS


@pytest.mark.usefixtures("mlflow_env")
def test_validation_generations_of_verl_through_mlflow(headroom: Headroom) -> None:
    log_generations("mlflow", "generations through mlflow")
    check_generations(headroom, "generations through mlflow")


@pytest.mark.usefixtures("trackio_env")
def test_validation_generations_of_verl_through_trackio(headroom: Headroom) -> None:
    log_generations("trackio", "generations through trackio")
    check_generations(headroom, "generations through trackio")


@pytest.mark.usefixtures("wandb_env")
def test_validation_generations_of_verl_through_wandb(headroom: Headroom) -> None:
    log_generations("wandb", "generations through wandb")
    check_generations(headroom, "generations through wandb")
