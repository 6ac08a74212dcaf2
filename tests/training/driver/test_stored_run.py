"""A seeded synchronous run through the driver, with the real engine and trainer: its losses and pass rates are stored.

It runs in a process of its own with kernels that every x86-64 processor of the last ten years has. With the fastest
that a processor has, sums are rounded in another order on another processor, and what was sampled differs with them.
Even so kinds of processors are known that differ from the second digit on: stored is a run for each kind that was at
hand, and the run here must be that of this machine's kind.

After a change that is meant to change them, on one processor of each kind (delete the others first):

    PYTHONPATH=. .venv/bin/python -m tests.training.driver.test_stored_run store
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.training.conftest import ONE_DIGIT, cut_down
from tests.training.driver.test_controller import Setup, change
from training.pretrain import pretrain
from training.recipe import load_recipe

ROOT = Path(__file__).resolve().parents[3]
STORED = Path(__file__).with_name("stored_run.json")
NAMES = ["train/loss", "train/grad_norm", "train/reward", "train/response_length", "eval/pass_rate"]
SAME_EVERYWHERE = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OMP_NUM_THREADS": "1",
}

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="stored with x86-64's kernels")


def kind_of_processor() -> str:
    """Maker and family."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return f"{told['vendor_id']} family {told['cpu family']}"


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


def made_twice() -> list[dict[str, list[float]]]:
    """The run, and the run again."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "schooled"
        pretrain(model, ONE_DIGIT)
        return [series(model, Path(folder) / name) for name in ("first", "second")]


@pytest.fixture(scope="module")
def runs() -> list[dict[str, list[float]]]:
    """`made_twice` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.driver.test_stored_run", "print"],
        cwd=ROOT,
        env=os.environ | SAME_EVERYWHERE | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_run_is_the_stored_one(runs: list[dict[str, list[float]]]) -> None:
    stored = json.loads(STORED.read_text())
    if kind_of_processor() not in stored:
        pytest.skip(f"no run is stored for {kind_of_processor()}, but for {', '.join(stored)}")

    for name, values in runs[0].items():
        assert values == pytest.approx(stored[kind_of_processor()][name], rel=1e-3, abs=1e-6), name


def test_run_repeats_itself(runs: list[dict[str, list[float]]]) -> None:
    first, second = runs

    assert second == first
    assert sum(loss != 0 for loss in first["train/loss"]) >= 6


if __name__ == "__main__":
    if sys.argv[1] == "store":
        command = [sys.executable, "-m", "tests.training.driver.test_stored_run", "print"]
        made = subprocess.run(command, env=os.environ | SAME_EVERYWHERE, stdout=subprocess.PIPE, check=True)
        known = json.loads(STORED.read_text()) | {
            kind_of_processor(): json.loads(made.stdout.splitlines()[-1])[0]
        }
        STORED.write_text(json.dumps(known, indent=1) + "\n")
    else:
        print(json.dumps(made_twice()))
