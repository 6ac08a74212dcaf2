"""Benchmarks of checkpoints: asked for, and side by side with what a run measured while it trained."""

import shutil

import pytest

from tests.checkpoints import whole_checkpoint
from tests.launching import tracked_run
from tests.webapp.interfaces.pages.conftest import make_run, model_folder, project, user  # noqa: F401 (fixtures)
from training.records import Record
from webapp.base.errors import Conflict, InvalidInput
from webapp.record.evaluations.models import Evaluation
from webapp.record.evaluations.selectors import matrix_of
from webapp.record.evaluations.services import EvaluationRequest, ask_for, cancel
from webapp.record.runs import ingest

SUMS = {"max_digits": 2, "held_out_pool": 5, "train_prompts": 20}


@pytest.fixture
def run(make_run, settings, tmp_path):  # noqa: F811
    found = make_run(3)
    settings.HEADROOM_HOME = tmp_path
    for step in (2, 4):
        whole_checkpoint(found.pk, step)
    return found


def ask(run, user=None, **asked):  # noqa: F811
    return ask_for(run, EvaluationRequest(**{"task": "arithmetic", "options": SUMS} | asked), user=user)


def test_the_newest_checkpoint_is_meant_and_the_same_question_is_the_same_evaluation(run):
    first, is_new = ask(run)
    again, is_new_again = ask(run, step=4)
    other, _ = ask(run, k=4)

    assert (first.step, first.state, is_new) == (4, "queued", True)
    assert (again.pk, is_new_again) == (first.pk, False)
    assert other.pk != first.pk and other.label.endswith("k=4")


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_one_that_failed_or_was_cancelled_goes_again(run, state):
    first, _ = ask(run)
    Evaluation.objects.update(state=state, reason="the node is gone", tries=1)

    again, is_new = ask(run)

    assert (again.pk, again.state, again.reason, is_new) == (first.pk, "queued", "", True)


def test_one_that_waits_is_cancelled_at_once_and_one_at_work_once_it_has_stopped(run):
    one, _ = ask(run)
    assert cancel(one, user=None).state == cancel(one, user=None).state == "cancelled"

    Evaluation.objects.update(state="running")
    assert cancel(one, user=None).state == cancel(one, user=None).state == "stopping"

    Evaluation.objects.update(state="succeeded")
    with pytest.raises(Conflict, match="It has succeeded"):
        cancel(one, user=None)


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        ({"step": 3}, "step", "there are checkpoints of 2, 4"),
        ({"task": "chess"}, "task", "no benchmark named 'chess'"),
        ({"task": "math", "options": {"path": "gone.jsonl"}}, "task", "gone.jsonl: no such file"),
        ({"task": "math", "options": {"path": "../passwords"}}, "options", "inside HEADROOM_HOME/data"),
        ({"options": {"max_digits": 99}}, "task", "option max_digits"),
        ({"options": {"a=b": 1}}, "options", "small letters"),
        ({"options": {"template": "x" * 2000}}, "options", "at most 1000 characters"),
        ({"k": 0}, "k", "from 1 to"),
        ({"limit": -1}, "limit", "from 0"),
        ({"task": "lm_eval/../x", "options": {}}, "task", "lm_eval/ and the name"),
        (
            {"task": "lm_eval/x", "options": {"confirm_run_unsafe_code": True}},
            "options",
            "no option confirm_run",
        ),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(run, asked, field, words):
    with pytest.raises(InvalidInput, match=words) as refused:
        ask(run, **asked)
    assert refused.value.field == field
    assert not Evaluation.objects.exists()


def test_runs_without_a_checkpoint_here_are_refused(run, user, project, tmp_path):  # noqa: F811
    elsewhere = tracked_run(user=user, project=project, name="elsewhere")

    with pytest.raises(Conflict, match="trains elsewhere"):
        ask(elsewhere)
    shutil.rmtree(tmp_path / "runs" / run.pk)
    with pytest.raises(Conflict, match="no checkpoint"):
        ask(run)


def measured(run, seq, step, **values):
    metrics = {f"downstream/{name}": value for name, value in values.items()}
    record = {
        "attempt": 1, "seq": seq, "step": step, "time": "2026-11-26T10:00:00Z",
        "compute": {"device_hours": 20.0, "flops": 1.0, "tokens": 1}, "metrics": metrics,
    }  # fmt: skip
    ingest.store_records(run, [Record.model_validate(record)])


def test_the_matrix_has_both_kinds_beside_the_held_out_pass_rate(run):
    evaluated = list(run.records.order_by("seq"))[-1]
    measured(run, 900, 0, gsm8k=0.1, gsm8k_stderr=0.02, gsm8k_contamination=0.25)
    measured(run, 901, evaluated.step, gsm8k=0.3, aime24=0.0)
    asked, _ = ask(run, step=4)
    result = {"pass_rate": 0.5, "pass_rate_stderr": 0.1, "contamination": 0.0}
    Evaluation.objects.filter(pk=asked.pk).update(state="succeeded", result=result)

    matrix = matrix_of(run)

    assert matrix.names == ["gsm8k", "aime24", asked.label]
    assert [row.step for row in matrix.rows] == sorted({0, 4, evaluated.step})
    by_step = {row.step: row for row in matrix.rows}
    first, last = by_step[0].scores["gsm8k"], by_step[evaluated.step]
    assert (first.value, first.stderr, first.contamination, first.seen) == (0.1, 0.02, 0.25, "25.0 %")
    assert last.held_out.value == evaluated.metrics["eval/pass_rate"] and last.scores["aime24"].value == 0
    assert by_step[4].scores[asked.label].stderr == 0.1


def test_a_benchmark_of_the_recipe_and_another_of_that_task_are_two_columns(run):
    asked = {"task": "arithmetic", "options": {"max_digits": 3, "held_out_pool": 5}, "k": 2}
    run.config["eval"]["downstream"] = [asked | {"every_steps": None}, {"task": "gsm8k"}]
    run.save()
    measured(run, 900, 2, arithmetic=0.9)
    for k, value in ((1, 0.1), (2, 0.8)):
        found, _ = ask(run, step=4, **asked | {"k": k})
        Evaluation.objects.filter(pk=found.pk).update(state="succeeded", result={"pass_rate": value})

    matrix = matrix_of(run)

    same, other = (
        "arithmetic, held_out_pool=5, max_digits=3, k=2",
        "arithmetic, held_out_pool=5, max_digits=3",
    )
    assert {row.step: {name: score.value for name, score in row.scores.items()} for row in matrix.rows} == {
        2: {same: 0.9},
        4: {same: 0.8, other: 0.1},
    }
