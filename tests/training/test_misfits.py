"""What of a recipe does not fit its model and its GPUs: the field, the numbers, and the change that would."""

from typing import Any

import pytest

from tests.training.test_memory import divided, recipe_of, refused, shape
from training.memory import GIB, kv_token_bytes, need, tokens_of_a_rank
from training.misfits import layout_misfits, misfits
from training.recipe import apply_overrides, load_recipe


@pytest.mark.parametrize(
    ("name", "degrees", "field", "sentence"),
    [
        ("dense-8b", {"tensor": 16}, "tensor", "has 32 of queries and 8 of keys; resources.trainer_tensor_parallel 8"),
        ("dense-8b", {"tensor": 4, "context": 4}, "context", "is 16, and these ranks divide the heads"),
        ("dense-8b", {"tensor": 3, "context": 4}, "context", "trainer_tensor_parallel 2 would do"),
        ("dense-8b", {"expert": 2}, "expert", "has no experts, which 2 ranks cannot divide; resources.trainer_expert"),
        ("moe-30b-a3b", {"expert": 3}, "expert", "has 128 experts a layer, which 3 ranks cannot divide; resources."),
        ("moe-30b-a3b", {"tensor": 2}, "expert", "2 or a multiple of it; resources.trainer_expert_parallel 2 would do"),
        ("moe-30b-a3b", {"tensor": 2, "expert": 6}, "expert", "resources.trainer_expert_parallel 4 would do"),
    ],
)  # fmt: skip
def test_a_layout_that_does_not_divide_the_model_is_refused(
    name: str, degrees: dict[str, int], field: str, sentence: str
) -> None:
    recipe = recipe_of(48, **divided(**degrees))

    said = refused(recipe, shape(name))

    assert said == next(layout_misfits(recipe, shape(name)))
    assert said.field == f"resources.trainer_{field}_parallel"
    assert sentence in said.sentence


def test_a_layout_that_is_proposed_divides_the_ranks_too() -> None:
    recipe = recipe_of(12, **divided(tensor=6))

    assert refused(recipe, shape("dense-8b")).change == {"resources.trainer_tensor_parallel": 4}
    assert refused(recipe_of(6, **divided(tensor=6)), shape("dense-8b")).change == {
        "resources.trainer_tensor_parallel": 2
    }


def test_gpus_of_an_engine_that_do_not_divide_the_heads_are_refused() -> None:
    """vLLM would say so once it starts."""
    recipe = recipe_of(**{"resources.generator_gpus": 24, "resources.generators": 4})

    said = refused(recipe, shape("dense-8b"))

    assert (said.field, said.change) == ("resources.generators", {"resources.generators": 6})
    assert (
        "the 6 GPUs of an engine divide the heads: the model has 32 of queries and 8 of keys" in said.reason
    )
    sixteen = apply_overrides(recipe, {"resources.generator_gpus": 16, "resources.generators": 1})
    assert not misfits(sixteen, shape("dense-8b"))  # two have the same head of keys
    assert kv_token_bytes(sixteen, shape("dense-8b")) * 8 == kv_token_bytes(recipe_of(), shape("dense-8b"))


def test_sequences_too_long_for_a_gpu_are_divided_over_ranks_by_proposal() -> None:
    recipe = recipe_of(16, 131_072, 1_024, **{"resources.gpu_gib": 80, "resources.generators": 16})

    said = refused(recipe, shape("dense-8b"))

    assert said.field == "resources.trainer_gpus"
    assert (
        "resources.trainer_context_parallel 2, trainer.micro_batch_tokens 65536 would take" in said.sentence
    )


def test_the_paper_s_layout_fits_and_half_the_room_does_not() -> None:
    recipe = recipe_of()
    assert not misfits(recipe, shape("dense-8b"))
    assert misfits(recipe, shape("dense-8b"), traced=79 * GIB)

    on_small = apply_overrides(recipe, {"resources.gpu_gib": 24, "resources.generators": 16})

    said = refused(on_small, shape("dense-8b"))
    assert (said.field, said.sentence) == (
        "resources.trainer_gpus",
        "a trainer rank needs 32.2 GiB of a GPU with 24 GiB (resources.gpu_gib); trainer.head_chunk_tokens 1024, "
        "resources.trainer_context_parallel 4, trainer.micro_batch_tokens 4096 would take 21.8 GiB",
    )


@pytest.mark.parametrize(
    ("settings", "field", "sentence"),
    [
        (
            {"trainer.activation_checkpointing": False},
            "resources.trainer_gpus",
            "trainer.activation_checkpointing true would take 32.2 GiB",
        ),
        (
            {"trainer.kept_layers": 40},
            "resources.trainer_gpus",
            "a trainer rank needs 169.4 GiB of a GPU with 80 GiB (resources.gpu_gib); trainer.kept_layers 0 would",
        ),
        (
            {"resources.gpu_gib": 6},
            "engine.gpu_memory_utilization",
            "each engine's GPU has 0.0 GiB for its KV cache beside 15.3 GiB of weights: 0 tokens, less",
        ),
        (
            {
                "resources.gpu_gib": 24,
                "rollout.max_thinking_tokens": 126_976,
                "trainer.micro_batch_tokens": 131_072,
            },
            "engine.gpu_memory_utilization",
            "8,327 tokens, less than one sequence of 131,072; resources.generators 16 would hold",
        ),
        (
            {"engine.kv_cache_mib": 2_303},
            "engine.kv_cache_mib",
            "2,303 MiB holds 16,376 tokens, less than one sequence of 16,384; engine.kv_cache_mib 2304 would hold one",
        ),
        (
            {"engine.kv_cache_mib": 80_000},
            "engine.kv_cache_mib",
            "more than a GPU with 80 GiB (resources.gpu_gib); engine.kv_cache_mib 62201 would fit",
        ),
        (
            {"engine.kv_cache_mib": 4_096, "resources.gpu_gib": 20},
            "engine.kv_cache_mib",
            "more than a GPU with 20 GiB (resources.gpu_gib); resources.generators 32 would hold",
        ),
        (
            {"resources.generator_gpus": 1, "resources.gpu_gib": 20},
            "engine.gpu_memory_utilization",
            "resources.generator_gpus 2 would hold 78,232",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_numbers_and_a_change_that_fits(
    settings: dict[str, Any], field: str, sentence: str
) -> None:
    said = refused(recipe_of(**settings), shape("dense-8b"))

    assert said.field == field
    assert sentence in said.sentence


def test_a_cache_too_small_is_refused_on_cpus_too() -> None:
    no_gpus = {"resources.generator_gpus": 0, "resources.trainer_gpus": 0, "engine.kv_cache_mib": 100}

    assert refused(recipe_of(**no_gpus), shape("dense-8b")).change == {"engine.kv_cache_mib": 2304}


def test_on_a_gpu_that_both_share_the_cache_gives_way() -> None:
    recipe = apply_overrides(load_recipe("scalerl-1.7b"), {"resources.gpu_gib": 40})

    said = refused(recipe, shape("dense-1.7b"))

    assert said.field == "resources.trainer_gpus"
    assert said.change.keys() == {
        "trainer.head_chunk_tokens",
        "optimizer.offload_moments",
        "engine.kv_cache_mib",
    }
    tiny = apply_overrides(recipe, {"resources.gpu_gib": 12})
    assert (
        "nothing makes it fit beside an engine"
        in [each.sentence for each in misfits(tiny, shape("dense-1.7b"))][-1]
    )


NO_GPUS = {"resources.generator_gpus": 0, "resources.trainer_gpus": 0, "engine.type": "transformers"}


def test_parts_without_gpus_lie_in_the_memory_of_their_machine() -> None:
    recipe, of = recipe_of(**NO_GPUS, **{"trainer.activation_checkpointing": False}), shape("dense-0.6b")
    said = need(recipe, of, 0)
    assert said.host_parts == said.trainer + said.engine_weights  # this engine has no cache of a given size
    taken = said.host_parts + said.shared_memory

    (unfit,) = misfits(recipe, of, machine=taken - 1)

    assert unfit.field == "resources.trainer_gpus"
    assert "parts without GPUs need" in unfit.reason and "of this machine's memory" in unfit.reason
    assert unfit.change == {"trainer.activation_checkpointing": True}
    assert not misfits(apply_overrides(recipe, unfit.change), of, machine=taken - 1)
    assert not misfits(recipe, of, machine=taken) and not misfits(recipe, of)
    (too_small,) = misfits(recipe, of, machine=GIB)
    assert too_small.sentence.endswith("a smaller model would do, or a larger machine")


def test_what_lies_on_gpus_takes_no_memory_of_a_machine() -> None:
    assert need(recipe_of(), shape("dense-8b"), 80 * GIB).host_parts == 0
    assert not misfits(recipe_of(), shape("dense-8b"), machine=GIB)


def test_a_batch_bounds_the_tokens_of_a_pass() -> None:
    """Without GPUs rows are as long as the longest, and no more than a batch has."""
    few = {
        "rollout.prompts_per_step": 2,
        "rollout.generations_per_prompt": 4,
        "rollout.max_in_flight_prompts": 18,
    }
    recipe = recipe_of(**NO_GPUS, **few)
    long = recipe.rollout.max_sequence_tokens

    assert tokens_of_a_rank(recipe, 64) == 8 * 64
    assert tokens_of_a_rank(recipe, long) == long
