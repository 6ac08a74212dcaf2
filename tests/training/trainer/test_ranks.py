"""Two real gloo processes under FSDP2 give what one process gives: losses, metrics, weights and checkpoints."""

import resource
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen2ForCausalLM

from tests.deep import IS_DEEP
from tests.training.conftest import cut_down
from tests.training.ranks import in_ranks
from tests.training.trainer.test_trainer import a_batch
from training.addresses import free_address
from training.checkpoints import CheckpointError
from training.pretrain import Lessons, new_model, save
from training.recipe import Recipe, apply_overrides, load_recipe
from training.schema import Resources
from training.trainer.batching import Batch
from training.trainer.distributed import ALONE, Ranks, RanksError, join, leave
from training.trainer.layout import Layout
from training.trainer.network import Networks, compile_layers, load_network, recompute_layers, shard, whole
from training.trainer.trainer import Trainer
from training.transfer import unpack

pytestmark = pytest.mark.long_form

RANKS = 2
# Adam divides by the gradient's size: with a small eps, rounding decides the sign of updates that are all but zero.
FAST = {"optimizer.lr": 1e-3, "optimizer.warmup_steps": 0, "optimizer.eps": 1e-4}
PPO = {"loss.type": "ppo", "critic.lr": 1e-2, "advantage.norm": "batch"}
EVERYTHING = {
    **PPO,
    "loss.kl_coef": 0.1,
    "loss.entropy_coef": 0.01,
    "loss.epochs": 2,
    "loss.old_policy": "trainer",
    "loss.importance_cap": 2.0,
}
CASES: dict[str, dict[str, Any]] = {
    "cispo": {},
    "everything": EVERYTHING,
    "mixture of experts": {"trainer.activation_checkpointing": True, "trainer.kept_layers": 1},
    "moments on the host": {"optimizer.offload_moments": True},
}
if IS_DEEP:
    CASES |= {
        "adapters": {"trainer.lora_rank": 4, "trainer.activation_checkpointing": True},
        "bfloat16": {"precision.trainer": "bfloat16"},
        "separate critic": {**PPO, "critic.trunk": "separate", "trainer.micro_batch_tokens": 20},
        "tied head": {"trainer.head_chunk_tokens": 3},
        "recomputed layers, chunked head": {
            "trainer.activation_checkpointing": True,
            "trainer.head_chunk_tokens": 3,
            "trainer.micro_batch_tokens": 20,
        },
        "many micro-batches": {"trainer.micro_batch_tokens": 1},
        "drop": {"filter.zero_variance": "drop"},
        "shared critic": {**PPO, "critic.trunk": "shared"},
    }
BATCHES = {
    "ordinary": a_batch(1),
    "a single row": a_batch(2).of(np.array([0])),
    "nothing teaches": a_batch(3, rewards=(1, 1, -1, -1)),
}


def rounding(case: str) -> float:
    """By how much metrics of as many ranks may differ: in bfloat16 a sharded norm's weight is rounded too."""
    return 2e-2 if case == "bfloat16" else 1e-3


def settings_of(recipe: Recipe, case: str) -> dict[str, Any]:
    return apply_overrides(recipe, FAST | CASES[case]).model_dump(mode="json")


def trained(trainer: Trainer, batches: list[Batch]) -> list[dict[str, float]]:
    return [trainer.train_step(batch).metrics for batch in batches]


def whole_state(trainer: Trainer) -> dict[str, torch.Tensor]:
    """All weights and moments, gathered where they are sharded."""
    state = trainer._state().tensors()
    return {name: getattr(value, "full_tensor", value.clone)() for name, value in state.items()}


def work(recipe: dict[str, Any], folder: Path, ranks: Ranks) -> dict[str, Any]:
    """What a trainer says and does, alone or as one of many; it leaves a checkpoint and goes on from it."""
    trainer = Trainer(recipe, recipe["model"], ranks=ranks)
    batches = list(BATCHES.values())
    said: dict[str, Any] = {"logp": trainer.logp(batches[0]), "metrics": trained(trainer, batches)}
    trainer.save(str(folder / f"by-{ranks.count}"))
    said["state"] = whole_state(trainer)
    packed = trainer.weights()
    said["weights"] = packed and {name: value.clone() for name, value in unpack(packed.buckets)}
    said["after"] = trained(trainer, [a_batch(9)])
    return said


def rank_main(index: int, address: str, recipes: dict[str, dict[str, Any]], folder: str) -> None:
    torch.set_num_threads(1)
    ranks = Ranks(index, RANKS, address)
    found = {}
    join(ranks, "cpu", timeout=60)
    for number, (case, recipe) in enumerate(recipes.items()):
        place = Path(folder) / str(number)
        found[case] = work(recipe, place, ranks)
        found[case]["resumed"] = resumed(recipe, place / "by-1", ranks)
    found["compiled"] = gradients_of_compiled_layers(recipes["cispo"], ranks)
    found["full disk"] = failure_to_save(recipes["cispo"], f"{folder}/full", ranks)
    torch.save(found, Path(folder) / f"rank-{index}.pt")
    leave()


def gradients_of_compiled_layers(recipe: dict[str, Any], ranks: Ranks) -> dict[str, torch.Tensor]:
    """Of the sum of all log-probabilities; each rank has its own rows. Not by inductor, which takes a minute."""
    networks = Networks(load_network(Path(recipe["model"])), None, Recipe(**recipe))
    compile_layers(networks, "cpu", backend="aot_eager")
    recompute_layers(networks)
    if ranks.are_many:
        shard(networks, Layout(Resources(), ranks))
    tokens = torch.randint(4, 14, (4, 9), generator=torch.Generator().manual_seed(0))
    own = tokens[ranks.index :: ranks.count]
    networks(own, torch.ones_like(own[:, 1:], dtype=torch.bool))[0].sum().backward()
    return {name: whole(parameter.grad) for name, parameter in networks.named_parameters()}


def failure_to_save(recipe: dict[str, Any], path: str, ranks: Ranks) -> str:
    """Why rank 1, which may not write more than a few bytes to any file, ends the save."""
    trainer = Trainer(recipe, recipe["model"], ranks=ranks)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    if ranks.index == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, unlimited[1]))
    try:
        trainer.save(path)
    except CheckpointError as error:
        return str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    return ""


def resumed(recipe: dict[str, Any], checkpoint: Path, ranks: Ranks) -> tuple[int, Any, Any]:
    """(step, state as loaded, metrics of the next step)."""
    trainer = Trainer(recipe, recipe["model"], ranks=ranks)
    trainer.logp(a_batch(5))  # weights gathered before the load must not outlive it
    step = trainer.load(str(checkpoint))
    return step, whole_state(trainer), trained(trainer, [a_batch(9)])


@pytest.fixture(scope="module")
def tied_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an untaught model whose head is its embeddings."""
    lessons = Lessons(hidden=32, layers=2, heads=1, mlp=32, context=64)
    config = new_model(lessons).config
    config.tie_word_embeddings = True
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("home") / "models" / "tied"
    save(Qwen2ForCausalLM(config), lessons, folder)
    return folder


@pytest.fixture(scope="module")
def recipes(toy_model: Path, tied_model: Path, mixture: Path) -> dict[str, dict[str, Any]]:
    """Case -> recipe."""
    own = {"tied head": tied_model, "mixture of experts": mixture}
    return {
        case: settings_of(cut_down(load_recipe("tiny/scalerl"), own.get(case, toy_model)), case)
        for case in CASES
    }


@pytest.fixture(scope="module")
def found(
    recipes: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """Case -> what one rank said ("alone"), what each of two said, and what one said from their checkpoint."""
    folder = tmp_path_factory.mktemp("ranks")
    places = {case: folder / str(number) for number, case in enumerate(recipes)}
    said = {case: {"alone": work(recipes[case], places[case], ALONE)} for case in recipes}
    in_ranks(rank_main, free_address(), recipes, str(folder), count=RANKS)
    for index in range(RANKS):
        by_case = torch.load(folder / f"rank-{index}.pt", weights_only=False)
        for case, of_rank in by_case.items():
            said.setdefault(case, {})[f"rank {index}"] = of_rank
    for case in recipes:
        said[case]["alone, resumed"] = resumed(recipes[case], places[case] / "by-2", ALONE)
    return said


@pytest.mark.parametrize("case", CASES)
def test_two_ranks_report_what_one_reports(found: dict[str, dict[str, Any]], case: str) -> None:
    alone = found[case]["alone"]
    for index in range(RANKS):
        rank = found[case][f"rank {index}"]
        np.testing.assert_allclose(rank["logp"], alone["logp"], atol=1e-5)
        for ours, theirs in zip(
            rank["metrics"] + rank["after"], alone["metrics"] + alone["after"], strict=True
        ):
            assert ours == pytest.approx(theirs, rel=rounding(case), abs=1e-5)


@pytest.mark.parametrize("case", [case for case in CASES if case != "bfloat16"])
def test_two_ranks_have_the_weights_and_moments_of_one(found: dict[str, dict[str, Any]], case: str) -> None:
    alone = found[case]["alone"]["state"]
    for index in range(RANKS):
        state = found[case][f"rank {index}"]["state"]
        assert state.keys() == alone.keys()
        for name, value in state.items():
            torch.testing.assert_close(value, alone[name], atol=2e-5, rtol=1e-3, msg=name)


def test_the_first_rank_alone_packs_the_weights(found: dict[str, dict[str, Any]]) -> None:
    said = found["cispo"]

    assert said["rank 1"]["weights"] is None
    assert said["rank 0"]["weights"].keys() == said["alone"]["weights"].keys()
    for name, value in said["rank 0"]["weights"].items():
        torch.testing.assert_close(value, said["alone"]["weights"][name], atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_of_one_is_gone_on_from_by_two(found: dict[str, dict[str, Any]], case: str) -> None:
    alone = found[case]["alone"]
    for index in range(RANKS):
        step, state, after = found[case][f"rank {index}"]["resumed"]
        assert step == len(BATCHES)
        torch.testing.assert_close(state, alone["state"], atol=0, rtol=0)
        assert after[0] == pytest.approx(alone["after"][0], rel=rounding(case), abs=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_of_two_is_gone_on_from_by_one(found: dict[str, dict[str, Any]], case: str) -> None:
    step, state, after = found[case]["alone, resumed"]
    saved = found[case]["rank 0"]

    assert step == len(BATCHES)
    torch.testing.assert_close(state, saved["state"], atol=0, rtol=0)
    assert after[0] == pytest.approx(saved["after"][0], rel=rounding(case), abs=1e-5)


def test_compiled_recomputed_and_sharded_layers_have_the_gradients_of_one_rank(
    found: dict[str, dict[str, Any]], recipes: dict[str, dict[str, Any]]
) -> None:
    alone = gradients_of_compiled_layers(recipes["cispo"], ALONE)

    for index in range(RANKS):
        torch.testing.assert_close(found["compiled"][f"rank {index}"], alone, atol=1e-4, rtol=1e-4)


def test_a_rank_that_cannot_write_ends_the_save_on_all(found: dict[str, dict[str, Any]]) -> None:
    for index in range(RANKS):
        message = found["full disk"][f"rank {index}"]
        assert "full cannot be written: rank 1: OSError" in message


def test_ranks_that_do_not_come_are_named() -> None:
    ranks = Ranks(0, 3, free_address("127.0.0.1"))

    with pytest.raises(RanksError, match=r"rank 0 of 3 waited 0.1 s at 127.0.0.1:\d+ for .*: 1, 2"):
        join(ranks, "cpu", timeout=0.1)


def test_a_first_rank_that_is_not_there_is_named() -> None:
    address = free_address("127.0.0.1")

    with pytest.raises(RanksError, match=f"rank 1 did not reach rank 0 at {address} in 0.2 s"):
        join(Ranks(1, 2, address), "cpu", timeout=0.2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about a machine without a GPU")
def test_a_gpu_that_is_not_there_is_named(recipes: dict[str, dict[str, Any]], toy_model: Path) -> None:
    recipe = apply_overrides(Recipe(**recipes["cispo"]), {"resources.trainer_gpus": 1})

    with pytest.raises(RanksError, match=r"resources.trainer_gpus is 1, but torch .* sees no CUDA device"):
        Trainer(recipe.model_dump(mode="json"), str(toy_model))


def test_address_is_this_machine_and_free() -> None:
    host, port = free_address().rsplit(":", 1)

    with socket.socket() as server:
        server.bind((host, int(port)))
