"""What the driver keeps of batches and evaluations, and that training knows nothing of it."""

from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import MemoryReporter
from tests.training.driver.test_controller import Setup, change
from tests.training.fakes import HashGenerator, HashTrainer, Lengths
from training import samples
from training.checkpoints import newest_checkpoint
from training.recipe import Recipe


@pytest.fixture
def recipe(toy_recipe: Recipe) -> Recipe:
    """Four steps of two prompts, of which every second one is evaluated and kept."""
    return change(
        toy_recipe,
        offpolicy__k=0,
        curriculum__mode="uniform",
        budget__max_steps=4,
        eval__every_steps=2,
        checkpoint__every_steps=2,
        samples__every_steps=2,
        samples__groups=1,
    )


def trained(recipe: Recipe, folder: Path, **parts: Any) -> Setup:
    resume = newest_checkpoint(folder / "checkpoints")
    setup = Setup(
        recipe, folder, resume, task=Lengths(), engine=HashGenerator(), trainer=HashTrainer(), **parts
    )
    setup.run()
    return setup


def test_some_groups_of_each_evaluation_and_each_nth_batch_are_kept(recipe: Recipe, tmp_path: Path) -> None:
    setup = trained(recipe, tmp_path)

    folder = tmp_path / "samples"
    assert samples.steps_in(folder, "eval") == [0, 2, 4] and samples.steps_in(folder, "train") == [2, 4]
    evaluated = [samples.read(folder / samples.file_name("eval", step))[0] for step in (0, 2, 4)]
    assert len({rows[0]["prompt_id"] for rows in evaluated}) == 1  # one prompt can be followed
    assert [len(rows) for rows in evaluated] == [2, 2, 2]  # eval.k
    assert (
        evaluated[0][0]["logp_gap"] == 0.0 and evaluated[0][1]["logp_gap"] is None
    )  # the second is not compared
    rows, _ = samples.read(folder / samples.file_name("train", 2))
    assert len(rows) == recipe.rollout.generations_per_prompt
    assert {row["version_newest"] for row in rows} == {1} and all(row["tokens"] > 0 for row in rows)
    # The prompt opens the thinking: judged is what comes from its end on, or a thought that has none.
    judged = [row["response"].partition("</think>") for row in rows]
    lengths = [len(end + answer) if end else len("<think>" + thought) for thought, end, answer in judged]
    assert [row["correct"] for row in rows] == [length % 2 == 0 for length in lengths]
    assert sorted(setup.reporter.samples) == [
        ("eval", 0),
        ("eval", 2),
        ("eval", 4),
        ("train", 2),
        ("train", 4),
    ]


def test_training_is_the_same_with_and_without(recipe: Recipe, tmp_path: Path) -> None:
    kept = trained(recipe, tmp_path / "a")
    without = trained(change(recipe, samples__groups=0), tmp_path / "b")

    assert kept.trainer.state == without.trainer.state
    assert not (tmp_path / "b" / "samples").exists() and without.reporter.samples == {}


def test_a_resume_replaces_what_it_makes_again(recipe: Recipe, tmp_path: Path) -> None:
    trained(change(recipe, budget__max_steps=2), tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / "samples").iterdir()}
    samples.write(tmp_path / "samples", "train", 4, samples.prepare([{"response": "of a lost attempt"}]).rows)
    samples.write(
        tmp_path / "samples", "train", 40, samples.prepare([{"response": "of a lost attempt"}]).rows
    )

    trained(recipe, tmp_path)

    assert samples.steps_in(tmp_path / "samples", "train") == [2, 4]
    rows, _ = samples.read(tmp_path / "samples" / "train-00000004.parquet")
    assert len(rows) == recipe.rollout.generations_per_prompt
    assert (tmp_path / "samples" / "train-00000002.parquet").read_bytes() == before["train-00000002.parquet"]


def test_what_cannot_be_kept_is_a_warning(
    recipe: Recipe, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "samples").write_text("in the way")

    setup = trained(recipe, tmp_path)

    assert setup.controller.step == 4
    assert any("samples are not kept" in record.getMessage() for record in caplog.records)


def test_a_reporter_that_fails_costs_no_file(recipe: Recipe, tmp_path: Path) -> None:
    class Fails(MemoryReporter):
        def log_samples(self, *args: Any, **kwargs: Any) -> None:
            raise OSError("the disk is full")

    trained(recipe, tmp_path, reporter=Fails())

    assert samples.steps_in(tmp_path / "samples", "train") == [2, 4]
