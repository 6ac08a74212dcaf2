from collections import Counter

import pytest

from training.tasks import TaskError, make_task
from training.tasks.arithmetic import make_prompt


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("arithmetic", {"colour": 1}, "option colour"),
        ("arithmetic", {"max_digits": 0}, "option max_digits"),
        ("arithmetic", {"max_digits": 2}, "^options: there are only 8100 problems of 2 to 2 digits"),
        ("arithmetic", {"min_digits": 3, "max_digits": 2}, "min_digits is above"),
        ("arithmetic", {"min_digits": 1, "max_digits": 1}, "only 81 problems of 1 to 1 digits"),
    ],
)
def test_wrong_options(name: str, options: dict, reason: str) -> None:
    with pytest.raises(TaskError, match=reason):
        make_task(name, options)


def test_held_out_prompts_are_never_trained_on() -> None:
    task = make_task("arithmetic")

    training = {prompt.id for prompt in task.training_prompts(seed=0)}
    held_out = {prompt.id for prompt in task.held_out_prompts(1024)}

    assert (len(training), len(held_out)) == (8192, 1024)
    assert not training & held_out


def test_seed_orders_the_training_prompts_and_nothing_else() -> None:
    task = make_task("arithmetic")

    assert task.training_prompts(1) == make_task("arithmetic").training_prompts(1)
    assert task.training_prompts(1) != task.training_prompts(2)
    assert set(task.training_prompts(1)) == set(task.training_prompts(2))


def test_too_many_held_out_prompts() -> None:
    with pytest.raises(ValueError, match="holds out 1024 prompts, not 1025"):
        make_task("arithmetic").held_out_prompts(1025)


def test_problems_have_the_digits_asked_for() -> None:
    task = make_task("arithmetic", {"min_digits": 1, "max_digits": 3, "train_prompts": 500})

    lengths = {tuple(map(len, prompt.id.split("+"))) for prompt in task.training_prompts(0)}

    assert lengths == {(1, 1), (2, 2), (3, 3)}


def test_digits_are_spread_evenly() -> None:
    sizes = Counter(prompt.difficulty for prompt in make_task("arithmetic").held_out_prompts(1024))

    assert sorted(sizes) == [2, 3, 4, 5, 6, 7, 8]
    assert min(sizes.values()) > 1024 / 7 - 4 * 11.2  # four standard errors of a count


def test_held_out_prompts_are_the_same_whatever_is_trained_on() -> None:
    few, many = (
        make_task("arithmetic", {"train_prompts": 64}),
        make_task("arithmetic", {"train_prompts": 20_000}),
    )

    assert few.held_out_prompts(1024) == many.held_out_prompts(1024)


def test_few_short_problems_are_shared_between_training_and_held_out() -> None:
    task = make_task(
        "arithmetic", {"min_digits": 1, "max_digits": 2, "train_prompts": 1000, "held_out_pool": 1000}
    )

    held_out = sum(prompt.difficulty == 1 for prompt in task.held_out_prompts(1000))

    assert held_out == 41  # half of 81
    assert sum(prompt.difficulty == 1 for prompt in task.training_prompts(0)) == 40


@pytest.mark.parametrize(
    ("response", "correct"),
    [
        ("78153509</think>95", True),
        ("</think>95", True),
        ("nonsense</think> 95 ", True),
        ("15,9</think>96", False),
        ("95", False),
        ("15,9</think>", False),
        ("15,9</think>095", False),
        ("15,9</think>95</think>95", False),
        ("15,9</think>95 or 96", False),
        ("", False),
    ],
)
def test_verifier(response: str, correct: bool) -> None:
    prompt = make_prompt(37, 58)

    assert make_task("arithmetic").verifier(prompt).verify(prompt.answer, response).correct is correct
