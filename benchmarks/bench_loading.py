"""How much memory of its machine a trainer rank takes while the model is read.

    .venv/bin/python -m benchmarks.bench_loading [--ranks 2]

A Qwen2-shaped model of 400M parameters, stored in bfloat16, 1.6 GB in float32. "whole": each rank reads all of it and
keeps its share, as before. "by layer": each reads one right before it is split. Counted is what its process allocates
(RssAnon) at its most, without pages of the files. On CPUs the share itself stays there; on GPUs it does not.
"""

import argparse
import multiprocessing
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from training.addresses import free_address
from training.recipe import load_recipe
from training.schema import Resources
from training.trainer import network
from training.trainer.distributed import Ranks, join, leave
from training.trainer.layout import Layout
from training.trainer.loading import Filling, skeleton
from training.trainer.network import Networks, load_network

SHAPE = Qwen2Config(
    hidden_size=1280,
    intermediate_size=3584,
    num_hidden_layers=16,
    num_attention_heads=10,
    num_key_value_heads=10,
    vocab_size=32_000,
    max_position_embeddings=128,
    tie_word_embeddings=False,
)


def allocated() -> int:
    """Bytes of this process that no file holds."""
    fields = dict(
        line.split(":") for line in Path("/proc/self/status").read_text().splitlines() if ":" in line
    )
    return int(fields["RssAnon"].split()[0]) << 10


@contextmanager
def watched(peak: list[int]) -> Iterator[None]:
    """Appends the most that is allocated within, beyond what there was."""
    before, highest, is_over = allocated(), [0], threading.Event()

    def look() -> None:
        while not is_over.wait(0.002):
            highest.append(allocated())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        is_over.set()
        looking.join()
        peak.append(max(*highest, allocated()) - before)


def rank(folder: Path, ranks: Ranks, is_by_layer: bool, results: "multiprocessing.Queue[int]") -> None:
    """Loads as the trainer does; puts the peak of it."""
    torch.set_num_threads(1)
    join(ranks, "cpu")
    peak: list[int] = []
    with watched(peak):
        networks = Networks(
            skeleton(folder) if is_by_layer else load_network(folder), None, load_recipe("tiny/scalerl")
        )
        fill = Filling(networks, folder, "cpu") if is_by_layer else None
        network.shard(networks, Layout(Resources(), ranks), torch.float32, fill)
    results.put(peak[0])
    leave()


def measure(folder: Path, count: int, is_by_layer: bool) -> float:
    """Of the rank that takes most, bytes."""
    context, address = multiprocessing.get_context("spawn"), free_address()
    results: multiprocessing.Queue[int] = context.Queue()
    processes = [
        context.Process(target=rank, args=(folder, Ranks(index, count, address), is_by_layer, results))
        for index in range(count)
    ]
    for process in processes:
        process.start()
    peaks = [results.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    return max(peaks)


def main() -> None:
    """Prints both, as shares of the model in float32."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, default=2)
    count = parser.parse_args().ranks
    with tempfile.TemporaryDirectory() as folder:
        model = Qwen2ForCausalLM(SHAPE)
        size = 4 * model.num_parameters()
        model.bfloat16().save_pretrained(folder)
        del model
        for name, is_by_layer in (("whole", False), ("by layer", True), ("whole", False), ("by layer", True)):
            peak = measure(Path(folder), count, is_by_layer)
            print(
                f"{name}: {peak / 2**20:,.0f} MiB, {peak / size:.2f} of the model, a rank's share is {1 / count:.2f}"
            )


if __name__ == "__main__":
    main()
