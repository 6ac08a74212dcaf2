"""A whole run on one GPU: driver, Ray, vLLM and trainer, which take turns."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from training.pretrain import Lessons, new_model, save

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.ray,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="needs vLLM for CUDA"),
]
ONE_GPU = {
    "resources.shared": "true",
    "resources.generator_gpus": "1",
    "resources.trainer_gpus": "1",
    "engine.type": "vllm",
    "engine.kv_cache_mib": "256",
}


def test_a_run_whose_engine_and_trainer_take_turns_on_one_gpu(tmp_path: Path) -> None:
    torch.manual_seed(0)
    lessons = Lessons(hidden=128, layers=2, heads=4, mlp=256, context=96)
    save(new_model(lessons), lessons, model := tmp_path / "model")
    command = [sys.executable, "-m", "training", "run", "tiny/loo-8op", "--steps", "10"]
    small = {"model": str(model), "filter.zero_variance": "keep", "eval.prompts": "8", "eval.k": "2"}
    options = [f"--set={name}={value}" for name, value in (small | ONE_GPU).items()]

    done = subprocess.run(
        [*command, "--run-dir", str(tmp_path / "run"), *options], capture_output=True, text=True, timeout=380
    )

    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    steps = [metrics for line in lines if "train/version_newest" in (metrics := json.loads(line)["metrics"])]
    assert [metrics["train/version_newest"] for metrics in steps] == [0] * 8 + [8] * 2  # blocks of eight
    gaps = [m["train/mismatch_fresh_logp_mean"] for m in steps if "train/mismatch_fresh_logp_mean" in m]
    assert len(gaps) == 2 and max(gaps) < 0.05  # what the engine sampled from is what the trainer has
