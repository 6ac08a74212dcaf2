"""A seeded synchronous run through the driver, with the real engine and trainer: its losses and pass rates are stored.

After a change that is meant to change them: PYTHONPATH=. .venv/bin/python -m tests.training.driver.test_stored_run
"""

import json
import tempfile
from pathlib import Path

import pytest

from tests.training.conftest import cut_down
from tests.training.driver.test_controller import Setup, change
from training.recipe import load_recipe

STORED = Path(__file__).with_name("stored_run.json")
NAMES = ["train/loss", "train/grad_norm", "train/reward", "train/response_length", "eval/pass_rate"]


def series(model: Path, run_dir: Path) -> dict[str, list[float]]:
    """Of eight synchronous steps, with a learning rate that makes each matter for the next."""
    recipe = change(
        cut_down(load_recipe("tiny/scalerl"), model),
        task__options={"min_digits": 1, "max_digits": 1, "train_prompts": 60, "held_out_pool": 16},
        rollout__prompts_per_step=4,
        rollout__generations_per_prompt=16,
        offpolicy__k=0,
        precision__generator="float32",
        optimizer__lr=1e-3,
        optimizer__warmup_steps=0,
        budget__max_steps=8,
        budget__device_hours=10.0,
        eval__prompts=8,
    )
    setup = Setup(recipe, run_dir)
    setup.run()
    return {name: list(setup.reporter.series(name).values()) for name in NAMES}


def test_run_is_the_stored_one(schooled_model: Path, tmp_path: Path) -> None:
    stored = json.loads(STORED.read_text())

    for name, values in series(schooled_model, tmp_path).items():
        assert values == pytest.approx(stored[name], rel=1e-3, abs=1e-6), name


def test_run_repeats_itself(schooled_model: Path, tmp_path: Path) -> None:
    first = series(schooled_model, tmp_path / "first")

    assert series(schooled_model, tmp_path / "second") == first
    assert sum(loss != 0 for loss in first["train/loss"]) >= 6


if __name__ == "__main__":
    from training.pretrain import Lessons, pretrain

    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "schooled"
        pretrain(model, Lessons(hidden=32, layers=1, heads=1, mlp=64, steps=150, batch=64, lr=1e-2, digits=1))
        STORED.write_text(json.dumps(series(model, Path(folder) / "run"), indent=1) + "\n")
