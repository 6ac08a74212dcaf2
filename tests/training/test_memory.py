"""What a recipe takes of a GPU: the estimate against traced passes, and what it refuses."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.training.conftest import cut_down
from training import memory
from training.__main__ import main
from training.memory import GIB, SHAPES, Shape, need, trainer_bytes
from training.misfits import Misfit, misfits
from training.recipe import Recipe, RecipeError, apply_overrides, check_runnable, load_recipe, recipe_names
from training.trainer.memory_trace import _AllPositions, trace_peak

# Millions of parameters, published for Qwen3 0.6B, 1.7B, 8B, 32B and 30B-A3B.
PARAMETERS = {
    "dense-0.6b": 596,
    "dense-1.7b": 1_721,
    "dense-8b": 8_191,
    "dense-32b": 32_762,
    "moe-30b-a3b": 30_532,
}
# (shape, ranks, longest sequence, trainer.head_chunk_tokens, activation checkpointing): MiB that the trace of the whole
# model gave on 2026-11-26 and 27.
TRACED = {
    ("dense-8b", 16, 16_384, 4_096, False): 149_055,
    ("dense-8b", 16, 32_768, 4_096, True): 33_449,
    ("dense-8b", 8, 32_768, 1_024, True): 39_692,
    ("dense-8b", 16, 16_384, 1_024, True): 25_546,
    ("dense-8b", 4, 16_384, 1_024, True): 48_979,
    ("dense-1.7b", 1, 8_192, 4_096, True): 38_061,
}
# The same on 2026-11-25, with a mask of one byte for each pair of positions that a real pass does not make.
TRACED_WITH_MASK = {
    ("dense-8b", 16, 16_384, 4_096, True): 28_192,
    ("dense-8b", 8, 16_384, 4_096, True): 36_003,
    ("dense-1.7b", 1, 16_384, 4_096, True): 39_441,
    ("dense-1.7b", 8, 8_192, 2_048, True): 11_688,
    ("dense-0.6b", 1, 16_384, 4_096, True): 20_569,
    ("moe-30b-a3b", 32, 16_384, 4_096, True): 31_402,
}


def shape(name: str) -> Shape:
    return Shape.of(SHAPES / f"{name}.json")


def refused(recipe: Recipe, of: Shape) -> Misfit:
    """The first thing that does not fit. The change that is proposed mends it."""
    first = misfits(recipe, of)[0]
    left = misfits(apply_overrides(recipe, first.change), of)
    assert not first.change or first.field not in [misfit.field for misfit in left]
    return first


def recipe_of(
    ranks: int = 16, length: int = 16_384, chunk: int = 4_096, is_recomputed: bool = True, **settings: Any
) -> Recipe:
    """recipes/scalerl.yaml with so many trainer ranks and sequences of this length, one in a micro-batch."""
    return apply_overrides(
        load_recipe("scalerl"),
        {
            "trainer.activation_checkpointing": is_recomputed,
            "trainer.head_chunk_tokens": chunk,
            "engine.gpu_memory_utilization": 0.85,
            "trainer.micro_batch_tokens": length,
            "rollout.max_thinking_tokens": length - 4_096,
            "length.interrupt_low": 1_000,
            "length.interrupt_high": 2_000,
            "resources.trainer_gpus": ranks,
            **settings,
        },
    )


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_the_shapes_are_the_published_ones(name: str) -> None:
    assert shape(name).parameters / 1e6 == pytest.approx(PARAMETERS[name], rel=1e-3)


@pytest.mark.parametrize("case", [*TRACED, *TRACED_WITH_MASK], ids=lambda case: "-".join(map(str, case)))
def test_the_estimate_is_close_to_whole_models_traced(case: tuple[str, int, int, int, bool]) -> None:
    name, ranks, length, chunk, is_recomputed = case
    traced = TRACED.get(case) or TRACED_WITH_MASK[case] - length**2 / (1 << 20)

    estimated = trainer_bytes(recipe_of(ranks, length, chunk, is_recomputed), shape(name)) / (1 << 20)

    assert 0.985 < estimated / traced < 1.11


@pytest.mark.parametrize(
    ("name", "ranks", "is_recomputed"),
    [
        pytest.param("dense-0.6b", 1, True, marks=pytest.mark.deep),
        ("dense-8b", 8, False),
        ("moe-30b-a3b", 8, True),
    ],
)
def test_the_estimate_is_close_to_two_layers_traced_now(name: str, ranks: int, is_recomputed: bool) -> None:
    recipe = recipe_of(ranks, 8_192, 4_096, is_recomputed)
    assert_traced(recipe, name)


def test_a_kept_layer_is_in_estimate_and_trace() -> None:
    lean, kept = (recipe_of(8, 8_192, **{"trainer.kept_layers": count}) for count in (0, 1))
    assert_traced(kept, "dense-8b")
    assert trainer_bytes(kept, shape("dense-8b")) - trainer_bytes(lean, shape("dense-8b")) > GIB


def assert_traced(recipe: Recipe, name: str) -> None:
    """With two layers, within 4 %."""
    traced = trace_peak(recipe, SHAPES / f"{name}.json", layers_kept=2)

    assert trainer_bytes(recipe, dataclasses.replace(shape(name), layers=2)) == pytest.approx(
        traced, rel=0.04
    )


def test_a_trace_counts_the_tensors_that_real_passes_hold(tmp_path: Path) -> None:
    """Of padded rows, whose mask torch makes for nobody who looks into them."""
    config = Qwen3Config(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, vocab_size=64, max_position_embeddings=1024,
    )  # fmt: skip
    config.save_pretrained(tmp_path)
    lengths = {"max_prompt_tokens": 128, "max_thinking_tokens": 256, "max_answer_tokens": 128}
    settings = {f"rollout.{name}": tokens for name, tokens in lengths.items()}
    settings |= {"length.interrupt_low": 100, "length.interrupt_high": 200, "trainer.micro_batch_tokens": 512}
    recipe = recipe_of(1, is_recomputed=False, **settings)

    traced = trace_peak(recipe, tmp_path / "config.json")

    networks = _AllPositions(Qwen3ForCausalLM(config), None, recipe)
    tracker, tokens = MemTracker(), torch.zeros(1, 512, dtype=torch.long)
    tracker.track_external(networks)
    with tracker:
        for _ in range(2):
            networks(tokens, torch.ones(1, 511, dtype=torch.bool))[0].sum().backward()
            tracker.reset_mod_stats()
    (real,) = (of_device["Total"] for of_device in tracker.get_tracker_snapshot("peak").values())
    moments = 8 * sum(parameter.numel() for parameter in networks.parameters())
    assert traced == pytest.approx(real + moments, rel=0.03)  # the mask would be 0.17


def divided(**degrees: int) -> dict[str, int]:
    names = {name: name if name == "replicas" else f"{name}_parallel" for name in degrees}
    return {f"resources.trainer_{names[name]}": degree for name, degree in degrees.items()}


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "degrees", "is_recomputed"),
    [
        ("dense-8b", {"tensor": 2}, True),
        ("dense-8b", {"replicas": 2}, True),
        ("moe-30b-a3b", {"replicas": 2, "expert": 4}, True),
        pytest.param("dense-8b", {"tensor": 4}, False, marks=pytest.mark.deep),
        pytest.param("dense-8b", {"context": 4}, True, marks=pytest.mark.deep),
        pytest.param("dense-8b", {"tensor": 2, "context": 2}, False, marks=pytest.mark.deep),
        pytest.param("moe-30b-a3b", {"expert": 8}, True, marks=pytest.mark.deep),
        ("moe-30b-a3b", {"tensor": 2, "expert": 4}, True),
    ],
)
def test_estimate_and_trace_know_how_ranks_divide_a_model(
    name: str, degrees: dict[str, int], is_recomputed: bool
) -> None:
    tokens = 8_192 // degrees.get("context", 1)
    settings = divided(**degrees) | {"trainer.micro_batch_tokens": tokens}
    recipe = recipe_of(8, 8_192, 2_048, is_recomputed, **settings)

    traced = trace_peak(recipe, SHAPES / f"{name}.json", layers_kept=2)

    two_layers = dataclasses.replace(shape(name), layers=2)
    assert trainer_bytes(recipe, two_layers) == pytest.approx(traced, rel=0.1)


def test_a_trace_follows_the_ranks_and_the_critic() -> None:
    """Twice the ranks halve what each keeps between micro-batches; a separate critic brings its own share of it."""
    file, layers = SHAPES / "dense-8b.json", 1
    parameters = dataclasses.replace(shape("dense-8b"), layers=layers).parameters
    with_critic = {"loss.type": "ppo", "critic.trunk": "separate", "advantage.norm": "batch"}

    four, eight = (trace_peak(recipe_of(ranks, 8_192), file, layers_kept=layers) for ranks in (4, 8))
    critic = trace_peak(recipe_of(8, 8_192, **with_critic), file, layers_kept=layers)

    assert four - eight == pytest.approx(memory.ADAM_BYTES * parameters * (1 / 4 - 1 / 8), rel=0.02)
    body = parameters - shape("dense-8b").embedding  # the critic has a value in place of the head
    assert critic - eight > memory.ADAM_BYTES * body / 8


@pytest.mark.deep
def test_moments_on_the_host_are_not_on_the_gpu() -> None:
    """By the trace and by the estimate; they are proposed before more GPUs are."""
    file, one = SHAPES / "dense-8b.json", dataclasses.replace(shape("dense-8b"), layers=1)
    there, away = (recipe_of(4, 8_192, **{"optimizer.offload_moments": value}) for value in (False, True))
    moments = memory.MOMENTS_BYTES * one.parameters

    traced = [trace_peak(recipe, file, layers_kept=1) for recipe in (there, away)]
    hosts = [need(recipe, one, 80 * GIB).host_checkpoint for recipe in (there, away)]  # four ranks, on one
    tight = apply_overrides(recipe_of(8), {"resources.gpu_gib": 36, "trainer.head_chunk_tokens": 1024})
    proposed = refused(tight, shape("dense-8b")).change

    assert traced[0] - traced[1] == pytest.approx(moments / 4, rel=0.01)
    assert trainer_bytes(there, one) - trainer_bytes(away, one) == pytest.approx(moments / 4, rel=0.01)
    assert hosts[1] - hosts[0] == moments
    assert proposed == {"optimizer.offload_moments": True}


@pytest.mark.parametrize("name", [name for name in recipe_names() if "/" not in name])
def test_committed_recipes_fit_the_gpus_they_ask_for(name: str) -> None:
    recipe = load_recipe(name)

    assert not misfits(recipe, shape(recipe.model))
    assert need(recipe, shape(recipe.model), recipe.resources.gpu_gib * GIB).kv_sequences >= 8


def test_the_estimate_is_what_a_gpu_held() -> None:
    """Peaks of 0.6B and 1.7B on one H200, GiB (docs/scale.md); what was seen of the card was not more than it is said
    to be."""
    for name, is_recomputed, chunk, peak, seen in (
        ("dense-0.6b", True, 4_096, 19.90, 22.50),
        ("dense-0.6b", True, 1_024, 12.95, 15.00),
        ("dense-0.6b", False, 4_096, 54.92, 56.39),
        ("dense-1.7b", True, 4_096, 38.33, 44.29),
    ):
        estimated = trainer_bytes(recipe_of(1, chunk=chunk, is_recomputed=is_recomputed), shape(name))

        assert estimated / GIB == pytest.approx(peak, rel=0.01)
        assert seen < memory.occupied(estimated) / GIB < seen * 1.13


def test_an_engine_on_two_gpus_keeps_half_of_the_weights_on_each() -> None:
    one, two = (
        need(recipe_of(**{"resources.generators": engines}), shape("dense-32b"), 80 * GIB)
        for engines in (64, 32)
    )

    assert two.engine_weights == one.engine_weights // 2
    assert two.kv_tokens > 2 * one.kv_tokens  # half of each token's keys and values, in a larger room


def test_new_weights_wait_whole_for_each_gpu_of_an_engine_on_it_or_in_its_machine() -> None:
    """Each worker of a tensor parallel engine receives all of them."""
    one, two = (
        need(recipe_of(**{"resources.generators": engines}), shape("dense-8b"), 80 * GIB)
        for engines in (64, 32)
    )
    lean = need(recipe_of(**{"engine.gpu_memory_utilization": 0.78}), shape("dense-8b"), 80 * GIB)
    stored = need(recipe_of(**{"engine.weight_transfer": "object_store"}), shape("dense-8b"), 80 * GIB)

    assert one.arriving == two.arriving == one.engine_weights == 2 * two.engine_weights
    assert one.host_arriving == two.host_arriving == 8 * one.arriving  # 12 GiB are left beside an engine
    assert lean.arriving == one.arriving and lean.host_arriving == 0
    assert need(load_recipe("scalerl"), shape("dense-8b"), 80 * GIB).host_arriving == 0
    assert stored.arriving == stored.host_arriving == 0 < stored.shared_memory


def test_a_config_that_says_no_sizes_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    for text in ("{}", "[]", "{", '{"hidden_size": 0, "num_attention_heads": 0}'):
        file.write_text(text)
        with pytest.raises(memory.Unknown, match="config.json does not say the model's sizes"):
            Shape.of(file)


def test_layers_of_another_kind_are_not_taken_for_smaller_ones(tmp_path: Path) -> None:
    """As where experts have a name of their own: said is nothing, instead of too little."""
    text = (SHAPES / "dense-0.6b.json").read_text()
    (file := tmp_path / "config.json").write_text(text)
    (tmp_path / "model.safetensors").write_bytes(header_of(596_000_000))
    assert Shape.of(file) == shape("dense-0.6b")

    (tmp_path / "model.safetensors").write_bytes(header_of(6_000_000_000))
    with pytest.raises(memory.Unknown, match=r"make 596,049,920 parameters, and there are 6,000,000,000"):
        Shape.of(file)


def header_of(parameters: int) -> bytes:
    """Of a safetensors file, without its tensor."""
    text = json.dumps({"w": {"dtype": "F32", "shape": [parameters], "data_offsets": [0, 0]}}).encode()
    return len(text).to_bytes(8, "little") + text


def test_a_recipe_that_does_not_fit_is_refused_before_it_is_queued(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://elsewhere:10001")  # whose GPUs this machine does not see
    on_gpus = {"resources.generator_gpus": 1, "resources.trainer_gpus": 1, "engine.kv_cache_mib": None}
    recipe = apply_overrides(cut_down(load_recipe("tiny/scalerl"), toy_model), on_gpus)
    check_runnable(recipe)

    with pytest.raises(RecipeError, match=r"engine\.gpu_memory_utilization: each engine's GPU has 0\.0 GiB"):
        check_runnable(apply_overrides(recipe, {"resources.gpu_gib": 0.001}))


MEMORY = ["memory", "scalerl", "--model", "dense-8b", "--estimate"]


def test_the_command_says_what_a_rank_takes_and_exits_by_whether_it_fits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(MEMORY) == 0
    said = capsys.readouterr().out
    assert "8.19 billion parameters (dense-8b), sequences of 16,384 tokens, GPUs of 80 GiB" in said
    assert "not traced, 27.5 GiB by arithmetic" in said and said.endswith("it fits\n")

    assert main([*MEMORY, "--gpu-gib", "32", "--set", "resources.trainer_gpus=4", "--json"]) == 3
    said = json.loads(capsys.readouterr().out)
    trainer, generator = said["trainer"], said["generator"]
    assert (said["fits"], trainer["ranks"], trainer["is_traced"]) == (False, 4, False)
    assert trainer["peak_gib"] < trainer["occupied_gib"] and trainer["host_gib_per_node"] == pytest.approx(
        23.2, abs=0.1
    )
    assert generator["weights_gib"] == pytest.approx(15.26, abs=0.01)
    assert generator["host_gib_per_node"] == pytest.approx(8 * generator["arriving_weights_gib"], abs=0.01)
    assert generator["full_length_sequences"] == generator["kv_tokens"] // 16_384
    (problem,), (proposal,) = said["problems"], said["proposals"]
    assert problem.startswith("resources.trainer_gpus: a trainer rank needs ")
    assert proposal["why"].startswith("would take ") and proposal["why"] in problem
    settings = [f"--set={name}={json.dumps(value)}" for name, value in proposal["set"].items()]
    assert main([*MEMORY, "--gpu-gib", "32", *settings]) == 0


def test_reading_8b_takes_less_than_64_gb_of_a_machine_with_8_ranks() -> None:
    said = need(recipe_of(8), shape("dense-8b"), 80 * GIB)

    assert said.host_loading < 64e9
    assert (
        need(recipe_of(32), shape("dense-8b"), 80 * GIB).host_loading == said.host_loading
    )  # of four machines, each


def test_a_layout_that_does_not_divide_is_not_traced(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "scalerl", "--set", "resources.trainer_tensor_parallel=16", "--json"]) == 3

    assert json.loads(capsys.readouterr().out)["trainer"]["is_traced"] is False


def test_the_command_refuses_sequences_longer_than_the_model_s_context(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*MEMORY, "--set", "rollout.max_thinking_tokens=60000"]) == 3
    assert "model: a context of 40,960 tokens; the recipe needs 64,096" in capsys.readouterr().out


def test_without_gpus_the_machine_s_memory_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["memory", "tiny/scalerl", "--model", "dense-8b", "--estimate"]
    monkeypatch.setattr("training.recipe.machine_bytes", lambda: 24 * GIB)
    assert main(asked) == 3
    said = capsys.readouterr().out
    assert "GPU of" not in said and "GPUs of" not in said and "of a GPU" not in said
    assert "parts without GPUs    274.0 GiB of their machine's memory" in said
    assert (
        "of this machine's memory, which is 24.0 GiB; a smaller model would do, or a larger machine" in said
    )

    monkeypatch.setattr("training.recipe.machine_bytes", lambda: 1024 * GIB)
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parts_without_gpus_gib"] == pytest.approx(274.0, abs=0.1)


@pytest.mark.deep
def test_the_command_traces_a_model_that_is_here(toy_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "tiny/scalerl", "--model", str(toy_model), "--json"]) == 0

    said = json.loads(capsys.readouterr().out)
    assert said["trainer"]["is_traced"] and 0 < said["trainer"]["peak_gib"] < 0.1


def test_the_command_names_the_shapes_where_a_model_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "scalerl", "--model", "nothing"]) == 1
    assert "model: no model named 'nothing'" in (said := capsys.readouterr().err)
    assert f"shapes without weights: {', '.join(sorted(PARAMETERS))}" in said


def test_the_command_refuses_a_family_that_cannot_be_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((SHAPES / "dense-0.6b.json").read_text())
    for changed in ({"model_type": "marvin"}, {"final_logit_softcapping": 30.0}):
        (tmp_path / "config.json").write_text(json.dumps(config | changed))
        assert main(["memory", "scalerl", "--model", str(tmp_path), "--estimate"]) == 1
        assert f"model: {tmp_path}/config.json s" in (said := capsys.readouterr().err)
        assert str(next(iter(changed.values()))) in said
