"""Heads of other families: exact, or refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM, PreTrainedModel
from transformers.models.auto import modeling_auto

from tests.training.conftest import cut_down
from training.models import FAMILIES
from training.recipe import load_recipe
from training.trainer.heads import check_head
from training.trainer.network import head_logits
from training.trainer.trainer import Trainer

SIZE = {
    "vocab_size": 20,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
}
CASES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "qwen3": ("qwen3", {}, True),
    "tied": ("qwen3", {"tie_word_embeddings": True}, True),
    "granite of one": ("granite", {"logits_scaling": 1.0}, True),
    "granite": ("granite", {"logits_scaling": 8.0}, False),
    "cohere": ("cohere", {}, False),
    "gemma2": ("gemma2", {}, False),
    "bias": ("phi", {}, False),
    "transform": ("bert", {"is_decoder": True}, False),
}
# What a model needs besides the defaults of its class.
NEEDS: dict[str, dict[str, Any]] = {
    "dbrx": {"attn_config": {"rope_theta": 500000.0, "kv_n_heads": 8}},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "hunyuan_v1_dense": {"head_dim": 64},
    "hunyuan_v1_moe": {"head_dim": 64},
    "lfm2_moe": {"num_hidden_layers": 1, "layer_types": ["full_attention"]},
    "ministral": {"head_dim": 64},
    "nemotron": {"num_key_value_heads": 8},
}
NOT_CAUSAL = (
    modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
)


def model_of(family: str, settings: dict[str, Any], device: str) -> PreTrainedModel:
    """Of one layer."""
    torch.manual_seed(0)
    config = CONFIG_MAPPING[family](**settings)
    if hasattr(text := config.get_text_config(), "num_hidden_layers"):
        text.num_hidden_layers = 1
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config).eval()


def refuses(model: PreTrainedModel) -> bool:
    try:
        check_head(model)
    except ValueError as error:
        assert str(error).startswith("model: ")
        return True
    return False


@pytest.mark.parametrize("case", CASES)
def test_a_head_that_does_more_than_its_product_is_refused(case: str) -> None:
    """Also before the model has its weights."""
    family, settings, is_exact = CASES[case]
    model = model_of(family, {**SIZE, **settings}, "cpu")
    for parameter in model.parameters():  # biases start at zero
        torch.nn.init.normal_(parameter)
    tokens = torch.arange(1, 9).unsqueeze(0)
    with torch.no_grad():
        hidden = model.base_model(tokens).last_hidden_state
        is_same = torch.allclose(head_logits(model, hidden, torch.float32), model(tokens).logits, 1e-4, 1e-3)

    assert is_same == is_exact
    assert refuses(model) != is_exact
    assert refuses(model_of(family, {**SIZE, **settings}, "meta")) != is_exact
    assert "forward" not in vars(model.base_model)


def test_the_trainer_refuses_such_a_model(tmp_path: Path) -> None:
    model_of("granite", {**SIZE, "logits_scaling": 8.0}, "cpu").save_pretrained(tmp_path)
    recipe = cut_down(load_recipe("tiny/scalerl"), tmp_path).model_dump(mode="json")

    with pytest.raises(
        ValueError, match="^model: the logits of GraniteForCausalLM are not its head's weight"
    ):
        Trainer(recipe, str(tmp_path))


def is_trained(family: str) -> bool:
    """Whether a model of the defaults of its class has SDPA attention and the trainer's head."""
    made = MODEL_FOR_CAUSAL_LM_MAPPING[CONFIG_MAPPING[family]]
    if any(family in names for names in NOT_CAUSAL) or not made._supports_sdpa:
        return False
    try:
        model = model_of(family, NEEDS.get(family, {}), "meta")
    except Exception:  # each class fails in its own way
        return False
    return not refuses(model)


@pytest.mark.deep
def test_families_are_those_whose_head_is_exact() -> None:
    wanted = [name for name in sorted(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) if is_trained(name)]

    assert FAMILIES.read_text().split() == wanted, "training/families.txt should be:\n" + "\n".join(wanted)
