from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DeepseekV3Config, Qwen3Config

from training.engines.slot_cache import Room, SlotCache, kv_room, refuse_too_small
from training.engines.vllm_engine import _check_room, _engine_args
from training.recipe import Recipe, apply_overrides, load_recipe

GPUS = {"resources.generator_gpus": 2, "resources.trainer_gpus": 2}
TURNS = {"resources.shared": True, "offpolicy.k": 0}


def recipe(**settings: Any) -> Recipe:
    return apply_overrides(load_recipe("scalerl"), settings)


@pytest.mark.parametrize(
    ("settings", "mib"),
    [
        ({}, 4096),
        (GPUS, None),
        (GPUS | TURNS, 4096),
        ({"engine.kv_cache_mib": 100}, 100),
        (GPUS | {"engine.kv_cache_mib": 100}, 100),
    ],
)
def test_memory_is_open_only_on_gpus_of_its_own(settings: dict[str, Any], mib: int | None) -> None:
    no_gpus = {"resources.generator_gpus": 0, "resources.trainer_gpus": 0}
    found = recipe(**no_gpus | settings).kv_cache_bytes

    assert found == (None if mib is None else mib << 20)


@pytest.mark.parametrize(
    ("settings", "share"), [(GPUS, 0.78), (GPUS | TURNS, 0.01), (GPUS | {"engine.kv_cache_mib": 100}, 0.01)]
)
def test_an_engine_with_a_cache_of_given_size_starts_on_a_gpu_that_a_trainer_fills(
    settings: dict[str, Any], share: float, toy_model: Path
) -> None:
    # vLLM refuses a GPU of which less than the share is free
    assert _engine_args(recipe(**settings), toy_model).gpu_memory_utilization == share


@pytest.mark.parametrize(
    ("settings", "broadcasts"),
    [
        ({"resources.generator_gpus": 0, "resources.trainer_gpus": 0}, False),
        (GPUS, True),
        (GPUS | TURNS, False),
        (GPUS | {"engine.weight_transfer": "object_store"}, False),
        (
            {
                "resources.generator_gpus": 0,
                "resources.trainer_gpus": 0,
                "engine.weight_transfer": "collective",
            },
            True,
        ),
    ],
)
def test_weights_are_broadcast_by_default_between_gpus(settings: dict[str, Any], broadcasts: bool) -> None:
    assert recipe(**settings).broadcasts_weights is broadcasts


def test_what_does_not_hold_one_sequence_is_refused_with_the_numbers() -> None:
    """Qwen3-8B has 144 KiB a token: 36 layers, 8 heads of 128, bfloat16."""
    made = recipe()
    assert made.rollout.max_sequence_tokens == 16_384

    refuse_too_small(Room(2304 << 20, "engine.kv_cache_mib (2304)"), made, 144 << 10)
    with pytest.raises(ValueError, match=r"^engine.kv_cache_mib \(2303\) does not hold .* 16384 tokens: it holds "
                       r"16376 of 147456 bytes each; one sequence needs 2304 MiB on each device$"):  # fmt: skip
        refuse_too_small(Room(2303 << 20, "engine.kv_cache_mib (2303)"), made, 144 << 10)


def test_vllm_is_not_started_for_too_small_a_cache(toy_model: Path) -> None:
    """256 bytes a token: one layer, one head of 32 numbers, float32."""
    settings = {
        "resources.generator_gpus": 0,
        "resources.trainer_gpus": 0,
        "precision.generator": "float32",
        "engine.kv_cache_mib": 3,
    }
    made = recipe(**settings)

    with pytest.raises(ValueError, match=r"engine.kv_cache_mib \(3\) does not hold .* of 256 bytes each"):
        _check_room(made, toy_model)
    _check_room(recipe(**settings | {"engine.kv_cache_mib": 4}), toy_model)
    assert kv_room(made, "cpu").bytes == 3 << 20


@pytest.mark.parametrize(("devices", "heads"), [(1, 8), (4, 2), (16, 1)])
def test_each_device_of_an_engine_has_one_head_or_more(devices: int, heads: int) -> None:
    config = Qwen3Config(num_hidden_layers=3, num_key_value_heads=8, head_dim=16)

    assert SlotCache.row_bytes(config, 5, torch.bfloat16, devices) == 3 * heads * (16 + 16) * 5 * 2


def test_each_device_has_all_that_latent_attention_keeps() -> None:
    config = DeepseekV3Config(num_hidden_layers=3, kv_lora_rank=512, qk_rope_head_dim=64)

    assert SlotCache.row_bytes(config, 5, torch.bfloat16, 8) == 3 * (512 + 64) * 5 * 2
