"""Low-rank adapters: what they compute, what is trained, saved, sent and exported."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.training.conftest import cut_down
from tests.training.trainer.test_ranks import FAST, a_batch
from training.checkpoints import CheckpointError
from training.export import export_model
from training.memory import SHAPES, Shape, trainer_bytes
from training.misfits import misfits
from training.recipe import Recipe, RecipeError, apply_overrides, load_recipe
from training.trainer.memory_trace import trace_peak
from training.trainer.network import LoraLinear, is_adapter
from training.trainer.trainer import Trainer

LORA = {"trainer.lora_rank": 4, "trainer.lora_alpha": 8, "precision.generator": "float32"}


@pytest.fixture
def recipe(toy_model: Path) -> Recipe:
    return apply_overrides(cut_down(load_recipe("tiny/scalerl"), toy_model), FAST | LORA)


def trainer_of(recipe: Recipe) -> Trainer:
    return Trainer(recipe.model_dump(mode="json"), recipe.model)


def moved(trainer: Trainer) -> Trainer:
    """With adapters that have an effect."""
    with torch.no_grad():
        for name, parameter in trainer._networks.named_parameters():
            if is_adapter(name):
                parameter.add_(0.1 * torch.randn_like(parameter))
    return trainer


def weights_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trainer.named_weights()}


def test_a_layer_is_the_product_with_the_sum() -> None:
    torch.manual_seed(0)
    plain = torch.nn.Linear(6, 5)
    layer = LoraLinear(plain, rank=3, alpha=12, device="cpu")
    x = torch.randn(7, 6)
    torch.testing.assert_close(layer(x), plain(x))

    with torch.no_grad():
        layer.lora_a.normal_()
        layer.lora_b.normal_()
    loss = layer(x).square().sum()
    loss.backward()

    beside = plain(x) + 12 / 3 * (x @ layer.lora_a.T) @ layer.lora_b.T
    torch.testing.assert_close(layer(x), beside)
    wanted = torch.autograd.grad(beside.square().sum(), [layer.lora_a, layer.lora_b])
    torch.testing.assert_close([layer.lora_a.grad, layer.lora_b.grad], list(wanted), rtol=1e-4, atol=1e-3)


def test_it_begins_as_the_model_and_trains_the_adapters_alone(recipe: Recipe, toy_model: Path) -> None:
    plain = AutoModelForCausalLM.from_pretrained(toy_model, dtype=torch.float32).state_dict()
    trainer = trainer_of(recipe)
    torch.testing.assert_close(weights_of(trainer), plain, rtol=0, atol=0)

    for seed in range(3):
        trainer.train_step(a_batch(seed))

    frozen = {name: value for name, value in trainer._networks.policy.state_dict().items() if name in plain}
    torch.testing.assert_close(frozen, plain, rtol=0, atol=0)
    different = {name for name, value in weights_of(trainer).items() if not torch.equal(value, plain[name])}
    assert different == {
        name for name in plain if ".layers." in name and "proj" in name and "bias" not in name
    }


def test_what_is_sent_is_what_the_trainer_multiplies_with(recipe: Recipe, toy_model: Path) -> None:
    trainer, batch = moved(trainer_of(recipe)), a_batch(1)
    trainer_alone = trainer_of(apply_overrides(recipe, {"trainer.lora_rank": None}))

    trainer_alone._networks.policy.load_state_dict(weights_of(trainer))

    torch.testing.assert_close(trainer.logp(batch), trainer_alone.logp(batch))


def test_a_checkpoint_has_the_adapters_alone_and_goes_on(recipe: Recipe, tmp_path: Path) -> None:
    trainer = trainer_of(recipe)
    trainer.train_step(a_batch(1))
    trainer.save(str(tmp_path / "saved"))
    trained = copy.deepcopy(weights_of(trainer))

    again = trainer_of(recipe)
    assert again.load(str(tmp_path / "saved")) == 1

    torch.testing.assert_close(weights_of(again), trained, rtol=0, atol=0)
    names = [name for name in again._state().tensors() if name.startswith("networks/")]
    assert names and all(map(is_adapter, names))
    assert again.train_step(a_batch(2)).metrics == trainer.train_step(a_batch(2)).metrics
    with pytest.raises(CheckpointError, match="of another model or recipe"):
        trainer_of(apply_overrides(recipe, {"trainer.lora_rank": 2})).load(str(tmp_path / "saved"))


def test_an_exported_model_has_the_sum(recipe: Recipe, toy_model: Path, tmp_path: Path) -> None:
    trainer = moved(trainer_of(recipe))
    trainer.save(str(tmp_path / "saved"))

    export_model(tmp_path / "saved", toy_model, tmp_path / "out", dtype="float32")

    read = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32).state_dict()
    torch.testing.assert_close(read, weights_of(trainer), rtol=0, atol=0)


def test_adapters_of_another_model_are_not_exported(recipe: Recipe, mixture: Path, tmp_path: Path) -> None:
    trainer_of(recipe).save(str(tmp_path / "saved"))

    with pytest.raises(CheckpointError, match="is of another model"):
        export_model(tmp_path / "saved", mixture, tmp_path / "out")


def test_all_ranks_begin_with_the_same_adapters(recipe: Recipe) -> None:
    one, other = (trainer_of(recipe)._networks.state_dict() for _ in range(2))

    torch.testing.assert_close(one, other, rtol=0, atol=0)
    starts = [value for name, value in one.items() if name.endswith("lora_a")]
    assert all(value.abs().max() > 0 for value in starts)


def test_a_critic_and_adapters_contradict_each_other(recipe: Recipe) -> None:
    with pytest.raises(RecipeError, match=r"trainer\.lora_rank adapts the policy alone"):
        apply_overrides(recipe, {"loss.type": "ppo"})


def test_an_8b_model_with_adapters_fits_two_gpus_and_the_estimate_is_close_to_a_trace() -> None:
    settings: dict[str, Any] = {"trainer.lora_rank": 32, "resources.trainer_gpus": 2}
    recipe = apply_overrides(load_recipe("scalerl"), settings)
    shape = Shape.of(SHAPES / "dense-8b.json")
    assert not misfits(recipe, shape)
    assert misfits(apply_overrides(recipe, {"trainer.lora_rank": None}), shape)

    short = apply_overrides(
        recipe, {"rollout.max_thinking_tokens": 4096, "length.interrupt_low": 1000, "length.interrupt_high": 2000}
    )  # fmt: skip
    traced = trace_peak(short, SHAPES / "dense-8b.json", layers_kept=2)

    assert trainer_bytes(short, replace(shape, layers=2)) == pytest.approx(traced, rel=0.1)
