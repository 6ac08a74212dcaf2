import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen2ForCausalLM

from tests.training.conftest import cut_down
from tests.training.trainer.test_network import TOKENS, WANTED
from training.pretrain import Lessons, new_model, save
from training.recipe import apply_overrides, load_recipe
from training.trainer.loading import Filling, is_readable, skeleton
from training.trainer.network import Critic, Networks, load_network
from training.trainer.trainer import Trainer

TRUNKS = {"no critic": None, "shared": "shared", "separate": "separate"}


def networks_of(policy: Any, folder: Path, trunk: str | None) -> Networks:
    settings: dict[str, Any] = {"loss.type": "ppo", "critic.trunk": trunk} if trunk else {}
    recipe = apply_overrides(cut_down(load_recipe("tiny/scalerl"), folder), settings)
    return Networks(policy, Critic(policy, trunk) if trunk else None, recipe)


def empty(module: torch.nn.Module) -> set[str]:
    return {name for name, parameter in module.named_parameters() if parameter.is_meta}


@pytest.fixture(scope="module")
def tied_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lessons = Lessons(hidden=32, layers=2, heads=1, mlp=32, context=64)
    config = new_model(lessons).config
    config.tie_word_embeddings = True
    folder = tmp_path_factory.mktemp("home") / "models" / "tied"
    save(Qwen2ForCausalLM(config), lessons, folder)
    return folder


@pytest.mark.parametrize("trunk", TRUNKS.values(), ids=TRUNKS)
@pytest.mark.parametrize("kind", ["toy_model", "tied_model", "mixture"])
def test_filled_one_unit_after_the_other_it_is_the_model_as_loaded(
    request: pytest.FixtureRequest, kind: str, trunk: str | None
) -> None:
    folder: Path = request.getfixturevalue(kind)
    networks = networks_of(skeleton(folder), folder, trunk)
    fill = Filling(networks, folder, "cpu")

    for layer in networks.policy.get_decoder().layers:
        before = empty(networks)
        fill(layer)
        assert len(before - empty(networks)) == len(list(layer.parameters()))
    fill(networks)

    loaded = networks_of(load_network(folder), folder, trunk)
    assert not empty(networks) and not any(buffer.is_meta for buffer in networks.buffers())
    torch.testing.assert_close(networks.state_dict(), loaded.state_dict(), atol=0, rtol=0)
    torch.testing.assert_close(networks(TOKENS, WANTED), loaded(TOKENS, WANTED), atol=0, rtol=0)


def test_a_tied_head_stays_tied(tied_model: Path) -> None:
    networks = networks_of(skeleton(tied_model), tied_model, None)

    Filling(networks, tied_model, "cpu")(networks)

    assert networks.policy.get_output_embeddings().weight is networks.policy.get_input_embeddings().weight


def test_weights_of_experts_leave_under_the_names_of_their_files(mixture: Path) -> None:
    """As vLLM takes them, and not as transformers stacks them."""
    recipe = apply_overrides(
        cut_down(load_recipe("tiny/scalerl"), mixture), {"precision.generator": "bfloat16"}
    )
    trainer = Trainer(recipe.model_dump(mode="json"), str(mixture))

    sent = dict(trainer.named_weights())

    kept = load_file(mixture / "model.safetensors")
    assert "model.layers.1.mlp.experts.3.up_proj.weight" in kept
    torch.testing.assert_close(sent, kept, atol=0, rtol=0)


def test_weights_under_other_names_are_not_read_one_by_one(
    toy_model: Path, mixture: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(toy_model, tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    save_file({f"other.{name}": value for name, value in weights.items()}, other / "model.safetensors")

    assert is_readable(toy_model) and is_readable(mixture)
    assert not is_readable(other)
