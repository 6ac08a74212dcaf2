import copy
from pathlib import Path

import pytest
import torch
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tests.training.conftest import cut_down
from training.recipe import apply_overrides, load_recipe
from training.trainer import sequences
from training.trainer.cpu_kernels import (
    LONGEST_FLOAT32,
    RmsNorm,
    causal_attention,
    in_float32,
    install,
    is_slow,
    multiply_in_float32,
)
from training.trainer.network import LoraLinear, Networks, add_adapters, compile_layers

SIZE = {
    "vocab_size": 20,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
}


def grouped_query_model() -> Qwen3ForCausalLM:
    """With norms of queries and keys, and fewer keys than queries."""
    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(**SIZE))


def windowed_model() -> Gemma2ForCausalLM:
    """With a window of four tokens, which needs a mask, and norms that scale by 1 + w."""
    torch.manual_seed(0)
    return Gemma2ForCausalLM(Gemma2Config(**SIZE, sliding_window=4, attn_implementation="sdpa"))


def narrow_values_model() -> DeepseekV3ForCausalLM:
    """With values narrower than queries and keys."""
    torch.manual_seed(0)
    latent = {
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 6,
    }
    config = {**SIZE, **latent, "num_key_value_heads": 4, "head_dim": 4, "first_k_dense_replace": 2}
    return DeepseekV3ForCausalLM(DeepseekV3Config(**config, attn_implementation="sdpa"))


def adapted_model() -> Qwen3ForCausalLM:
    """With low-rank adapters that already have an effect."""
    model = grouped_query_model()
    recipe = apply_overrides(load_recipe("tiny/scalerl"), {"trainer.lora_rank": 4})
    add_adapters(model, recipe.trainer, "cpu")
    for module in model.modules():
        if isinstance(module, LoraLinear):
            torch.nn.init.normal_(module.lora_b, std=0.1)
    return model


def networks_of(model: torch.nn.Module, dtype: str = "float32") -> Networks:
    recipe = cut_down(load_recipe("tiny/scalerl"), Path("none"))
    return Networks(model, None, apply_overrides(recipe, {"precision.trainer": dtype}))


def said(networks: Networks, length: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """(log-probabilities, gradients by name)."""
    tokens = torch.randint(0, 20, (3, length), generator=torch.Generator().manual_seed(1))
    logp, _, _ = networks(tokens, torch.ones(3, length - 1, dtype=torch.bool))
    logp.square().mean().backward()
    return logp.detach(), {name: p.grad for name, p in networks.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("length", [6, LONGEST_FLOAT32 + 1, LONGEST_FLOAT32 + 2])
@pytest.mark.parametrize("make", [grouped_query_model, windowed_model, narrow_values_model])
def test_same_log_probabilities_and_gradients_as_the_library(make: object, length: int) -> None:
    plain, quick = networks_of(make()), networks_of(make())
    install(quick, is_compiled=False)

    (logp, gradients), (plain_logp, plain_gradients) = said(quick, length), said(plain, length)

    torch.testing.assert_close(logp, plain_logp, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradients, plain_gradients, atol=1e-5, rtol=1e-4)


def test_bfloat16_stays_close_to_the_library() -> None:
    exact = said(networks_of(grouped_query_model()), 40)[0]
    plain, quick = (networks_of(grouped_query_model(), "bfloat16") for _ in range(2))
    install(quick, is_compiled=False)

    errors = [(said(networks, 40)[0] - exact).abs().mean() for networks in (plain, quick)]

    assert 0 < errors[1] < 1.5 * errors[0]


@pytest.mark.parametrize("has_bias", [False, True])
def test_multiplying_in_float32_rounds_once(has_bias: bool) -> None:
    """Exact products and sums, rounded to the dtype: up to the last bit, which the order of sums may turn."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 32, bias=has_bias).bfloat16()
    x = torch.randn(5, 64).bfloat16()
    bias = layer.bias.double() if has_bias else 0.0
    exact = x.double() @ layer.weight.double().T + bias

    multiply_in_float32(layer, torch.bfloat16)

    assert layer(x).dtype == torch.bfloat16
    torch.testing.assert_close(layer(x), exact.bfloat16(), atol=1e-4, rtol=2**-8)
    assert (layer(x) == exact.bfloat16()).double().mean() > 0.98


@pytest.mark.parametrize(
    ("make", "is_compiled"),
    [
        (grouped_query_model, False),
        (windowed_model, False),
        (narrow_values_model, False),
        (adapted_model, False),
        (grouped_query_model, True),
    ],
)
def test_bfloat16_without_its_instructions_is_bfloat16(make: object, is_compiled: bool) -> None:
    """As on a CPU that has none: as far from float32 as the library's bfloat16, and of its dtype."""
    exact, exact_gradients = said(networks_of(make()), 40)
    plain, rounded = (networks_of(make(), "bfloat16") for _ in range(2))
    multiply_in_float32(rounded.policy.get_decoder(), torch.bfloat16)
    sequences.install(rounded.transformers(), "headroom_rounded", in_float32(causal_attention))
    dtypes = set()
    layer = rounded.policy.model.layers[0]
    layer.register_forward_hook(lambda _, __, hidden: dtypes.add(hidden.dtype))
    if is_compiled:
        compile_layers(rounded, "cpu", backend="aot_eager")

    (logp, gradients), (plain_logp, plain_gradients) = said(rounded, 40), said(plain, 40)

    assert dtypes == {torch.bfloat16}
    assert 0 < (logp - exact).abs().mean() < 1.5 * (plain_logp - exact).abs().mean()
    for name, gradient in exact_gradients.items():
        error, plain_error = (
            (found[name] - gradient).norm() / gradient.norm() for found in (gradients, plain_gradients)
        )
        assert error < 1.5 * plain_error + 0.01, name


def test_which_products_are_slow() -> None:
    assert not is_slow(torch.float32, "cpu")
    assert not is_slow(torch.bfloat16, "cuda")
    assert is_slow(torch.bfloat16, "cpu") != torch.ops.mkldnn._is_mkldnn_bf16_supported()


def test_norms_of_another_formula_are_left_alone() -> None:
    norms = {}
    for model in (grouped_query_model(), windowed_model()):
        networks = networks_of(model)
        install(networks, is_compiled=False)
        norm = model.model.norm
        norms[type(norm).__name__] = "forward" in vars(norm)

    assert norms == {"Qwen3RMSNorm": True, "Gemma2RMSNorm": False}


def test_gradient_of_the_norm_is_that_of_its_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, generator=generator, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(RmsNorm.apply, (x, weight, 1e-6))


def test_copies_of_the_policy_keep_their_own_weights() -> None:
    networks = networks_of(grouped_query_model())
    other = copy.deepcopy(networks)
    install(networks, is_compiled=False)
    install(other, is_compiled=False)
    with torch.no_grad():
        other.policy.model.norm.weight.mul_(2)

    assert not torch.equal(said(networks, 6)[0], said(other, 6)[0])
