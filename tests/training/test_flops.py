import json
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoModelForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from training.flops import ModelShape, Work

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}


@pytest.mark.parametrize("tied", [False, True])
def test_matrix_products_are_those_that_torch_counts(tmp_path: Path, tied: bool) -> None:
    """Grouped queries, with a tied or an own head. torch counts attention without its causal mask: twice as much."""
    Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=tied)).save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager")
    shape, work = ModelShape.of(tmp_path), Work.of([20, 20])

    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(2, 20, dtype=torch.long))

    attention = 2.0 * shape.attention_width * work.squared_tokens
    assert shape.forward_flops(work) + attention == counter.get_total_flops()
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    assert shape.training_flops(work) == 3 * shape.forward_flops(work)


def test_experts_count_as_far_as_a_token_meets_them(tmp_path: Path) -> None:
    for chosen in (1, 4):
        config = MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=chosen)
        MixtralForCausalLM(config).save_pretrained(tmp_path / str(chosen))

    one, all_four = (ModelShape.of(tmp_path / name) for name in ("1", "4"))

    experts = 3 * 4 * 3 * 32 * 48  # layers x experts x matrices
    assert all_four.matrix_parameters - one.matrix_parameters == experts * 3 / 4
    assert one.parameters == all_four.parameters


def test_a_missing_size_is_named(tmp_path: Path) -> None:
    Qwen2ForCausalLM(Qwen2Config(**SIZES)).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["num_hidden_layers"]
    (tmp_path / "config.json").write_text(json.dumps(config))

    with pytest.raises(ValueError, match="num_hidden_layers"):
        ModelShape.of(tmp_path)
