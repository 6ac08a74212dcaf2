"""One vLLM engine on a GPU: tokens a second by precision of the head, cache, weights by files and by NCCL in flight.

    .venv/bin/python -m benchmarks.bench_engine [--shapes dense-0.6b dense-1.7b] [--heads float32 bfloat16]
                                                [--requests N] [--prompt N] [--response N] [--kv-cache-mib N]

Random weights of a shape without weights, which the script makes; no token ends a response. The gap is |log-probability
of a sampled token in the trainer - in the engine|, with a head of the same precision on both sides. Weights come from
a process beside the engine on the same GPU; NCCL takes the two for two hosts, so that its seconds are those of the
loopback network, not of NVLink. `swap`: the engine stands still; `waiting`: for the step under way.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SHAPES = Path(__file__).parents[1] / "training" / "shapes"
ALONE = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1"}


class PrintedFigures(dict[str, Any]):
    """Says each figure as it comes."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        print(key, value, file=sys.stderr, flush=True)


def make_model(shape: str, folder: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    folder.mkdir()
    config = json.loads((SHAPES / f"{shape}.json").read_text()) | {"eos_token_id": 1}
    (folder / "config.json").write_text(json.dumps(config))
    with torch.device("cuda"):
        model: Any = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(folder), dtype=torch.bfloat16
        )
    model.cpu().save_pretrained(folder)


def recipe_of(folder: Path, args: argparse.Namespace, head: str) -> Any:
    from training.recipe import apply_overrides, load_recipe

    return apply_overrides(
        load_recipe("scalerl"),
        {
            "model": str(folder),
            "engine.max_sequences": args.requests,
            "engine.kv_cache_mib": args.kv_cache_mib,
            "precision.head_generator": head,
            "precision.head_trainer": head,
            "rollout.max_prompt_tokens": args.prompt,
            "rollout.max_thinking_tokens": args.response - 64,
            "rollout.max_answer_tokens": 64,
            "length.interrupt_low": args.response // 2,
            "length.interrupt_high": args.response - 64,
            "resources.generator_gpus": 1,
            "resources.trainer_gpus": 1,
        },
    )


def weights_of(folder: str | Path) -> list[tuple[str, Any]]:
    """(name, tensor) of a folder's weights, in bfloat16 on the CPU, without the head, which is tied."""
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    return [(name, value) for name, value in model.state_dict().items() if name != "lm_head.weight"]


def send(folder: str, address: str) -> None:
    """The trainer's side, in a process of its own: sends the weights of a folder twice, prints seconds of each."""
    from training.addresses import Group
    from training.broadcast import Meeting, Sender

    named = [(name, value.cuda()) for name, value in weights_of(folder)]
    sender = Sender(Meeting(address, listens=True), Group(1, 2), "cuda:0")
    for _ in range(2):
        began = time.perf_counter()
        sender.send(named)
        print(time.perf_counter() - began, flush=True)


async def measure(shape: str, head: str, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from training.addresses import Group, free_address
    from training.broadcast import plan
    from training.engines import make_engine
    from training.rollouts import Request
    from training.transfer import pack

    recipe = recipe_of(folder, args, head)
    began = time.perf_counter()
    engine: Any = make_engine(recipe.model_dump(mode="json"), str(folder), 1)
    await engine.check_head()
    found: dict[str, Any] = PrintedFigures(
        {"shape": shape, "head": head, "start_s": time.perf_counter() - began}
    )
    found["kv_tokens"] = engine.kv_tokens
    requests = [
        Request([2 + (7 * i + j) % 1000 for j in range(args.prompt)], args.response)
        for i in range(args.requests)
    ]

    async def tokens_a_second() -> tuple[float, list[Any]]:
        began = time.perf_counter()
        completions = await engine.generate(requests, 1.0)
        return sum(len(c.tokens) for c in completions) / (time.perf_counter() - began), completions

    await engine.generate(requests[:8], 1.0)
    found["tokens_s"], completions = await tokens_a_second()
    sample = [(requests[i].tokens, completions[i]) for i in range(0, args.requests, args.requests // 8)]

    for name, value in gap_to_trainer(folder, recipe, sample).items():
        found[name] = value

    named = weights_of(folder)
    weights = pack(named)
    found["weights_gib"] = sum(value.nbytes for _, value in named) / 2**30
    running = asyncio.ensure_future(tokens_a_second())
    for version in (1, 2):
        await asyncio.sleep(0.5)
        began = time.perf_counter()
        await engine.update_weights(weights, version)
        found[f"files_{version}"] = [
            time.perf_counter() - began,
            engine.update_seconds.waiting,
            engine.update_seconds.loading,
        ]
    found["tokens_s_files"], _ = await running

    address = free_address("127.0.0.1")
    command = [sys.executable, "-m", "benchmarks.bench_engine", "--send", str(folder), address]
    sender = subprocess.Popen(
        command, env={**os.environ, **ALONE, "NCCL_HOSTID": "trainer"}, stdout=subprocess.PIPE, text=True
    )
    await engine.join_broadcast(address, plan(named))
    running = asyncio.ensure_future(tokens_a_second())
    for version in (3, 4):
        await engine.receive_weights(Group(1, 2), 1)
        sent = await asyncio.to_thread(sender.stdout.readline)  # type: ignore[union-attr]
        await engine.use_weights(version)
        found[f"nccl_{version}"] = [float(sent), engine.update_seconds.waiting, engine.update_seconds.loading]
    found["tokens_s_nccl"], _ = await running
    sender.wait()
    engine.shutdown()
    return found


def gap_to_trainer(folder: Path, recipe: Any, sample: list[tuple[list[int], Any]]) -> dict[str, float]:
    """Of (prompt, completion) pairs, over the completions' tokens."""
    import torch

    from training.trainer.network import Networks, load_network

    networks = Networks(load_network(folder, "cuda"), None, recipe)
    gaps = []
    with torch.no_grad():
        for prompt, completion in sample:
            tokens = torch.tensor([prompt + completion.tokens], device="cuda")
            logp, _, _ = networks(tokens, torch.ones_like(tokens[:, 1:], dtype=torch.bool))
            there = torch.tensor(completion.logp, device="cuda")
            gaps.append((logp[0, len(prompt) - 1 :] - there).abs())
    gap = torch.cat(gaps)
    return {
        "gap_mean": gap.mean().item(),
        "gap_p99": gap.quantile(0.99).item(),
        "gap_max": gap.max().item(),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", nargs="+", default=["dense-0.6b", "dense-1.7b"])
    parser.add_argument("--heads", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--response", type=int, default=1024)
    parser.add_argument(
        "--kv-cache-mib", type=int, default=30_720, help="holds all requests of the 0.6B shape"
    )
    parser.add_argument("--send", nargs=2)
    args = parser.parse_args()
    if args.send:
        return send(*args.send)
    os.environ.update(ALONE, NCCL_HOSTID="engine")
    with tempfile.TemporaryDirectory(prefix="headroom-engine-") as home:
        for shape in args.shapes:
            folder = Path(home) / shape
            make_model(shape, folder)
            for head in args.heads:
                print(json.dumps(asyncio.run(measure(shape, head, args, folder))), flush=True)


if __name__ == "__main__":
    main()
