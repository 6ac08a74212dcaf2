"""The transformers engine, on models of a few thousand parameters, against the trainer's own forward pass."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from training.addresses import Group, free_address
from training.broadcast import Meeting, Sender, plan
from training.checkpoint_names import in_files
from training.engines.transformers_engine import TransformersEngine
from training.pretrain import EOS, VOCABULARY, make_tokenizer
from training.recipe import apply_overrides, load_recipe
from training.rollouts import Completion, Request
from training.trainer.network import load_network, logp_and_entropy
from training.transfer import TransferError, Weights, pack, unpack

END = VOCABULARY.index(EOS)
SHAPE = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "eos_token_id": END,
    "bos_token_id": None,
}
LATENT = {  # values narrower than keys; no mixture in either layer
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "first_k_dense_replace": 2,
}
MODELS: dict[str, Callable[[], Any]] = {
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE, num_key_value_heads=4, tie_word_embeddings=False)),
    "grouped, tied": lambda: Qwen2ForCausalLM(
        Qwen2Config(**SHAPE, num_key_value_heads=2, tie_word_embeddings=True)
    ),
    "mixture of experts": lambda: Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            **SHAPE, num_key_value_heads=2, moe_intermediate_size=24, num_experts=4, num_experts_per_tok=2
        )
    ),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, num_key_value_heads=1)),
    "latent attention": lambda: DeepseekV3ForCausalLM(DeepseekV3Config(**SHAPE, **LATENT)),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Untaught models, with logits far enough apart that a mistake shows."""
    torch.manual_seed(0)
    made = {}
    for name, new in MODELS.items():
        model = new()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(4)
        made[name] = tmp_path_factory.mktemp("models") / name.replace(", ", "-").replace(" ", "-")
        model.save_pretrained(made[name])
        make_tokenizer().save(str(made[name] / "tokenizer.json"))
    return made


def engine(folder: Path, **settings: Any) -> TransformersEngine:
    overrides = {
        "model": str(folder),
        "engine.type": "transformers",
        "precision.generator": "float32",
        "rollout.max_prompt_tokens": 12,
        "rollout.max_thinking_tokens": 32,
        "rollout.max_answer_tokens": 8,
        "length.interrupt_low": 30,
        "length.interrupt_high": 32,
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    return TransformersEngine(apply_overrides(load_recipe("tiny/scalerl"), overrides), folder, 1)


def logp_of(model: Any, request: Request, completion: Completion, temperature: float = 1.0) -> np.ndarray:
    """Log-probabilities of a completion's tokens by one forward pass over the whole sequence."""
    tokens = torch.tensor([request.tokens + completion.tokens])
    with torch.no_grad():
        logits = model(tokens[:, :-1], use_cache=False).logits.float()
        logp, _ = logp_and_entropy(logits, tokens[:, 1:], temperature=temperature)
    return logp[0, len(request.tokens) - 1 :].numpy()


def requests_of(count: int, max_tokens: int = 20) -> list[Request]:
    """Prompts of 1 to 12 tokens, some equal, and limits of 1 to `max_tokens`; each with a seed."""
    made = []
    for i in range(count):
        prompt = [3 + (i // 4 + j) % (len(VOCABULARY) - 3) for j in range(1 + i // 4 % 12)]
        made.append(Request(prompt, 1 + i * 7 % max_tokens, seed=1000 + i))
    return made


def run(work: Awaitable[Any]) -> Any:
    return asyncio.run(work)  # type: ignore[arg-type]


def is_whole(request: Request, completion: Completion) -> bool:
    """It ended at its first end-of-sequence token or at its limit, and says which."""
    ended = END in completion.tokens
    at_end = completion.tokens.index(END) + 1 if ended else request.max_tokens
    return len(completion.tokens) == at_end and completion.finished == ended and not completion.interrupted


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_are_the_trainers(folders: dict[str, Path], name: str, temperature: float) -> None:
    """Rows of all lengths together, fewer slots than requests: every hole is closed many times."""
    requests = requests_of(150)
    made = engine(folders[name], engine__max_sequences=24)

    completions = run(made.generate(requests, temperature))

    model = load_network(folders[name])
    assert all(map(is_whole, requests, completions))
    for request, completion in zip(requests, completions, strict=True):
        expected = logp_of(model, request, completion, temperature)
        assert np.allclose(completion.logp, expected, atol=1e-4)
        assert completion.versions == [0] * len(completion.tokens)


@pytest.mark.parametrize("name", MODELS)
def test_bfloat16_is_as_near_as_the_librarys(folders: dict[str, Path], name: str) -> None:
    """Whether the CPU has instructions for its products or not."""
    requests = requests_of(60)
    made = engine(folders[name], precision__generator="bfloat16", engine__max_sequences=24)

    completions = run(made.generate(requests, 1.0))

    exact, plain = load_network(folders[name]), load_network(folders[name]).to(torch.bfloat16)
    pairs = list(zip(requests, completions, strict=True))
    expected = [logp_of(exact, *pair) for pair in pairs]
    errors = [np.abs(one.logp - logp).mean() for (_, one), logp in zip(pairs, expected, strict=True)]
    librarys = [
        np.abs(logp_of(plain, *pair) - logp).mean() for pair, logp in zip(pairs, expected, strict=True)
    ]
    assert 0 < np.mean(errors) < 1.5 * np.mean(librarys)


def test_a_request_gives_the_same_whatever_runs_beside_it(folders: dict[str, Path]) -> None:
    requests = requests_of(60)
    together = run(engine(folders["qwen2"]).generate(requests, 1.0))
    few_slots = run(engine(folders["qwen2"], engine__max_sequences=5).generate(requests[::-1], 1.0))[::-1]
    made = engine(folders["qwen2"])
    alone = [run(made.generate([request], 1.0))[0] for request in requests[:20]]

    assert [c.tokens for c in few_slots] == [c.tokens for c in together]
    assert [c.tokens for c in alone] == [c.tokens for c in together[:20]]
    assert len({tuple(c.tokens) for c in together}) > 30


def test_a_partial_response_continues_as_it_would_have(folders: dict[str, Path]) -> None:
    made = engine(folders["qwen2"])
    wholes = run(made.generate([Request([5, 6, 7], 20, seed=seed) for seed in range(20)], 1.0))
    long = [(seed, whole.tokens) for seed, whole in enumerate(wholes) if len(whole.tokens) > 8]
    requests = [Request([5, 6, 7, *tokens[:6]], 14, seed=seed, position=6) for seed, tokens in long]
    rests = run(made.generate(requests, 1.0))

    assert len(long) > 3
    assert [tokens[:6] + rest.tokens for (_, tokens), rest in zip(long, rests, strict=True)] == [
        t for _, t in long
    ]


def test_samples_follow_the_models_distribution(folders: dict[str, Path]) -> None:
    count, prompt = 4000, [5, 6, 7]
    requests = [Request(prompt, 1, seed=seed) for seed in range(count)]
    unseeded = [Request(prompt, 1)] * count
    made = engine(folders["qwen2"])
    with torch.no_grad():
        expected = load_network(folders["qwen2"])(torch.tensor([prompt])).logits[0, -1].double().softmax(0)

    for asked in (requests, unseeded):
        tokens = [completion.tokens[0] for completion in run(made.generate(asked, 1.0))]
        shares = np.bincount(tokens, minlength=len(VOCABULARY)) / count
        error = np.sqrt(expected.numpy() * (1 - expected.numpy()) / count)
        assert (np.abs(shares - expected.numpy()) <= 4.5 * error + 1e-9).all()


def test_thousands_of_requests_through_few_slots(folders: dict[str, Path]) -> None:
    requests = requests_of(3000, max_tokens=6)

    completions = run(engine(folders["llama"], engine__max_sequences=64).generate(requests, 1.0))

    assert all(map(is_whole, requests, completions))
    assert any(completion.tokens == [END] for completion in completions)  # one that ends with its first token


def test_later_calls_join_running_ones(folders: dict[str, Path]) -> None:
    made = engine(folders["qwen2"])

    async def work() -> tuple[list[str], list[Completion]]:
        order: list[str] = []

        async def call(name: str, length: int) -> list[Completion]:
            completions = await made.generate([Request([5], length, seed=s) for s in range(40)], 1.0)
            order.append(name)
            return completions

        long = asyncio.create_task(call("long", 38))
        while not len(made._decoder):
            await asyncio.sleep(0)
        short = await call("short", 1)
        await long
        return order, short

    order, short = run(work())
    assert order == ["short", "long"] and all(len(completion.tokens) == 1 for completion in short)


# -- weights in flight ---------------------------------------------------------------------------------------


def changed(folder: Path) -> tuple[Any, Weights]:
    """Another model of the same shape, and its weights for the engine."""
    model = load_network(folder)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    state = model.state_dict()
    if model.config.tie_word_embeddings:
        del state["lm_head.weight"]
    return model, pack(pair for name, value in state.items() for pair in in_files(model, name, value).items())


async def update_after(
    made: TransformersEngine, weights: Weights, requests: list[Request], steps: int
) -> Any:
    running = asyncio.create_task(made.generate(requests, 1.0))
    for _ in range(steps):
        await asyncio.sleep(0)
    await made.update_weights(weights, 7)
    return await running


@pytest.mark.parametrize("name", ["qwen2", "grouped, tied", "mixture of experts"])
@pytest.mark.parametrize("how", ["keep", "rebuild"])
def test_weights_change_between_two_tokens(folders: dict[str, Path], name: str, how: str) -> None:
    """Later tokens have the new weights' log-probabilities exactly where the cache is rebuilt, and only there."""
    old, (new, weights) = load_network(folders[name]), changed(folders[name])
    requests = requests_of(80, max_tokens=25)
    made = engine(folders[name], engine__kv_on_update=how, engine__max_sequences=32)

    completions = run(update_after(made, weights, requests, 9))

    assert all(map(is_whole, requests, completions))
    crossed = [i for i, c in enumerate(completions) if set(c.versions) == {0, 7}]
    assert len(crossed) > 5
    errors = []
    for i in crossed:
        request, completion = requests[i], completions[i]
        first = completion.versions.index(7)
        assert completion.versions == sorted(completion.versions)
        before, after = logp_of(old, request, completion), logp_of(new, request, completion)
        assert np.allclose(completion.logp[:first], before[:first], atol=1e-4)
        errors.append(np.abs(completion.logp[first:] - after[first:]).max())
    if how == "rebuild":
        assert max(errors) < 1e-4
    else:
        assert max(errors) > 0.01


def test_damaged_weights_are_refused_and_the_old_ones_stay(folders: dict[str, Path]) -> None:
    _, weights = changed(folders["qwen2"])
    made = engine(folders["qwen2"])
    before = run(made.generate(requests_of(20), 1.0))
    weights.buckets[0].data[100] ^= 1

    with pytest.raises(TransferError, match="version 3"):
        run(made.update_weights(weights, 3))

    after = run(made.generate(requests_of(20), 1.0))
    assert [c.tokens for c in after] == [c.tokens for c in before] and after[0].versions[0] == 0


def test_weights_by_broadcast_arrive_while_requests_run(folders: dict[str, Path]) -> None:
    model, weights = changed(folders["grouped, tied"])
    named = list(unpack(weights.buckets))
    made, address = engine(folders["grouped, tied"]), free_address("127.0.0.1")
    request = Request([5, 6], 30, seed=1)

    async def work() -> Completion:
        meeting, group = Meeting(address, listens=True, timeout=20.0), Group(1, 2)
        await made.join_broadcast(address, plan(named))
        running = asyncio.create_task(made.generate([request] * 8, 1.0))
        await made.receive_weights(group, 1)
        sender = await asyncio.to_thread(Sender, meeting, group)
        assert await asyncio.to_thread(sender.send, named, 1000) == weights.checksum
        assert made._version == 0  # what has arrived waits
        await made.use_weights(5)
        await running
        return (await made.generate([request], 1.0))[0]

    completion = run(work())
    assert set(completion.versions) == {5}
    assert np.allclose(completion.logp, logp_of(model, request, completion), atol=1e-4)


def test_receiving_without_having_joined_is_an_error(folders: dict[str, Path]) -> None:
    made = engine(folders["qwen2"])
    for work in (made.receive_weights(Group(1, 2), 1), made.use_weights(1)):
        with pytest.raises(TransferError, match="has not joined"):
            run(work)


def test_weights_of_another_model_are_refused(folders: dict[str, Path]) -> None:
    made = engine(folders["qwen2"])
    _, other = changed(folders["grouped, tied"])

    with pytest.raises(TransferError, match="unfit.*k_proj"):
        run(made.update_weights(other, 3))


# -- ends ----------------------------------------------------------------------------------------------------


def test_interrupt_gives_back_what_there_is(folders: dict[str, Path]) -> None:
    requests = [Request([5, 6], 38, seed=seed) for seed in range(12)]
    made = engine(folders["qwen2"], engine__max_sequences=8)

    async def work() -> tuple[list[Completion], list[Completion]]:
        running = asyncio.create_task(made.generate(requests, 1.0))
        for _ in range(5):
            await asyncio.sleep(0)
        await made.interrupt()
        return await running, await made.generate(requests, 1.0)

    cut, whole = run(work())
    assert all(map(is_whole, requests, whole))
    assert sum(completion.interrupted and len(completion.tokens) > 1 for completion in cut) >= 4
    assert sum(completion.interrupted and not completion.tokens for completion in cut) >= 1  # had no slot yet
    for part, all_of_it in zip(cut, whole, strict=True):
        assert part.tokens == all_of_it.tokens[: len(part.tokens)]
        assert len(part.logp) == len(part.versions) == len(part.tokens)


def test_rows_of_a_caller_that_gives_up_leave(folders: dict[str, Path]) -> None:
    made = engine(folders["qwen2"], engine__max_sequences=4)

    async def work() -> list[Completion]:
        given_up = asyncio.create_task(made.generate([Request([5], 39)] * 8, 1.0))
        while not len(made._decoder):
            await asyncio.sleep(0)
        given_up.cancel()
        completions = await made.generate([Request([5], 2, seed=1)], 1.0)
        assert not len(made._decoder) and not made._waiting
        return completions

    assert len(run(work())) == 1


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request([], 3), "at least one token"),
        (Request([5], 0), "at least one token"),
        (Request([5, len(VOCABULARY)], 3), "outside the vocabulary of 23"),
        (Request([5] * 30, 23), r"30 \+ 23 tokens do not fit into the context of 52"),
    ],
)
def test_requests_that_cannot_run_are_refused(
    folders: dict[str, Path], request_: Request, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run(engine(folders["qwen2"]).generate([request_], 1.0))


def test_no_requests_no_completions(folders: dict[str, Path]) -> None:
    assert run(engine(folders["qwen2"]).generate([], 1.0)) == []


def test_a_cache_without_room_for_one_sequence_is_refused(tmp_path: Path) -> None:
    large = Qwen2Config(**SHAPE | {"num_hidden_layers": 2, "head_dim": 4096}, num_key_value_heads=4)
    Qwen2ForCausalLM(large).save_pretrained(tmp_path)

    with pytest.raises(
        ValueError,
        match=r"engine.kv_cache_mib \(1\) does not hold one sequence of \d+ tokens: it holds \d+ of \d+ bytes",
    ):
        engine(tmp_path, engine__kv_cache_mib=1)


def test_no_gpu_is_a_clear_error(folders: dict[str, Path]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(
        RuntimeError, match="resources.generator_gpus is 1: an engine needs 1 CUDA device, 0 visible"
    ):
        engine(folders["qwen2"], resources__generator_gpus=1, resources__trainer_gpus=1)


@pytest.mark.deep
def test_compiled_attention_gives_the_same(folders: dict[str, Path]) -> None:
    requests = requests_of(40)
    plain = run(engine(folders["grouped, tied"], engine__max_sequences=24).generate(requests, 1.0))
    made = engine(folders["grouped, tied"], engine__max_sequences=24, engine__compile=True)

    compiled = run(made.generate(requests, 1.0))

    for one, other in zip(plain, compiled, strict=True):
        assert one.tokens == other.tokens
        assert np.allclose(one.logp, other.logp, atol=1e-4)
