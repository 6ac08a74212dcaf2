"""From a study file to runs."""

from pathlib import Path

import pytest

from stack.environment import ROOT
from training.study import plan
from training.study.file import StudyFileError, Written, load_study


@pytest.fixture
def write(tmp_path):
    def written(text: str) -> Written:
        path: Path = tmp_path / "some.yaml"
        path.write_text(text)
        return load_study(path)

    return written


def second_study(text: str) -> str:
    """Of the same baseline, with another arm and one seed more."""
    study = text.partition("studies:\n")[2].replace("name: loss", "name: norm").replace("dapo:", "prompt:")
    study = study.replace("loss.type: dapo", "advantage.norm: prompt").replace("[0, 1]", "[0, 1, 2]")
    return text + study


def test_runs_come_seed_by_seed_and_the_baseline_is_trained_once(write, text):
    runs = plan.plan(write(second_study(text)))

    assert [(run.recipe.seed, *run.places) for run in runs] == [
        (0, ("loss", "cispo"), ("norm", "cispo")),
        (0, ("loss", "dapo")),
        (0, ("norm", "prompt")),
        (1, ("loss", "cispo"), ("norm", "cispo")),
        (1, ("loss", "dapo")),
        (1, ("norm", "prompt")),
        (2, ("norm", "cispo")),
        (2, ("norm", "prompt")),
    ]
    assert len({run.id for run in runs}) == len(runs)
    assert {run.steps for run in runs} == {6}


def test_an_arm_with_a_longer_budget_is_another_run(write, text):
    long = text.replace("loss.type: dapo", "budget: {steps: 24, minutes: 5}")

    runs = plan.plan(write(long))

    assert [(run.steps, run.minutes) for run in runs][:2] == [(6, 1), (24, 5)]


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "reason"),
    [
        ("loss.type: dapo", "loss.typ: dapo", 12, "studies.0.arms.dapo.loss.typ", "no such field"),
        ("loss.type: dapo", "loss.type: nonsense", 12, "studies.0.arms.dapo.loss.type", "Input should be"),
        ("engine.type: transformers", "engine.type: jax", 7, "studies.0.settings.engine.type", "Input should be"),
        ("recipe: tiny/scalerl", "recipe: tiny/none", 5, "studies.0.recipe", "'tiny/none'"),
        ("recipe: tiny/scalerl", "recipe: ../x.yaml", 5, "studies.0.recipe", "no committed recipe"),
        ("loss.type: dapo", "loss.type: cispo", 11, "studies.0.arms.dapo", "trains the same as the arm cispo"),
        ("loss.type: dapo", "rollout.max_untrained_prompts: 1", 11, "studies.0.arms.dapo", "is below"),
        ("loss.type: dapo", "budget: {steps: 1, minutes: 5}", 12, "studies.0.arms.dapo.budget.steps", "no curve"),
        ("steps: 6", "steps: 1", 15, "studies.0.budget.steps", "evaluations, 3: there would be no curve"),
    ],
)  # fmt: skip
def test_an_override_that_the_schema_refuses_is_named_with_its_line(
    write, text, old, new, line, field, reason
):
    with pytest.raises(StudyFileError) as caught:
        plan.plan(write(text.replace(old, new)))

    (problem,) = caught.value.problems
    assert (problem.line, problem.field) == (line, field)
    assert reason in problem.reason


def test_some_of_the_runs(write, text):
    runs = plan.plan(write(second_study(text)))

    assert {run.places[0] for run in plan.only(runs, "loss.dapo")} == {("loss", "dapo")}
    assert len(plan.only(runs, "loss")) == 4
    with pytest.raises(ValueError, match="there are the studies loss, norm"):
        plan.only(runs, "loss.gspo")


def test_what_a_machine_cannot_train_is_refused_before_anything_runs(write, text, home):
    written = write(text.replace("loss.type: dapo", "task.options.min_digits: 99"))

    with pytest.raises(StudyFileError, match=r"some.yaml, line 11: studies.0.arms.dapo: task: .*min_digits"):
        plan.check_runs(written, plan.plan(written), home)


def test_a_model_that_is_not_there_is_made_first(write, text, home, tmp_path):
    written = write(text)
    runs = plan.plan(written)

    assert plan.models_to_make(runs, home) == []  # there, and not of our making
    assert plan.models_to_make(runs, tmp_path) == ["tiny-arithmetic"]
    plan.check_runs(written, runs, home)
    plan.check_runs(written, runs, tmp_path, with_models=False)
    plan.check_runs(written, runs, tmp_path)  # a run that is started by itself makes it, too
    own = write(text.replace("settings:\n", "settings:\n      model: own\n"))
    with pytest.raises(StudyFileError, match="model"):
        plan.check_runs(own, plan.plan(own), tmp_path)


def test_the_file_of_the_docs_is_one(write):
    page = (ROOT / "docs" / "studies.md").read_text()

    runs = plan.plan(write(page.partition("```yaml\n")[2].partition("```")[0]))

    assert [(str(run).partition(" (")[0], run.steps) for run in runs][:3] == [
        ("loss.cispo seed 0", 300),
        ("loss.dapo seed 0", 300),
        ("loss.gspo-long seed 0", 1200),
    ]
    assert len(runs) == 7
