"""Our trainer's log-probabilities against those of torchtitan's Qwen3 with the same weights, in float32.

docs/scale.md says why the trainer keeps transformers' modules. torchtitan compiles its attention, which on a CPU takes
a compiler and minutes; here it runs uncompiled, which is the same function.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from transformers import Qwen3Config, Qwen3ForCausalLM

from training.recipe import apply_overrides, load_recipe
from training.trainer import sequences
from training.trainer.network import Networks, logp_and_entropy

qwen3: Any = pytest.importorskip("torchtitan.models.qwen3", reason="torchtitan is not installed: make parity")
common: Any = pytest.importorskip("torchtitan.models.common")
adapter: Any = pytest.importorskip("torchtitan.models.qwen3.state_dict_adapter")

LENGTHS = (24, 9, 17)
CONFIG = Qwen3Config(
    hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    head_dim=16, vocab_size=128, max_position_embeddings=64, tie_word_embeddings=True,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6},
)  # fmt: skip


@pytest.fixture(scope="module")
def policy() -> Qwen3ForCausalLM:
    """Random weights, large enough that positions and heads matter."""
    torch.manual_seed(0)
    model = Qwen3ForCausalLM._from_config(CONFIG, dtype=torch.float32, attn_implementation="sdpa")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention as plain calls."""
    monkeypatch.setattr(common.attention.FlexAttention, "_compiled_flex_attn", staticmethod(flex_attention))
    monkeypatch.setattr(common.attention, "_compiled_create_block_mask", create_block_mask)


def theirs(policy: Qwen3ForCausalLM, tokens: Tensor, positions: Tensor) -> Tensor:
    """[1, T, V] logits of torchtitan's model with our weights; a position of 0 begins a sequence."""
    c = CONFIG
    rope = common.CosSinRoPE.Config(dim=c.head_dim, max_seq_len=c.max_position_embeddings, theta=1e6)
    config = qwen3.Qwen3Model.Config(
        vocab_size=c.vocab_size,
        dim=c.hidden_size,
        norm=qwen3._qwen3_norm(c.hidden_size),
        enable_weight_tying=True,
        tok_embeddings=common.Embedding.Config(num_embeddings=c.vocab_size, embedding_dim=c.hidden_size),
        lm_head=common.Linear.Config(in_features=c.hidden_size, out_features=c.vocab_size),
        layers=qwen3._build_qwen3_layers(
            n_layers=c.num_hidden_layers,
            dim=c.hidden_size,
            n_heads=c.num_attention_heads,
            n_kv_heads=c.num_key_value_heads,
            head_dim=c.head_dim,
            hidden_dim=c.intermediate_size,
            fuse_qkv=False,
            attn_backend="flex",
            rope=rope,
        ),
    )
    model = config.build()
    state = adapter.Qwen3StateDictAdapter(config, None).from_hf(dict(policy.state_dict()))
    missing = model.load_state_dict(state, strict=False).missing_keys
    assert [name for name in missing if not name.endswith("rope.cache")] == []
    logits: Tensor = model(tokens, positions, model.get_attention_masks(positions))
    return logits


@torch.no_grad()  # flex attention has no backward pass on CPUs
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("is_packed", [False, True])
def test_log_probabilities_agree(policy: Qwen3ForCausalLM, is_packed: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(0, CONFIG.vocab_size, (len(LENGTHS), max(LENGTHS)), generator=generator)
    recipe = apply_overrides(load_recipe("tiny/scalerl"), {"precision.generator": "float32"})
    networks = Networks(policy, None, recipe)
    if is_packed:
        sequences.install(networks.transformers())
    inside = torch.arange(1, rows.shape[1]) < torch.tensor(LENGTHS).unsqueeze(1)

    ours, entropy, _ = networks(rows, inside, LENGTHS if is_packed else None)

    flat = torch.cat([row[:length] for row, length in zip(rows, LENGTHS, strict=True)])
    positions = torch.cat([torch.arange(length) for length in LENGTHS])
    logits = theirs(policy, flat.unsqueeze(0), positions.unsqueeze(0))[0].split(LENGTHS)
    for row, (tokens, said) in enumerate(zip(rows, logits, strict=True)):
        length = len(said)
        logp, spread = logp_and_entropy(said[:-1], tokens[1:length], temperature=1.0)
        torch.testing.assert_close(ours[row, : length - 1], logp, atol=1e-5, rtol=0)
        torch.testing.assert_close(entropy[row, : length - 1], spread, atol=1e-5, rtol=0)
