"""A real vLLM engine on a CUDA device: FP32 head, the trainer's log-probabilities, new weights in flight."""

import asyncio
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.gpu.test_broadcast_on_gpu import ALONE, sharing_a_gpu
from tests.training.conftest import LocalTrainer
from tests.training.test_vllm import Engine, is_generating, shifted
from training.addresses import Group, free_address
from training.broadcast import plan
from training.pretrain import Lessons, new_model, save
from training.recipe import apply_overrides, load_recipe
from training.rollouts import Completion, Request

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="needs vLLM for CUDA"),
]
ROUNDING = 0.15  # bfloat16 layers of two implementations
PROMPT = list(range(4, 14)) * 2
SEND = """
import sys
from pathlib import Path
from tests.training.test_vllm import shifted
from training.addresses import Group
from training.broadcast import Meeting, Sender
from training.recipe import load_recipe
recipe = load_recipe(sys.argv[1])
meeting = Meeting(sys.argv[2], listens=True, timeout=60.0)
named = dict(shifted(recipe, Path(recipe.model)).trainer.named_weights())
print(Sender(meeting, Group(1, 2), "cuda:0").send(named.items(), 10_000))
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """With a tiny untaught model; the trainer has the same GPU."""
    folder = tmp_path_factory.mktemp("gpu") / "m"
    lessons = Lessons(hidden=128, layers=2, heads=2, mlp=256, context=256)
    torch.manual_seed(0)
    save(new_model(lessons), lessons, folder)
    recipe = apply_overrides(
        load_recipe("tiny/scalerl"),
        {
            "model": str(folder),
            "engine.type": "vllm",
            "engine.gpu_memory_utilization": 0.3,
            "engine.max_sequences": 64,
            "resources.generator_gpus": 1,
            "resources.trainer_gpus": 1,
            "rollout.max_thinking_tokens": 128,
        },
    )
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {**ALONE, "NCCL_HOSTID": "engine"}.items():
            environment.setenv(name, value)
        started = Engine(recipe)
        yield started
        started.close()


def error(trainer: LocalTrainer, completion: Completion) -> float:
    """Median |log-probability here - there| of a completion's tokens."""
    tokens = torch.tensor([PROMPT + completion.tokens], device="cuda")
    logp, _, _ = trainer.trainer._networks(tokens, torch.ones_like(tokens[:, 1:], dtype=torch.bool))
    here = logp[0, len(PROMPT) - 1 :].detach().cpu().numpy()
    return float(np.median(np.abs(here - np.array(completion.logp))))


def test_head_is_float32(engine: Engine) -> None:
    engine.run(engine.engine.check_head())


def test_log_probabilities_are_the_trainers(engine: Engine) -> None:
    trainer = LocalTrainer(engine.recipe, engine.folder)

    completions = engine.run(engine.engine.generate([Request(PROMPT, 64)] * 8, 1.0))

    assert max(error(trainer, completion) for completion in completions) < ROUNDING / 3


def test_weights_change_in_flight(engine: Engine) -> None:
    old, new = LocalTrainer(engine.recipe, engine.folder), shifted(engine.recipe, engine.folder)

    async def update_while_generating() -> list[Completion]:
        await engine.engine.update_weights(old.weights(), 10)
        running = asyncio.ensure_future(engine.engine.generate([Request(PROMPT, 128)] * 64, 1.0))
        await engine.engine.update_weights(new.weights(), 11)
        return await running

    completions = engine.run(update_while_generating())
    (after,) = engine.run(engine.engine.generate([Request(PROMPT, 64)], 1.0))

    assert all(c.versions == sorted(c.versions) and set(c.versions) <= {10, 11} for c in completions)
    assert set(after.versions) == {11}
    assert error(new, after) < ROUNDING < error(old, after)


def test_weights_by_nccl_arrive_while_it_generates(engine: Engine, tmp_path: Path) -> None:
    old, new = LocalTrainer(engine.recipe, engine.folder), shifted(engine.recipe, engine.folder)
    recipe, address = tmp_path / "recipe.yaml", free_address("127.0.0.1")
    recipe.write_text(engine.recipe.model_dump_json())  # JSON is YAML
    named = dict(new.trainer.named_weights())

    async def receive_while_generating() -> list[Completion]:
        await engine.engine.update_weights(old.weights(), 20)
        running = asyncio.ensure_future(engine.engine.generate([Request(PROMPT, 128)] * 64, 1.0))
        await asyncio.wait_for(is_generating(engine), 20)
        await engine.engine.join_broadcast(address, plan(named.items()))
        await engine.engine.receive_weights(Group(1, 2), 1)
        said, _ = await asyncio.to_thread(sender.communicate, timeout=120)
        assert int(said) == new.weights().checksum
        await engine.engine.use_weights(21)
        return await running

    with sharing_a_gpu([sys.executable, "-c", SEND, str(recipe), address], "trainer") as sender:
        completions = engine.run(receive_while_generating())
    (after,) = engine.run(engine.engine.generate([Request(PROMPT, 64)], 1.0))

    assert len(completions) == 64 and all(completion.tokens for completion in completions)
    assert set(after.versions) == {21}
    assert error(new, after) < ROUNDING < error(old, after)
