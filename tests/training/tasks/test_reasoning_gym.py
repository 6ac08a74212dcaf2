import subprocess
import sys

import pytest

from training.tasks import TaskError, make_task
from training.tasks.reasoning_gym import COMPANIONS, ReasoningGym, datasets, difficulty_of
from training.verifiers.base import Verdict

FEW = {"train_prompts": 40, "held_out_pool": 20}
SUMS = {"dataset": "chain_sum", "config": {"min_terms": 2, "max_terms": 4, "max_digits": 1}, **FEW}


def judged(options: dict, response: str, place: int = 0) -> Verdict:
    task = make_task("reasoning_gym", options)
    prompt = task.held_out_prompts(place + 1)[place]
    answer = datasets()[options["dataset"]]  # the data set is there
    assert answer
    return task.verifier(prompt).verify(prompt.answer, response)


def right_answer(options: dict) -> str:
    question = make_task("reasoning_gym", options).held_out_prompts(1)[0].text
    return str(eval(question.partition("problem: ")[2].partition(" =")[0]))


@pytest.mark.parametrize(
    ("around", "correct"),
    [
        ("<think>hm</think>so <answer> {} </answer>.", True),
        ("<answer>7</answer> no: <answer>{}</answer>", True),
        ("{}", True),
        ("<think>{}", False),
        ("<answer>{}1</answer>", False),
        ("<answer>{}</answer><answer>x</answer>", False),
        ("", False),
    ],
)
def test_the_answer_is_scored_by_the_data_set(around: str, correct: bool) -> None:
    assert judged(SUMS, around.format(right_answer(SUMS))) == Verdict(correct)


def test_where_the_prompt_begins_the_thinking_it_must_end() -> None:
    options = SUMS | {"template": "{problem}<think>"}
    right = right_answer(options)

    assert judged(options, f"1+1</think>{right}").correct
    assert not judged(options, right).correct


def test_part_of_the_score_may_be_enough() -> None:
    right = right_answer(SUMS)

    assert not judged(SUMS, f"{right} or so").correct
    assert judged(SUMS | {"min_score": 0.01}, f"{right} or so").correct


def test_held_out_prompts_are_never_trained_on_and_the_same_whatever_is() -> None:
    few, many = make_task("reasoning_gym", SUMS), make_task("reasoning_gym", SUMS | {"train_prompts": 300})
    training = {prompt.text for prompt in many.training_prompts(0)}

    assert len(training) == 300
    assert many.held_out_prompts(20) == few.held_out_prompts(20)
    assert not training & {prompt.text for prompt in many.held_out_prompts(20)}
    assert many.training_prompts(1) != many.training_prompts(2)
    with pytest.raises(ValueError, match="holds out 20 prompts, not 21"):
        few.held_out_prompts(21)


def test_prompts_and_verdicts_are_the_same_in_another_process() -> None:
    task = make_task("reasoning_gym", SUMS)
    prompt = task.held_out_prompts(1)[0]
    code = f"""
from training.tasks import make_task
task = make_task("reasoning_gym", {SUMS!r})
prompt = task.held_out_prompts(1)[0]
print(prompt.id, task.verifier(prompt).verify({prompt.answer!r}, {right_answer(SUMS)!r}).correct)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )

    assert done.stdout.split() == [prompt.id, "True"]


def test_another_problem_of_the_same_number_is_a_failure() -> None:
    prompt = make_task("reasoning_gym", SUMS).held_out_prompts(1)[0]
    other = make_task("reasoning_gym", SUMS | {"config": {"max_terms": 3}}).verifier(prompt)

    assert "makes another problem" in other.verify(prompt.answer, "7").failure


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dataset": "chess"}, "option dataset: no data set named 'chess'; there are: ab, acre,"),
        ({"dataset": "chain_sums"}, "option dataset: no data set named 'chain_sums'; there are: chain_sum"),
        (
            {"config": {"colour": 1}},
            "option config: chain_sum has no setting 'colour'; it has: allow_negation",
        ),
        ({"config": {"seed": 1}}, "option config: chain_sum has no setting 'seed'"),
        ({"config": {"min_terms": 9}}, "option config: chain_sum refuses it: max_terms must be"),
        ({"config": {"min_terms": "x"}}, "option config: chain_sum refuses it: '>' not supported"),
        ({"dataset": "coin_flip", "config": {}}, "found only [0-9]+ problems with these options, not 3060"),
        ({"template": "no slot"}, "option template: must hold {problem} once"),
        ({"min_score": 0}, "option min_score"),
    ],
)
def test_wrong_options(options: dict, reason: str) -> None:
    with pytest.raises(TaskError, match=reason):
        make_task("reasoning_gym", SUMS | {"train_prompts": 3040} | options)


def test_difficulty_is_what_the_data_set_varies() -> None:
    prompts = make_task("reasoning_gym", SUMS).training_prompts(0)

    assert {prompt.difficulty for prompt in prompts} == {2, 3, 4}  # terms of one digit
    assert (
        difficulty_of({"difficulty": {"a": (1, 3), "b": (2, 5), "c": (4, 4)}, "a": 2, "b": 5, "c": 4}) == 10
    )
    assert difficulty_of({"difficulty": 1.5}) == 1.5
    assert difficulty_of({"difficulty": {"words": (1, 3)}, "words": ["a", "b"]}) is None
    assert difficulty_of({}) is None


@pytest.mark.parametrize(
    ("name", "isolation"),
    [("chain_sum", "process"), ("letter_counting", "inline"), ("basic_arithmetic", "inline")],
)
def test_what_does_more_than_compare_texts_is_scored_elsewhere(name: str, isolation: str) -> None:
    task = make_task("reasoning_gym", {"dataset": name, **FEW})

    assert task.verifier(task.held_out_prompts(1)[0]).isolation == isolation


def test_other_data_sets_work_although_the_packages_of_a_few_are_missing() -> None:
    assert len(datasets()) > 100
    missing = next((name for name in ("magiccube", "pycosat") if name not in sys.modules), None)
    assert missing
    for name, package in (("rubiks_cube", "magiccube"), ("zebra_puzzles", "pycosat")):
        with pytest.raises(
            TaskError, match=f"data set {name}, problem 0: needs the package {package}, which is not"
        ):
            make_task("reasoning_gym", {"dataset": name, **FEW})
    assert not COMPANIONS & {module.partition(".")[0] for module in sys.modules}


def test_config_reaches_the_data_set() -> None:
    task = ReasoningGym(dataset="letter_counting", config={"min_words": 2, "max_words": 2}, **FEW)

    assert all(len(p.text.split('text: "')[1].split('"')[0].split()) == 2 for p in task.training_prompts(0))
