"""The trainer alone: speed of its variants side by side, and whether its memory stays flat.

    .venv/bin/python -m benchmarks.bench_trainer [--threads N] [--repeats N] [--steps N] [--micro-batch-tokens N]
                                                 [--skip-compile] [--ragged]

On a CPU: 512 sequences of 8 prompt and 32 response tokens, a Qwen2-shaped model of 0.66M parameters. On a GPU: 64
sequences of 256 and 768, 0.4B parameters and a vocabulary of 150,000. --ragged: responses of any length up to that.
The variants take turns on the same batch; medians. Activations: what the forward pass of one micro-batch keeps for
the backward pass (the most allocated beside weights, gradients and moments on a GPU). Operations are those of the
model; recomputed ones do not count. The share is of the device's peak in bfloat16, on a CPU of what a large matrix
product in float32 reaches on the same threads. Then `--steps` steps on batches of ever other shapes: resident memory
after step 50 and at the end, as a ratio.
"""

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from training.flops import ModelShape
from training.recipe import apply_overrides, load_recipe
from training.trainer.batching import Batch
from training.trainer.trainer import Trainer

PEAK_FLOPS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L4": 121e12}  # dense bfloat16, by the vendor
MIB = 1 << 20
GROUP = 16
VARIANTS: dict[str, dict[str, object]] = {
    "eager, float32": {"precision.trainer": "float32"},
    "eager": {},
    "padded rows": {"trainer.packed": "never"},
    "packed rows": {"trainer.packed": "always"},
    "recomputed layers": {"trainer.activation_checkpointing": True},
    "head in chunks of 256": {"trainer.head_chunk_tokens": 256},
    "compiled": {"trainer.compile": True},
    "compiled, recomputed": {"trainer.compile": True, "trainer.activation_checkpointing": True},
}


@dataclass(frozen=True)
class Setting:
    """Model and batch of a device."""

    device: str
    config: Qwen2Config
    rows: int
    prompt: int
    response: int
    micro_batch_tokens: int


@dataclass
class Measured:
    """Of one variant: seconds of each step, seconds until the first was done, MiB of activations."""

    trainer: Trainer
    start_seconds: float
    activation_mib: float
    seconds: list[float] = field(default_factory=list)


def main() -> int:
    args = _arguments()
    setting = _setting("cuda" if torch.cuda.is_available() else "cpu")
    if args.micro_batch_tokens:
        setting = Setting(**(vars(setting) | {"micro_batch_tokens": args.micro_batch_tokens}))
    with tempfile.TemporaryDirectory(prefix="headroom-trainer-") as folder:
        model = Path(folder) / "model"
        torch.manual_seed(0)
        network: Any = Qwen2ForCausalLM(setting.config)
        network.to(torch.bfloat16).save_pretrained(model)
        del network
        variants = {k: v for k, v in VARIANTS.items() if not (args.skip_compile and "trainer.compile" in v)}
        _compare(setting, model, args, variants)
        growth = _memory(setting, model, args)
    return 0 if growth < 1.02 else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--micro-batch-tokens", type=int, default=0, help="instead of 4096 (16384 on a GPU)")
    parser.add_argument("--skip-compile", action="store_true")
    parser.add_argument("--ragged", action="store_true", help="sequences of any length up to the longest")
    return parser.parse_args()


def _setting(device: str) -> Setting:
    shared: dict[str, Any] = {"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4}
    if device == "cpu":
        sizes: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 256, "vocab_size": 17}
        return Setting(device, Qwen2Config(**shared, **sizes, max_position_embeddings=64), 512, 8, 32, 4096)
    shared = {"num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 4}
    sizes = {"hidden_size": 1024, "intermediate_size": 2816, "vocab_size": 150_000}
    return Setting(device, Qwen2Config(**shared, **sizes, max_position_embeddings=2048), 64, 256, 768, 16384)


def _compare(
    setting: Setting, model: Path, args: argparse.Namespace, variants: dict[str, dict[str, object]]
) -> None:
    rng = np.random.default_rng(0)
    width = setting.prompt + setting.response
    shortest = setting.prompt + 2 if args.ragged else width
    batch = random_batch(rng, setting, rng.integers(shortest, width + 1, setting.rows))
    measured = {name: _begin(setting, model, args, changes, batch) for name, changes in variants.items()}
    for _ in range(args.repeats):
        for of in measured.values():
            of.seconds.append(_timed_step(of.trainer, batch))
    flops = ModelShape.of(model).training_flops(measured["eager"].trainer.train_step(batch).work)
    peak, peak_name = _peak(setting.device, args.threads)
    print(
        f"{setting.rows} sequences of {width} tokens, micro-batches of {setting.micro_batch_tokens}, ", end=""
    )
    print(f"{setting.device}, {args.threads} threads; {flops / 1e9:,.0f} GFLOP a step; peak: {peak_name}\n")
    print(f"{'':24}{'s a step':>10}{'ratio':>7}{'tokens/s':>11}{'GFLOP/s':>10}{'share':>7}", end="")
    print(f"{'activations MiB':>17}{'s to begin':>12}")
    base = statistics.median(measured["eager"].seconds)
    for name, of in measured.items():
        seconds = statistics.median(of.seconds)
        print(f"{name:24}{seconds:10.3f}{seconds / base:7.2f}{batch.lengths.sum() / seconds:11,.0f}", end="")
        print(
            f"{flops / seconds / 1e9:10,.0f}{flops / seconds / peak if peak else float('nan'):7.2f}", end=""
        )
        print(f"{of.activation_mib:17.1f}{of.start_seconds:12.1f}", flush=True)


def _begin(
    setting: Setting, model: Path, args: argparse.Namespace, changes: dict[str, object], batch: Batch
) -> Measured:
    start = time.perf_counter()
    trainer = make_trainer(setting, model, args.threads, changes)
    trainer.train_step(batch)
    _wait(setting.device)
    seconds = time.perf_counter() - start
    return Measured(trainer, seconds, activation_mib(trainer, setting, batch))


def make_trainer(setting: Setting, model: Path, threads: int, changes: dict[str, object]) -> Trainer:
    settings = {
        "model": str(model),
        "engine.type": "transformers",
        "filter.zero_variance": "keep",
        "precision.trainer": "bfloat16",
        "trainer.micro_batch_tokens": setting.micro_batch_tokens,
        "resources.trainer_cpus": threads,
        "resources.trainer_gpus": int(setting.device == "cuda"),
    }
    recipe = apply_overrides(load_recipe("tiny/scalerl"), settings | changes)
    return Trainer(recipe.model_dump(mode="json"), str(model), threads)


def random_batch(rng: np.random.Generator, setting: Setting, lengths: np.ndarray) -> Batch:
    """Random tokens and rewards; a prompt has GROUP samples."""
    shape = (len(lengths), int(lengths.max()))
    columns = np.arange(1, shape[1])
    return Batch(
        tokens=rng.integers(4, setting.config.vocab_size, shape).astype(np.int64),
        lengths=lengths.astype(np.int64),
        behaviour_logp=np.full((shape[0], shape[1] - 1), -2.5, np.float32),
        mask=(columns >= setting.prompt) & (columns < lengths[:, None]),
        rewards=rng.choice([-1.0, 1.0], shape[0]).astype(np.float32),
        prompt_index=np.arange(shape[0]) // GROUP,
        fresh=np.zeros((shape[0], shape[1] - 1), bool),
    )


def activation_mib(trainer: Trainer, setting: Setting, batch: Batch) -> float:
    """Of one micro-batch."""
    part, networks = next(trainer._share(batch, batch.mask)), trainer._networks
    if setting.device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        networks(*part.inputs)[0].sum().backward()
        peak = torch.cuda.max_memory_allocated() - before
        return (peak - sum(p.nbytes for p in networks.parameters())) / MIB
    weights = {p.data_ptr() for p in networks.parameters()}
    kept: dict[int, int] = {}

    def note(value: torch.Tensor) -> torch.Tensor:
        kept[value.data_ptr()] = value.nbytes
        return value

    with torch.autograd.graph.saved_tensors_hooks(note, lambda value: value):
        said = networks(*part.inputs)
    total = sum(size for address, size in kept.items() if address not in weights)
    del said
    return total / MIB


def _timed_step(trainer: Trainer, batch: Batch) -> float:
    start = time.perf_counter()
    trainer.train_step(batch)  # ends by reading the gradient's norm: nothing is still to be computed
    return time.perf_counter() - start


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _peak(device: str, threads: int) -> tuple[float, str]:
    """(FLOP/s, of what); 0 for a GPU that the table does not know."""
    if device == "cuda":
        name = torch.cuda.get_device_name()
        found = next((key for key in PEAK_FLOPS if key in name), None)
        return (PEAK_FLOPS[found], f"{name}, bfloat16") if found else (0.0, f"{name}: not in the table")
    torch.set_num_threads(threads)
    one, other = torch.randn(2, 1024, 1024).unbind()
    seconds = []
    for _ in range(15):
        start = time.perf_counter()
        one @ other
        seconds.append(time.perf_counter() - start)
    rate = 2 * 1024**3 / min(seconds)
    return rate, f"{rate / 1e9:.0f} GFLOP/s, a float32 product of 1024 x 1024"


def _memory(setting: Setting, model: Path, args: argparse.Namespace) -> float:
    """Largest ratio of resident memory at the end to that after step 50."""
    rng = np.random.default_rng(1)
    trainer = make_trainer(setting, model, args.threads, {})
    process, resident, seconds = psutil.Process(), {}, time.perf_counter()
    for step in range(1, args.steps + 1):
        rows = GROUP * int(rng.integers(1, max(2, setting.rows // GROUP // 4)))
        lengths = rng.integers(setting.prompt + 2, setting.prompt + setting.response + 1, rows)
        trainer.train_step(random_batch(rng, setting, lengths))
        if step in (50, args.steps):
            resident[step] = process.memory_info().rss / MIB
    if len(resident) < 2:
        return 1.0
    ratio = resident[args.steps] / resident[50]
    print(f"\nresident memory after step 50: {resident[50]:,.0f} MiB, after step {args.steps}: ", end="")
    print(f"{resident[args.steps]:,.0f} MiB; ratio {ratio:.3f} (goal: below 1.02), ", end="")
    print(f"{time.perf_counter() - seconds:.0f} s of batches of ever other shapes")
    return ratio


if __name__ == "__main__":
    sys.exit(main())
