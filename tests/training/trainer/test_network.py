from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.training.conftest import cut_down
from training.recipe import apply_overrides, load_recipe
from training.trainer.network import Critic, Networks, load_network

LENGTHS = torch.tensor([9, 6, 4])
TOKENS = torch.randint(4, 14, (3, 9), generator=torch.Generator().manual_seed(0))
WANTED = torch.arange(1, 9) < LENGTHS.unsqueeze(1)  # 8 + 5 + 3 of 24 positions
SIZES = {"1": 1, "3": 3, "all": 100}


class LogitRows(TorchDispatchMode):
    """Rows of every matrix product that has a column for each word."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary, self.seen = vocabulary, []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.mm.default and out.shape[1] == self.vocabulary:
            self.seen.append(out.shape[0])
        return out


def networks_with(model: Path, **settings: object) -> Networks:
    recipe = apply_overrides(
        cut_down(load_recipe("tiny/scalerl"), model), {k.replace("__", "."): v for k, v in settings.items()}
    )
    policy = load_network(model)
    torch.manual_seed(0)
    critic = Critic(policy, "shared") if recipe.uses_critic else None
    return Networks(policy, critic, recipe)


def loss_and_gradients(networks: Networks) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Of a loss in which log-probability, entropy and value count."""
    logp, entropy, values = networks(TOKENS, WANTED)
    loss = (logp.exp() * torch.arange(8)).sum() - 0.3 * entropy.sum()
    loss = loss if values is None else loss + (values - 1).square()[WANTED].sum()
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in networks.named_parameters()}


BODIES = {"float32": {}, "bfloat16": {"precision__trainer": "bfloat16"}}
TERMS = {"policy": {}, "entropy and values": {"loss__type": "ppo", "loss__entropy_coef": 0.1}}


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("size", [1, 3])
def test_head_in_chunks_gives_the_loss_and_gradients_of_one_piece(
    toy_model: Path, size: int, body: dict[str, str], terms: dict[str, object]
) -> None:
    whole = networks_with(toy_model, **body, **terms, trainer__head_chunk_tokens=100)
    cut = networks_with(toy_model, **body, **terms, trainer__head_chunk_tokens=size)

    loss, gradients = loss_and_gradients(whole)
    chunked_loss, chunked_gradients = loss_and_gradients(cut)

    torch.testing.assert_close(chunked_loss, loss, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(
        chunked_gradients, gradients, atol=2e-2 if body else 1e-6, rtol=1e-2 if body else 1e-5
    )


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_no_more_logits_than_a_chunk_and_none_of_padding(toy_model: Path, size: int) -> None:
    networks = networks_with(toy_model, trainer__head_chunk_tokens=size)

    with LogitRows(networks.policy.config.vocab_size) as forward:
        logp, _, _ = networks(TOKENS, WANTED)
    with LogitRows(networks.policy.config.vocab_size) as backward:
        logp.sum().backward()

    assert sum(forward.seen) == WANTED.sum()
    assert max(forward.seen + backward.seen) <= size
    assert sum(backward.seen) == (0 if size == 100 else WANTED.sum())  # one piece is not made anew


def test_unwanted_positions_are_zero_and_the_others_do_not_see_them(toy_model: Path) -> None:
    networks = networks_with(toy_model)
    other = torch.where(torch.arange(9) < LENGTHS.unsqueeze(1), TOKENS, 0)

    logp, entropy, _ = networks(TOKENS, WANTED)
    everywhere, _, _ = networks(TOKENS, torch.ones_like(WANTED))
    other_logp, _, _ = networks(other, WANTED)

    assert (logp[~WANTED] == 0).all() and (entropy[~WANTED] == 0).all()
    torch.testing.assert_close(logp[WANTED], everywhere[WANTED])
    torch.testing.assert_close(logp, other_logp)


def test_float32_head_under_a_bfloat16_body(toy_model: Path) -> None:
    """In chunks too, the logits of a float32 head are not rounded."""
    settings = {**BODIES["bfloat16"], "trainer__head_chunk_tokens": 3}
    exact = networks_with(toy_model, **settings, precision__head_trainer="float32")(TOKENS, WANTED)[0]
    rough = networks_with(toy_model, **settings, precision__head_trainer="bfloat16")(TOKENS, WANTED)[0]
    whole = networks_with(toy_model, **BODIES["bfloat16"])(TOKENS, WANTED)[0]

    assert exact.dtype == torch.float32
    torch.testing.assert_close(exact, whole, atol=1e-6, rtol=1e-6)
    assert (exact - rough).abs().max() > 1e-4


def test_nothing_wanted_has_gradients_of_zero(toy_model: Path) -> None:
    networks = networks_with(toy_model)

    logp, _, _ = networks(TOKENS, torch.zeros_like(WANTED))
    logp.sum().backward()

    assert all(p.grad is not None and not p.grad.any() for p in networks.parameters())
