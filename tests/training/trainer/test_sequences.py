"""Sequences behind one another say, and teach, what they do in padded rows."""

from pathlib import Path

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.training.conftest import cut_down
from tests.training.trainer.test_cpu_kernels import SIZE, grouped_query_model, windowed_model
from training.recipe import apply_overrides, load_recipe
from training.trainer import cpu_kernels, sequences
from training.trainer.network import Critic, Networks, compile_layers, recompute_layers
from training.trainer.sequences import arrange, is_packed

LENGTHS = (9, 6, 2, 12)
TOKENS = torch.randint(0, 20, (4, 12), generator=torch.Generator().manual_seed(0))
WANTED = torch.arange(1, 12) < torch.tensor(LENGTHS).unsqueeze(1)


def networks_of(model: torch.nn.Module, trunk: str | None = None) -> Networks:
    recipe = cut_down(load_recipe("tiny/scalerl"), Path("none"))
    critic = Critic(model, trunk) if trunk else None
    if critic is not None:
        torch.nn.init.constant_(critic.head.weight, 0.1)
    return Networks(model, critic, apply_overrides(recipe, {"loss.entropy_coef": 0.1}))


def loss_and_gradients(
    networks: Networks, lengths: tuple[int, ...] | None
) -> tuple[torch.Tensor, dict[str, torch.Tensor | None]]:
    """Of a loss in which every wanted log-probability, entropy and value counts by its place."""
    logp, entropy, values = networks(TOKENS, WANTED, lengths)
    weights = torch.linspace(-1, 1, WANTED.numel()).view(WANTED.shape) * WANTED
    loss = (weights * (logp + entropy)).mean()
    if values is not None:
        loss = loss + (weights * values.square()).mean()
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in networks.named_parameters()}


@pytest.mark.parametrize("trunk", [None, "shared", "separate"])
@pytest.mark.parametrize("make", [grouped_query_model, windowed_model])
@pytest.mark.parametrize("is_quick", [False, True])
def test_packed_rows_give_the_loss_and_gradients_of_padded_ones(
    make: object, trunk: str | None, is_quick: bool
) -> None:
    padded, packed = (networks_of(make(), trunk) for _ in range(2))
    if is_quick:
        cpu_kernels.install(packed, is_compiled=False)
    else:
        sequences.install(packed.transformers())

    said, expected = loss_and_gradients(packed, LENGTHS), loss_and_gradients(padded, None)

    torch.testing.assert_close(said, expected, atol=1e-5, rtol=1e-5)


def test_packed_rows_do_not_see_each_other() -> None:
    networks = networks_of(grouped_query_model())
    sequences.install(networks.transformers())
    other = TOKENS.clone()
    other[0] = (other[0] + 1) % 20

    logp, changed = (networks(tokens, WANTED, LENGTHS)[0] for tokens in (TOKENS, other))

    assert not torch.equal(logp[0], changed[0])
    torch.testing.assert_close(logp[1:], changed[1:], atol=0, rtol=0)


@pytest.mark.deep
def test_recomputed_and_compiled_layers_take_packed_rows_of_any_lengths() -> None:
    plain, quick = (networks_of(grouped_query_model()) for _ in range(2))
    for networks in (plain, quick):
        sequences.install(networks.transformers())
    compile_layers(quick, "cpu", backend="aot_eager")
    recompute_layers(quick)

    said, expected = loss_and_gradients(quick, LENGTHS), loss_and_gradients(plain, LENGTHS)

    torch.testing.assert_close(said, expected, atol=1e-5, rtol=1e-5)
    with torch.compiler.set_stance("fail_on_recompile"):
        for lengths in ((9, 7), (3, 12, 5)):
            networks = quick(TOKENS[: len(lengths)], WANTED[: len(lengths)], lengths)
            networks[0].sum().backward()


def test_places_are_those_of_the_padded_rows() -> None:
    tokens = torch.tensor([[7, 8, 0], [5, 0, 0], [4, 6, 9]])

    found = arrange(tokens, [2, 1, 3])

    assert found.tokens.tolist() == [[7, 8, 5, 4, 6, 9]]
    assert found.places.tolist() == [0, 1, 3, 6, 7, 8]
    assert found.arguments["position_ids"].tolist() == [[0, 1, 0, 0, 1, 2]]
    assert found.arguments["spans"].ends.tolist() == [0, 2, 3, 6]


def test_on_a_gpu_rows_are_packed_unless_the_recipe_or_the_model_is_against_it() -> None:
    model = grouped_query_model()

    assert is_packed(None, model, "cuda")
    assert not is_packed(None, model, "cpu")
    assert is_packed(True, model, "cpu")
    assert not is_packed(False, model, "cuda")


def test_models_that_carry_a_state_along_are_not_packed() -> None:
    config = Qwen3Config(**SIZE)
    model = Qwen3ForCausalLM(config)
    config.layer_types = ["full_attention", "linear_attention"]

    assert not is_packed(None, model, "cuda")
    with pytest.raises(ValueError, match=r"trainer.packed: .* would see each other in Qwen3ForCausalLM"):
        is_packed(True, model, "cpu")
