from pathlib import Path

import psutil
import pytest

from training.memory import GIB
from training.recipe import (
    RecipeError,
    apply_overrides,
    check_devices,
    check_runnable,
    load_recipe,
    memory_here,
    on_gpus_here,
)
from training.schema import Resources

GPUS = Resources(generator_gpus=2, trainer_gpus=1)


def test_gpus_are_refused_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(
        RecipeError, match="^resources.generator_gpus: asks for 2 GPUs; this machine has none"
    ):
        check_devices(GPUS, tmp_path)
    with pytest.raises(RecipeError, match="^resources.trainer_gpus: asks for 1 GPU;"):
        check_devices(Resources(trainer_gpus=1), tmp_path)

    check_devices(Resources(generator_cpus=99), tmp_path)


@pytest.mark.parametrize("name", ["nvidia0", "nvidia12", "dxg", "kfd"])
def test_gpus_of_this_machine(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()

    for sizes in ([], [80 * GIB] * 3):  # nothing tells how many there are; enough
        check_devices(GPUS, tmp_path, lambda sizes=sizes: sizes)
    with pytest.raises(
        RecipeError, match="resources.trainer_gpus: .* ask for 3 GPUs together; this machine has 2"
    ):
        check_devices(GPUS, tmp_path, lambda: [80 * GIB] * 2)
    taking_turns = Resources(generator_gpus=2, trainer_gpus=2, shared=True)
    check_devices(taking_turns, tmp_path, lambda: [80 * GIB] * 2)


def test_the_smallest_gpu_of_this_machine_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    recipe = load_recipe("scalerl")

    assert on_gpus_here(recipe, lambda: [85_520_809_984, 25_757_220_864]).resources.gpu_gib == 24.0
    assert on_gpus_here(recipe, lambda: [141 * GIB]) == on_gpus_here(recipe, list) == recipe
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    assert on_gpus_here(recipe, lambda: [24 * GIB]) == recipe


def test_the_memory_of_this_machine_counts_where_it_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert 0 < (memory_here() or 0) <= psutil.virtual_memory().total
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    assert memory_here() is None


def test_another_cluster_may_have_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")

    check_devices(GPUS, tmp_path)


@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")), reason="this machine has a GPU")
def test_before_the_run_is_queued(toy_model: Path) -> None:
    recipe = apply_overrides(
        load_recipe("tiny/scalerl"), {"model": str(toy_model), "resources.generator_gpus": 1}
    )

    with pytest.raises(RecipeError) as raised:
        check_runnable(recipe)
    assert raised.value.field == "resources.generator_gpus"
