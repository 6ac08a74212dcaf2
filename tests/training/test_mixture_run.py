"""A run on a mixture: one curve for each part."""

from pathlib import Path

from tests.training.driver.test_controller import Setup, change
from training.recipe import Recipe


def test_each_part_has_curves_of_its_own(toy_recipe: Recipe, tmp_path: Path) -> None:
    sums = {"train_prompts": 20, "held_out_pool": 10, "min_digits": 1}
    parts = [
        {"task": "arithmetic", "name": "short", "options": {**sums, "max_digits": 1, "min_digits": 1}},
        {"task": "arithmetic", "name": "long", "weight": 3, "options": sums},
    ]
    recipe = change(
        toy_recipe,
        task={"name": "mixture", "options": {"parts": parts}},
        rollout__prompts_per_step=8,
        budget__max_steps=3,
    )
    setup = Setup(recipe, tmp_path)
    setup.run()

    for part, count in (("short", 1), ("long", 3)):
        assert list(setup.reporter.series(f"eval/{part}/pass_rate")) == [0, 1, 2, 3]
        assert set(setup.reporter.series(f"eval/{part}/n_prompts").values()) == {count}
        assert setup.reporter.series(f"train/{part}/pass_rate")
    assert list(setup.reporter.series("eval/pass_at_k")) == [0, 1, 2, 3]
