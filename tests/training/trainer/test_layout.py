"""Ranks that divide layers, tokens and experts give what one rank gives: gradients, weights, checkpoints, exports."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from tests.deep import IS_DEEP
from tests.training.conftest import cut_down
from tests.training.ranks import in_ranks
from tests.training.trainer.test_ranks import FAST, PPO, trained
from tests.training.trainer.test_trainer import a_batch
from training.addresses import free_address
from training.export import export_model
from training.pretrain import VOCABULARY, Lessons, save
from training.recipe import RecipeError, apply_overrides, load_recipe
from training.trainer.distributed import ALONE, Ranks, join, leave
from training.trainer.network import whole
from training.trainer.trainer import Trainer
from training.transfer import unpack

pytestmark = pytest.mark.long_form

LESSONS = Lessons(hidden=32, layers=2, heads=8, mlp=32, context=64)
SIZE = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": LESSONS.hidden,
    "intermediate_size": LESSONS.mlp,
    "num_hidden_layers": LESSONS.layers,
    "num_attention_heads": LESSONS.heads,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "max_position_embeddings": LESSONS.context,
}
SMALL_PASSES = {"trainer.micro_batch_tokens": 20, "trainer.head_chunk_tokens": 3}
TWO_REPLICAS = {"resources.trainer_replicas": 2}
EVERYTHING = {**PPO, "critic.trunk": "separate", "loss.kl_coef": 0.1, "loss.entropy_coef": 0.01}


def layout(ranks: int, **degrees: int) -> dict[str, Any]:
    of = {f"resources.trainer_{name}_parallel": degree for name, degree in degrees.items()}
    return {"resources.trainers": ranks, "resources.trainer_cpus": ranks, **of}


# Case -> (model, ranks and how they divide it, settings of all, one rank alone among them).
ALL_CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "packed": ("dense", layout(2), {"trainer.packed": "always", **SMALL_PASSES}),
    "replicas": ("tied", layout(2) | TWO_REPLICAS, {}),
    "tensor": ("dense", layout(2, tensor=2), {}),
    "tensor, recomputed": (
        "tied",
        layout(2, tensor=2),
        {"trainer.activation_checkpointing": True, **EVERYTHING},
    ),
    "tensor, adapters": ("dense", layout(2, tensor=2), {"trainer.lora_rank": 4}),
    "context": ("dense", layout(2, context=2), SMALL_PASSES),
    "context, critic": ("dense", layout(2, context=2), EVERYTHING),
    "expert": ("mixture", layout(2, expert=2), SMALL_PASSES),
    "replicas and shards": ("dense", layout(4) | TWO_REPLICAS, SMALL_PASSES | EVERYTHING),
    "replicas and tensor": (
        "dense",
        layout(4, tensor=2) | TWO_REPLICAS,
        {"trainer.activation_checkpointing": True},
    ),
    "replicas and context": ("dense", layout(4, context=2) | TWO_REPLICAS, SMALL_PASSES),
    "replicas and expert": ("mixture", layout(4, expert=2) | TWO_REPLICAS, SMALL_PASSES),
    "tensor and shards": ("dense", layout(4, tensor=2), SMALL_PASSES),
    "context and shards": ("tied", layout(4, context=2), SMALL_PASSES),
    "expert and shards": ("mixture", layout(4, expert=2), {"trainer.activation_checkpointing": True}),
    "tensor and context": ("dense", layout(4, tensor=2, context=2), EVERYTHING),
    "tensor and expert": ("mixture", layout(4, tensor=2, expert=2), {}),
    "context and expert": ("mixture", layout(4, context=2, expert=4), SMALL_PASSES),
}
SHORT = (
    "packed",
    "replicas",
    "tensor, recomputed",
    "context",
    "expert",
)  # each way of dividing; two of them at once: long form
CASES = {case: of for case, of in ALL_CASES.items() if IS_DEEP or case in SHORT}
BATCHES = [a_batch(1), a_batch(2).of(np.array([0]))]  # of a single row: some ranks have none


def ranks_of(case: str) -> int:
    return CASES[case][1]["resources.trainers"]


def gradients(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Of all trained weights, whole, after the passes of one batch; and its loss."""
    targets, _ = trainer._targets(BATCHES[0])
    metrics, _ = trainer._accumulate(BATCHES[0], targets)
    found = {
        name: whole(p.grad).clone() for name, p in trainer._networks.named_parameters() if p.grad is not None
    }
    return found | {"loss": torch.tensor(metrics["loss"])}


def whole_state(trainer: Trainer) -> dict[str, torch.Tensor]:
    """All weights and moments; what lies whole on a rank is the very tensor, which training goes on to change."""
    return {name: whole(value).clone() for name, value in trainer._state().tensors().items()}


def work(recipe: dict[str, Any], folder: Path, ranks: Ranks) -> dict[str, Any]:
    """What a trainer says and does; it leaves a checkpoint, and goes on from it."""
    trainer = Trainer(recipe, recipe["model"], ranks=ranks)
    said: dict[str, Any] = {"logp": trainer.logp(BATCHES[0]), "gradients": gradients(trainer)}
    said["metrics"] = trained(trainer, BATCHES)
    trainer.save(str(folder / f"by-{ranks.count}"))
    said["state"] = whole_state(trainer)
    packed = trainer.weights()
    said["weights"] = packed and {name: value.clone() for name, value in unpack(packed.buckets)}
    said["after"] = trained(trainer, [a_batch(9)])
    return said


def resumed(recipe: dict[str, Any], checkpoint: Path, ranks: Ranks) -> dict[str, Any]:
    trainer = Trainer(recipe, recipe["model"], ranks=ranks)
    trainer.logp(a_batch(5))
    trainer.load(str(checkpoint))
    return {"state": whole_state(trainer), "after": trained(trainer, [a_batch(9)])}


def rank_main(index: int, address: str, count: int, recipes: dict[str, dict[str, Any]], folder: str) -> None:
    torch.set_num_threads(1)
    ranks = Ranks(index, count, address)
    join(ranks, "cpu", timeout=60)
    found = {}
    for case, recipe in recipes.items():
        place = Path(folder) / case
        found[case] = work(recipe, place, ranks)
        found[case]["resumed"] = resumed(recipe, place / "by-1", ranks)
    torch.save(found, Path(folder) / f"rank-{index}-of-{count}.pt")
    leave()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("home") / "models"
    experts = {"moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2}
    made = {
        "dense": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZE)),
        "tied": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZE, tie_word_embeddings=True)),
        "mixture": lambda: Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZE, **experts)),
    }
    for name, make in made.items():
        torch.manual_seed(0)
        save(make(), LESSONS, folder / name)
    return {name: folder / name for name in made}


def recipe_of(case: str, models: dict[str, Path], *, alone: bool = False) -> dict[str, Any]:
    model, divided, settings = CASES[case]
    recipe = cut_down(load_recipe("tiny/scalerl"), models[model])
    return apply_overrides(recipe, FAST | settings | ({} if alone else divided)).model_dump(mode="json")


@pytest.fixture(scope="module")
def found(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Case -> what one rank said ("alone"), each of the ranks, and one from their checkpoint."""
    folder = tmp_path_factory.mktemp("layouts")
    said: dict[str, dict[str, Any]] = {
        case: {
            "alone": work(recipe_of(case, models, alone=True), folder / case, ALONE),
            "folder": folder / case,
        }
        for case in CASES
    }
    for count in sorted({ranks_of(case) for case in CASES}):
        recipes = {case: recipe_of(case, models) for case in CASES if ranks_of(case) == count}
        in_ranks(rank_main, free_address(), count, recipes, str(folder), count=count)
        for index in range(count):
            by_case = torch.load(folder / f"rank-{index}-of-{count}.pt", weights_only=False)
            for case, of_rank in by_case.items():
                said[case].setdefault("ranks", []).append(of_rank)
    for case in CASES:
        checkpoint = folder / case / f"by-{ranks_of(case)}"
        said[case]["alone, resumed"] = resumed(recipe_of(case, models, alone=True), checkpoint, ALONE)
    return said


@pytest.mark.parametrize("case", CASES)
def test_ranks_have_the_loss_and_gradients_of_one(found: dict[str, dict[str, Any]], case: str) -> None:
    alone = found[case]["alone"]
    for rank in found[case]["ranks"]:
        np.testing.assert_allclose(rank["logp"], alone["logp"], atol=1e-5)
        torch.testing.assert_close(rank["gradients"], alone["gradients"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_ranks_train_as_one_does(found: dict[str, dict[str, Any]], case: str) -> None:
    alone = found[case]["alone"]
    for rank in found[case]["ranks"]:
        for ours, theirs in zip(
            rank["metrics"] + rank["after"], alone["metrics"] + alone["after"], strict=True
        ):
            assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-5)
        assert rank["state"].keys() == alone["state"].keys()
        for name, value in rank["state"].items():
            torch.testing.assert_close(value, alone["state"][name], atol=2e-5, rtol=1e-3, msg=name)


@pytest.mark.parametrize("case", CASES)
def test_checkpoints_are_read_in_any_layout(found: dict[str, dict[str, Any]], case: str) -> None:
    alone, alone_after = found[case]["alone"], found[case]["alone, resumed"]
    for rank in found[case]["ranks"]:
        torch.testing.assert_close(rank["resumed"]["state"], alone["state"], atol=0, rtol=0)
        assert rank["resumed"]["after"][0] == pytest.approx(alone["after"][0], rel=1e-3, abs=1e-5)
        torch.testing.assert_close(alone_after["state"], rank["state"], atol=0, rtol=0)
        assert alone_after["after"][0] == pytest.approx(rank["after"][0], rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_weights_sent_and_exported_are_those_of_one(
    found: dict[str, dict[str, Any]], case: str, models: dict[str, Path], tmp_path: Path
) -> None:
    alone, (first, *others) = found[case]["alone"]["weights"], found[case]["ranks"]
    checkpoint = found[case]["folder"] / f"by-{ranks_of(case)}"

    export_model(checkpoint, models[CASES[case][0]], tmp_path / "out", dtype="float32")

    assert [other["weights"] for other in others] == [None] * len(others)
    exported = load_file(tmp_path / "out" / "model.safetensors")
    assert first["weights"].keys() == alone.keys() == exported.keys()
    for name, value in first["weights"].items():
        torch.testing.assert_close(value, alone[name], atol=1e-2, rtol=1e-2)
        torch.testing.assert_close(exported[name].to(value.dtype), value, atol=0, rtol=0)


@pytest.mark.parametrize(
    ("divided", "reason"),
    [
        (layout(4, tensor=3), r"trainer_tensor_parallel \(3\) times .* must divide the trainer ranks \(4\)"),
        (
            layout(4, tensor=2, context=4),
            r"trainer_context_parallel \(4\) must divide the trainer ranks \(4\)",
        ),
        (layout(4, expert=3), r"trainer_expert_parallel \(3\) must divide the trainer ranks \(4\)"),
        (
            layout(4, tensor=2) | {"resources.trainer_replicas": 4},
            r"trainer_replicas \(4\) times trainer_tensor_parallel \(2\) must divide the trainer ranks \(4\)",
        ),
        (
            layout(6, expert=3) | {"resources.trainer_replicas": 3},
            r"trainer_replicas \(3\) times trainer_expert_parallel \(3\) must divide the trainer ranks \(6\)",
        ),
        (layout(6, tensor=2, expert=3), r"trainer_expert_parallel \(3\) must be a multiple of .* \(2\)"),
        (
            layout(2, context=2) | {"trainer.packed": "never"},
            "trainer_context_parallel divides packed sequences",
        ),
        (layout(2, tensor=2) | {"trainer.compile": True}, "trainer.compile compiles whole layers"),
    ],
)
def test_ranks_that_do_not_divide_are_refused(divided: dict[str, Any], reason: str) -> None:
    with pytest.raises(RecipeError, match=reason):
        apply_overrides(load_recipe("tiny/scalerl"), divided)
