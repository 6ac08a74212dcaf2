import random
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.training.trainer.test_trainer import a_batch, make_trainer, weights
from training.checkpoints import CheckpointError
from training.recipe import Recipe
from training.trainer.state import random_state, set_random_state


def data_file(folder: Path) -> Path:
    (file,) = folder.glob("*.distcp")
    return file


def cut_in_half(folder: Path) -> None:
    file = data_file(folder)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut in half": cut_in_half,
    "emptied": lambda folder: data_file(folder).write_bytes(b""),
    "without a data file": lambda folder: data_file(folder).unlink(),
    "without metadata": lambda folder: (folder / ".metadata").unlink(),
    "metadata cut": lambda folder: (folder / ".metadata").write_bytes(b"\x80"),
    "not there": shutil.rmtree,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_checkpoint_is_named(
    toy_recipe: Recipe, toy_model: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    trainer, folder = make_trainer(toy_recipe, toy_model), tmp_path / "trainer"
    trainer.save(str(folder))
    damage(folder)

    with pytest.raises(CheckpointError, match=r"/trainer is damaged: \w+"):
        trainer.load(str(folder))


def test_checkpoint_of_another_model_or_recipe_is_named(
    toy_recipe: Recipe, toy_model: Path, schooled_model: Path, tmp_path: Path
) -> None:
    bigger, plain, critic = (str(tmp_path / name) for name in ("bigger", "plain", "critic"))
    make_trainer(toy_recipe, schooled_model).save(bigger)
    make_trainer(toy_recipe, toy_model).save(plain)
    make_trainer(toy_recipe, toy_model, loss__type="ppo").save(critic)

    with pytest.raises(CheckpointError, match=r"another model or recipe: .*mlp.* is \(.*\), here \("):
        make_trainer(toy_recipe, toy_model).load(bigger)
    with pytest.raises(CheckpointError, match=r"critic.head.bias is not there, here \(1,\)"):
        make_trainer(toy_recipe, toy_model, loss__type="ppo").load(plain)
    with pytest.raises(CheckpointError, match=r"critic.head.bias is \(1,\), here not wanted"):
        make_trainer(toy_recipe, toy_model).load(critic)


def test_checkpoint_from_before_the_first_update_changes_nothing(
    toy_recipe: Recipe, toy_model: Path, tmp_path: Path
) -> None:
    straight, saved = make_trainer(toy_recipe, toy_model), make_trainer(toy_recipe, toy_model)
    saved.save(str(tmp_path / "trainer"))
    resumed = make_trainer(toy_recipe, toy_model)

    assert resumed.load(str(tmp_path / "trainer")) == 0
    expected = straight.train_step(a_batch()).metrics
    for trainer in (saved, resumed):
        assert trainer.train_step(a_batch()).metrics == expected
        for name, value in weights(trainer).items():
            torch.testing.assert_close(value, weights(straight)[name], atol=0, rtol=0)


def test_what_is_saved_is_what_was_there_when_it_began(
    toy_recipe: Recipe, toy_model: Path, tmp_path: Path
) -> None:
    trainer, path = make_trainer(toy_recipe, toy_model), str(tmp_path / "trainer")
    trainer.train_step(a_batch())
    before = {name: value.clone() for name, value in trainer._state().tensors().items()}
    trainer.begin_save(path)
    with torch.no_grad():
        for value in trainer._state().tensors().values():
            value.add_(1)
    trainer.train_step(a_batch())
    trainer.end_save()

    assert trainer.load(path) == 1
    for name, value in trainer._state().tensors().items():
        torch.testing.assert_close(value, before[name], atol=0, rtol=0)


def test_full_disk_is_named(toy_recipe: Recipe, toy_model: Path, tmp_path: Path) -> None:
    trainer = make_trainer(toy_recipe, toy_model)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, unlimited[1]))
    try:
        with pytest.raises(CheckpointError, match=r"/trainer cannot be written: .*File too large"):
            trainer.save(str(tmp_path / "trainer"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)


def test_random_numbers_go_on() -> None:
    state = random_state()
    drawn = random.random(), torch.rand(3)
    set_random_state(state)

    assert random.random() == drawn[0]
    torch.testing.assert_close(torch.rand(3), drawn[1], atol=0, rtol=0)


def test_random_states_are_saved_with_the_trainer(
    toy_recipe: Recipe, toy_model: Path, tmp_path: Path
) -> None:
    trainer = make_trainer(toy_recipe, toy_model)
    trainer.save(str(tmp_path / "trainer"))
    drawn = random.random(), torch.rand(1).item()
    trainer.load(str(tmp_path / "trainer"))

    assert (random.random(), torch.rand(1).item()) == drawn
