"""Prompts that the model cannot be given, and models without a pad token."""

import json
import logging
import shutil
from pathlib import Path

import pytest

from tests.training.driver.test_controller import Setup, change
from training.recipe import Recipe
from training.tasks import make_task
from training.usable import check_verifiers


@pytest.fixture
def questions(tmp_path: Path) -> dict:
    """Options of a task whose training prompts are good, too long, and not to be spelt; its held-out ones good."""

    def write(name: str, prompts: list[str]) -> str:
        rows = [{"prompt": prompt, "answer": "1"} for prompt in prompts]
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    good = [f"{i}+{i}=" for i in range(6)]
    return {
        "path": write("train.jsonl", [*good, "1+" * 20, "one plus one", "2+" * 20]),
        "held_out_path": write("held_out.jsonl", ["7+7=", "8+8="]),
        "template": "{problem}<think>",
    }


def with_questions(recipe: Recipe, options: dict) -> Recipe:
    return change(recipe, task={"name": "exact", "options": options}, eval__prompts=2, budget__max_steps=1)


def test_unusable_training_prompts_are_left_out_and_counted(
    toy_recipe: Recipe, tmp_path: Path, questions: dict, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="training"):
        setup = Setup(with_questions(toy_recipe, questions), tmp_path / "run")
    outcome = setup.run()

    assert outcome.state == "succeeded"
    assert setup.reporter.series("data/prompts_left_out") == {0: 3.0}
    assert [r["metrics"].get("data/prompts_left_out") for r in setup.reporter.records][1:].count(3.0) == 0
    (line,) = [record.message for record in caplog.records if "left out" in record.message]
    assert line.startswith("3 of 9 training prompts are left out: ")


def test_usual_runs_leave_nothing_out(toy_recipe: Recipe, tmp_path: Path) -> None:
    setup = Setup(change(toy_recipe, budget__max_steps=1), tmp_path)
    setup.run()

    assert setup.reporter.series("data/prompts_left_out") == {0: 0.0}


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (3, "2 of [0-9]+ held-out prompts cannot be used: prompt .* rollout.max_prompt_tokens is 3"),
        (5, "no training prompt can be used"),
    ],
)
def test_unusable_held_out_prompt_is_an_error_before_training(
    toy_recipe: Recipe, tmp_path: Path, questions: dict, limit: int, reason: str
) -> None:
    if limit == 5:
        Path(questions["path"]).write_text('{"prompt": "one", "answer": "1"}\n')
    recipe = change(with_questions(toy_recipe, questions), rollout__max_prompt_tokens=limit)

    with pytest.raises(ValueError, match=reason):
        Setup(recipe, tmp_path / "run")


@pytest.fixture
def padless(toy_model: Path, tmp_path: Path) -> Path:
    """The toy model without a pad token anywhere."""
    folder = tmp_path / "models" / "padless"
    shutil.copytree(toy_model, folder)
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        content = json.loads((folder / name).read_text())
        content.pop("pad_token_id", None)
        content.pop("pad_token", None)
        (folder / name).write_text(json.dumps(content))
    return folder


def test_model_without_a_pad_token_trains(toy_recipe: Recipe, padless: Path, tmp_path: Path) -> None:
    from training.models import check_model

    recipe = change(toy_recipe, model=str(padless))
    setup = Setup(recipe, tmp_path / "run")

    assert check_model(str(padless), min_context=recipe.rollout.max_sequence_tokens) == padless
    assert setup.run().state == "succeeded"
    assert max(setup.reporter.series("train/mismatch_logp_max").values()) < 0.1


def test_padding_is_never_attended_to(toy_recipe: Recipe, padless: Path) -> None:
    from tests.training.conftest import LocalTrainer
    from training.rollouts import Group, Sample
    from training.tasks import Prompt
    from training.trainer.batching import make_batch

    def sample(length: int) -> Sample:
        response = [4 + i % 10 for i in range(length)]
        return Sample([5, 6, 7], response, [-1.0] * length, [True] * length, True)

    trainer = LocalTrainer(change(toy_recipe, model=str(padless)), padless).trainer
    samples = [sample(2), sample(15), sample(7)]
    prompt = Prompt("p", "", "")

    together = trainer.logp(make_batch([Group(prompt, samples)]))
    for row, own in enumerate(samples):
        alone = trainer.logp(make_batch([Group(prompt, [own])]))
        assert together[row][: len(alone[0])] == pytest.approx(alone[0], abs=1e-5)


class Needy:
    """A verifier that needs what this machine lacks."""

    def check(self) -> None:
        raise RuntimeError("no sandbox here")


def test_verifiers_say_what_the_machine_lacks(toy_recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task("arithmetic", toy_recipe.task.options)
    check_verifiers(task, toy_recipe)  # nothing is needed for sums

    monkeypatch.setattr(type(task), "verifier", lambda self, prompt: Needy())
    with pytest.raises(RuntimeError, match="no sandbox here"):
        check_verifiers(task, toy_recipe)
