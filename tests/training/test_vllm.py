"""Real vLLM, one engine for all tests of this file; every await happens in the engine's own event loop."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch

from tests.training.conftest import LocalTrainer, MemoryReporter
from tests.training.test_rollouts import check_length_control
from training.addresses import Group, free_address
from training.broadcast import Meeting, Sender, plan
from training.codec import Codec
from training.driver.controller import Controller
from training.driver.snapshot import Attempt
from training.engines.vllm_engine import EngineDied
from training.flops import ModelShape
from training.recipe import Recipe, apply_overrides, load_recipe
from training.rollouts import Completion, Request, Rollouts
from training.tasks import make_task
from training.tasks.arithmetic import make_prompt
from training.transfer import TransferError

pytestmark = pytest.mark.vllm
T = TypeVar("T")
SHIFTED_ROUNDING = 0.15  # bfloat16 against float32 with `shifted` weights, but for the odd unlikely token


class Engine:
    """A VllmEngine and the event loop that it lives in."""

    def __init__(self, recipe: Recipe) -> None:
        from training.engines import make_engine

        self.recipe = recipe
        self.folder = Path(recipe.model)
        self._runner = asyncio.Runner()
        self.engine = self.run(self._make(make_engine))

    async def _make(self, make_engine: Any) -> Any:
        return make_engine(self.recipe.model_dump(mode="json"), str(self.folder))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def close(self) -> None:
        self.engine.shutdown()
        self._runner.close()


@pytest.fixture(scope="session")
def vllm(toy_model: Path) -> Iterator[Engine]:
    """Starts vLLM once a session: some 20 s."""
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "VLLM_ENABLE_V1_MULTIPROCESSING")}
    recipe = apply_overrides(
        load_recipe("tiny/scalerl"),
        {
            "model": str(toy_model),
            "engine.type": "vllm",
            "rollout.prompts_per_step": 2,
            "rollout.generations_per_prompt": 4,
            "rollout.max_thinking_tokens": 40,
            "filter.zero_variance": "keep",
            "optimizer.lr": 0.02,
            "optimizer.warmup_steps": 0,
            "budget.max_steps": 3,
            "eval.every_steps": 1,
            "eval.prompts": 8,
            "eval.k": 2,
            "engine.kv_cache_mib": 64,
            "offpolicy.k": 0,  # seeds count
            "engine.prefix_caching": True,
        },
    )
    engine = Engine(recipe)
    yield engine
    engine.close()
    for name, value in before.items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def errors(trainer: LocalTrainer, prompt: list[int], completion: Completion) -> np.ndarray:
    """Log-probability here - there of a completion's tokens."""
    tokens = torch.tensor([prompt + completion.tokens])
    logp, _, _ = trainer.trainer._networks(tokens, torch.ones_like(tokens[:, 1:], dtype=torch.bool))
    return logp[0, len(prompt) - 1 :].detach().numpy() - np.array(completion.logp)


def difference(trainer: LocalTrainer, prompt: list[int], completion: Completion) -> float:
    """Largest |log-probability here - there| of a completion's tokens."""
    return float(np.abs(errors(trainer, prompt, completion)).max())


def test_log_probabilities_are_the_trainers(vllm: Engine) -> None:
    trainer = LocalTrainer(vllm.recipe, vllm.folder)
    vllm.run(vllm.engine.update_weights(trainer.weights(), 0))
    prompt = Codec(vllm.folder).encode("37+58=<think>")

    completions = vllm.run(vllm.engine.generate([Request(prompt, 20)] * 8, 1.0))

    assert len({tuple(completion.tokens) for completion in completions}) > 1
    assert max(difference(trainer, prompt, completion) for completion in completions) < 0.05


def shifted(recipe: Recipe, folder: Path) -> LocalTrainer:
    """A trainer whose policy differs in every matrix from the model in the folder."""
    trainer, noise = LocalTrainer(recipe, folder), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in trainer.trainer._networks.policy.named_parameters():
            if "norm" not in name:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=noise).to(parameter.device))
    return trainer


async def is_generating(vllm: Engine) -> None:
    """Returns when the engine's core has begun with a request."""
    core = vllm.engine._engine.output_processor
    while not any(state.detokenizer.num_output_tokens() > 2 for state in core.request_states.values()):
        await asyncio.sleep(0.001)


def in_the_middle(
    attempt: Callable[[], list[Completion]], was_hit: Callable[[Completion], bool]
) -> list[Completion]:
    """Of an attempt that hit more than ten completions: on a busy machine a whole answer may be made between two
    turns of this process, and what should have come in its middle comes after it."""
    for _ in range(20):
        completions = attempt()
        if sum(map(was_hit, completions)) > 10:
            return completions
    raise AssertionError("twenty times before or after all of the generation")


@pytest.mark.parametrize("kv_on_update", ["keep", "rebuild"])
def test_weights_change_in_flight_and_no_request_is_lost(vllm: Engine, kv_on_update: str) -> None:
    """Requests that are running when new weights arrive finish; each token says which weights made it."""
    old, new = LocalTrainer(vllm.recipe, vllm.folder), shifted(vllm.recipe, vllm.folder)
    prompt = Codec(vllm.folder).encode("37+58=<think>")
    vllm.engine.kv_on_update = kv_on_update

    async def update_while_generating() -> list[Completion]:
        await vllm.engine.update_weights(old.weights(), 10)
        running = asyncio.ensure_future(vllm.engine.generate([Request(prompt, 40) for _ in range(128)], 1.0))
        await asyncio.wait_for(is_generating(vllm), 20)
        await vllm.engine.update_weights(new.weights(), 11)
        return await running

    completions = in_the_middle(
        lambda: vllm.run(update_while_generating()), lambda c: set(c.versions) == {10, 11}
    )
    after = vllm.run(vllm.engine.generate([Request(prompt, 20)] * 8, 1.0))

    assert len(completions) == 128
    assert all(c.tokens and not c.interrupted and len(c.versions) == len(c.tokens) for c in completions)
    assert all(c.finished or len(c.tokens) == 40 for c in completions)
    crossed = [c for c in completions if set(c.versions) == {10, 11}]
    assert all(c.versions == sorted(c.versions) for c in crossed)
    assert max(np.abs(errors(old, prompt, c)[: c.versions.index(11)]).max() for c in crossed) < 0.05
    late = [np.abs(errors(new, prompt, c)[c.versions.index(11) :]).max() for c in crossed]
    if kv_on_update == "rebuild":
        assert np.mean(late) < 0.04 and np.quantile(late, 0.95) < SHIFTED_ROUNDING
    else:
        assert np.mean(late) > 0.08 and max(late) > 0.3
    assert all(set(completion.versions) == {11} for completion in after)
    assert np.median([difference(new, prompt, completion) for completion in after]) < SHIFTED_ROUNDING
    assert max(difference(old, prompt, completion) for completion in after) > 0.1


@pytest.mark.skipif(not torch.cpu._is_avx512_supported(), reason="vLLM packs layers by AVX-512 only")
def test_later_weights_of_a_small_model_go_past_the_reload_of_vllm(vllm: Engine) -> None:
    """And are as right as those that went through it: alternately, so that no layer can have kept its old ones."""
    prompt = Codec(vllm.folder).encode("37+58=<think>")
    trainers = [LocalTrainer(vllm.recipe, vllm.folder), shifted(vllm.recipe, vllm.folder)]
    vllm.run(vllm.engine.update_weights(trainers[1].weights(), 11))  # the first go through it
    assert vllm.run(vllm.engine._call("loads_in_place")) == [True]

    for version in range(12, 16):
        vllm.run(vllm.engine.update_weights(trainers[version % 2].weights(), version))
        completions = vllm.run(vllm.engine.generate([Request(prompt, 20)] * 8, 1.0))
        found = [max(difference(t, prompt, c) for c in completions) for t in trainers]
        assert found[version % 2] < SHIFTED_ROUNDING < found[1 - version % 2]
        assert {v for c in completions for v in c.versions} == {version}


def test_a_cached_prefix_never_outlives_its_weights(vllm: Engine) -> None:
    """The fixture's engine caches prefixes in blocks of 32 tokens; this prompt fills one."""
    prompt = Codec(vllm.folder).encode("1+2=" * 9)
    vllm.engine.kv_on_update = "keep"
    for version, trainer in enumerate(
        [LocalTrainer(vllm.recipe, vllm.folder), shifted(vllm.recipe, vllm.folder)], start=20
    ):
        vllm.run(vllm.engine.update_weights(trainer.weights(), version))
        for _ in range(2):  # the second time with this version's prefix
            completions = vllm.run(vllm.engine.generate([Request(prompt, 12)] * 4, 1.0))
            assert (
                max(difference(trainer, prompt, completion) for completion in completions) < SHIFTED_ROUNDING
            )


@pytest.mark.parametrize(("kv_on_update", "cached"), [("keep", 64), ("rebuild", 0)])
def test_what_was_made_before_a_forced_end_is_not_computed_again(
    vllm: Engine, kv_on_update: str, cached: int
) -> None:
    """Also where weights have changed meanwhile, unless the cache is to be of the newest weights."""
    old, new = LocalTrainer(vllm.recipe, vllm.folder), shifted(vllm.recipe, vllm.folder)
    vllm.engine.kv_on_update = kv_on_update
    version = 24 if kv_on_update == "keep" else 26
    vllm.run(vllm.engine.update_weights(old.weights(), version))
    request = Request(Codec(vllm.folder).encode("3+4=" * 11), 24)  # 44 and 24 tokens: two full blocks of 32
    while len((completion := vllm.run(vllm.engine.generate([request], 1.0))[0]).tokens) < 24:
        pass
    vllm.run(vllm.engine.update_weights(new.weights(), version + 1))
    before = vllm.engine.prefilled.cached
    so_far = request.tokens + completion.tokens

    def go_on(begun: int | None) -> int:
        vllm.run(vllm.engine.generate([Request(so_far + [4, 5], 2, position=26, begun=begun)], 1.0))
        return vllm.engine.prefilled.cached - before

    assert go_on(None) == 0  # as one that begins now
    assert go_on(completion.versions[0]) == cached


def test_damaged_weights_are_refused_and_the_old_ones_stay(vllm: Engine) -> None:
    trainer = LocalTrainer(vllm.recipe, vllm.folder)
    vllm.run(vllm.engine.update_weights(trainer.weights(), 30))
    damaged = shifted(vllm.recipe, vllm.folder).weights()
    damaged.buckets[0].data[1000] ^= 1

    with pytest.raises(TransferError, match="version 31 did not arrive"):
        vllm.run(vllm.engine.update_weights(damaged, 31))

    prompt = Codec(vllm.folder).encode("1+2=")
    (completion,) = vllm.run(vllm.engine.generate([Request(prompt, 12)], 1.0))
    assert difference(trainer, prompt, completion) < 0.05 and set(completion.versions) == {30}


def test_weights_by_broadcast(vllm: Engine) -> None:
    """One sender, two receivers: vLLM's worker and a transformers engine."""
    from training.engines.transformers_engine import TransformersEngine

    trainer = shifted(vllm.recipe, vllm.folder)
    other = TransformersEngine(vllm.recipe, vllm.folder, 1)
    address, named = free_address("127.0.0.1"), dict(trainer.trainer.named_weights())
    prompt = Codec(vllm.folder).encode("1+2=")

    async def work() -> list[Completion]:
        meeting, group = Meeting(address, listens=True, timeout=30.0), Group(1, 3)
        running = asyncio.ensure_future(vllm.engine.generate([Request(prompt, 40)] * 16, 1.0))
        for rank, engine in enumerate((vllm.engine, other), start=1):
            await engine.join_broadcast(address, plan(named.items()))
            await engine.receive_weights(group, rank)
        sender = await asyncio.to_thread(Sender, meeting, group)
        sent = await asyncio.to_thread(sender.send, named.items(), 10_000)
        assert sent == trainer.weights().checksum
        await asyncio.gather(vllm.engine.use_weights(40), other.use_weights(40))
        assert len(await running) == 16
        return [(await engine.generate([Request(prompt, 12)], 1.0))[0] for engine in (vllm.engine, other)]

    for completion in vllm.run(work()):
        assert difference(trainer, prompt, completion) < SHIFTED_ROUNDING and set(completion.versions) == {40}


def test_interrupt_gives_back_what_there_is(vllm: Engine) -> None:
    prompt = Codec(vllm.folder).encode("37+58=<think>")
    several = [Request(prompt, 40)] * 64 + [Request(prompt[:i], 40) for i in range(1, 5)]  # n = 64 and n = 1
    trainer = LocalTrainer(vllm.recipe, vllm.folder)
    vllm.run(vllm.engine.update_weights(trainer.weights(), 50))

    async def at_once() -> list[Completion]:
        running = asyncio.ensure_future(vllm.engine.generate(several, 1.0))
        await asyncio.sleep(0)
        await vllm.engine.interrupt()
        return await asyncio.wait_for(running, 20)

    async def while_generating() -> list[Completion]:
        running = asyncio.ensure_future(vllm.engine.generate(several, 1.0))
        await asyncio.wait_for(is_generating(vllm), 20)
        await vllm.engine.interrupt()
        return await asyncio.wait_for(running, 20)

    early = vllm.run(at_once())
    cut = in_the_middle(lambda: vllm.run(while_generating()), lambda c: c.interrupted and len(c.tokens) > 1)
    whole = vllm.run(vllm.engine.generate(several, 1.0))
    assert all(c.interrupted for c in early)
    for completion in cut:
        assert completion.interrupted or completion.finished or len(completion.tokens) == 40
        assert len(completion.tokens) == len(completion.logp) == len(completion.versions)
    cut_short = [c for c in cut[:64] if c.tokens]
    assert max(difference(trainer, prompt, completion) for completion in cut_short) < 0.05
    assert not any(c.interrupted for c in whole)


def test_more_seeded_prompts_than_one_step_takes(vllm: Engine) -> None:
    """vLLM cannot set a seeded request's random state back on a CPU, as it does for a prefill in parts."""
    prompt = Codec(vllm.folder).encode("37+58=<think>")
    requests = [Request(prompt + [4 + i % 10] * 20, 2, seed=i) for i in range(300)]

    completions = vllm.run(vllm.engine.generate(requests, 1.0))

    assert sum(len(request.tokens) for request in requests) > 3 * 2048
    assert all(completion.tokens for completion in completions)


def test_the_same_seed_gives_the_same_tokens(vllm: Engine) -> None:
    prompt = Codec(vllm.folder).encode("37+58=<think>")
    requests = [Request(prompt, 20, seed=seed) for seed in range(8)]

    first = vllm.run(vllm.engine.generate(requests, 1.0))
    again = vllm.run(vllm.engine.generate([Request(prompt, 20)] * 8 + requests[::-1], 1.0))[:7:-1]

    assert [c.tokens for c in first] == [c.tokens for c in again]
    assert len({tuple(c.tokens) for c in first}) > 5


@pytest.mark.parametrize("mode", ["interruption", "none"])
def test_length_control(vllm: Engine, mode: str) -> None:
    recipe, codec = apply_overrides(vllm.recipe, {"length.mode": mode}), Codec(vllm.folder)
    vllm.run(vllm.engine.update_weights(LocalTrainer(vllm.recipe, vllm.folder).weights(), 0))
    rollouts = Rollouts(recipe, make_task("arithmetic"), codec, vllm.engine)

    (group,) = vllm.run(rollouts.groups([make_prompt(37, 58)], 64, 1.0))

    check_length_control(recipe, group, codec.encode(recipe.length.phrase))
    assert any(sample.interrupted for sample in group.samples) is (mode == "interruption")


def test_driver_trains_with_vllm(vllm: Engine, tmp_path: Path) -> None:
    reporter = MemoryReporter()
    trainer = LocalTrainer(vllm.recipe, vllm.folder)
    vllm.run(vllm.engine.update_weights(trainer.weights(), 0))
    attempt = Attempt(
        recipe=vllm.recipe,
        task=make_task("arithmetic", vllm.recipe.task.options),
        codec=Codec(vllm.folder),
        generator=vllm.engine,
        trainer=trainer,
        reporter=reporter,
        run_dir=tmp_path,
        shape=ModelShape.of(vllm.folder),
    )

    outcome = vllm.run(Controller(attempt).run())

    assert (outcome.state, outcome.step) == ("succeeded", 3)
    mismatch = reporter.series("train/mismatch_logp_mean")
    assert list(mismatch) == [0, 1, 2, 3]
    assert max(mismatch.values()) < 0.05  # the engine's weights are the trainer's at every evaluation


def test_a_dead_engine_is_named_within_seconds(vllm: Engine) -> None:
    """The last test of this file: it kills the engine."""
    weights = LocalTrainer(vllm.recipe, vllm.folder).weights()
    (worker,) = vllm.run(vllm.engine.processes())

    async def work() -> None:
        running = asyncio.ensure_future(vllm.engine.generate([Request([5, 6, 7], 50)] * 64, 1.0))
        await asyncio.wait_for(is_generating(vllm), 20)
        os.kill(worker, signal.SIGKILL)
        for owed, call in [
            ("completions", running),
            ("completions", vllm.engine.generate([Request([5], 3)], 1.0)),
            ("new weights", vllm.engine.update_weights(weights, 60)),
        ]:
            with pytest.raises(EngineDied, match=rf"workers: {worker}\) has died; it owes {owed}"):
                await asyncio.wait_for(call, 10)

    vllm.run(work())
