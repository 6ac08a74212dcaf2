"""What every family promises: with no mistakes it is right, with mistakes it seldom is, and guesses are guesses."""

import random
import re
import statistics
from collections.abc import Sequence

import pytest

from training.pretrain import EOS, make_tokenizer
from training.tasks import Prompt, Task
from training.tasks.arithmetic import make_prompt
from training.teaching import FAMILIES

SIZES = {"arithmetic": (2, 8), "countdown": (3, 5), "expressions": (2, 7)}
CONTEXT = 128


def share_right(name: str, size: int, mistakes: float | None, count: int = 60) -> float:
    """Of `count` responses; mistakes None: guesses."""
    family, rng = FAMILIES[name], random.Random(f"{name}{size}")
    right = 0
    for _ in range(count):
        prompt = family.problem(size, rng)
        response = family.guess(prompt, rng) if mistakes is None else family.worked(prompt, mistakes, rng)
        right += is_right(name, prompt, response)
    return right / count


def is_right(name: str, prompt: Prompt, response: str) -> bool:
    if name == "expressions":  # its verifier knows problems by their numbers
        return response.partition("</think>")[2] == str(eval(prompt.id))
    return family_task(name).verifier(prompt).verify(prompt.answer, response).correct


def family_task(name: str) -> Task:
    return FAMILIES[name].task()


@pytest.mark.parametrize("name", ["arithmetic", "expressions"])
def test_without_mistakes_responses_are_right(name: str) -> None:
    assert all(share_right(name, size, 0.0) == 1 for size in SIZES[name])


def test_sums_are_worked_off_column_by_column() -> None:
    response = FAMILIES["arithmetic"].worked(make_prompt(37, 58), 0.0, random.Random(0))

    assert response == "78153509</think>95"  # 7 + 8 = 15, 3 + 5 + 1 = 09


def test_searches_are_right_if_they_hit_before_patience_ends() -> None:
    assert 0 < share_right("countdown", 5, 0.0) < share_right("countdown", 3, 0.0) < 0.6


@pytest.mark.parametrize("name", FAMILIES)
def test_mistakes_and_size_make_it_seldom(name: str) -> None:
    easy, hard = SIZES[name]

    assert share_right(name, hard, 0.3) < share_right(name, easy, 0.3) < 0.8
    assert share_right(name, hard, 0.3) < share_right(name, hard, 0.0)


@pytest.mark.parametrize("name", FAMILIES)
def test_guesses_do_not_think_and_are_seldom_right(name: str) -> None:
    rng = random.Random(1)
    prompt = FAMILIES[name].problem(SIZES[name][1], rng)

    assert FAMILIES[name].guess(prompt, rng).startswith("</think>")
    assert share_right(name, SIZES[name][1], None) < 0.2


@pytest.mark.parametrize("name", FAMILIES)
def test_problems_look_like_the_task_s_own(name: str) -> None:
    rng, codec = random.Random(2), make_tokenizer()
    easy, hard = SIZES[name]
    drawn = [FAMILIES[name].problem(rng.randint(easy, hard), rng) for _ in range(300)]
    own = family_task(name).held_out_prompts(300)

    def width(prompts: Sequence[Prompt]) -> float:
        return statistics.mean(len(codec.encode(prompt.text).ids) for prompt in prompts)

    assert width(drawn) == pytest.approx(width(own), abs=1.5)
    assert {prompt.difficulty for prompt in own} == set(map(float, range(easy, hard + 1)))


def test_one_vocabulary_spells_every_family() -> None:
    rng, codec = random.Random(3), make_tokenizer()
    for name, (easy, hard) in SIZES.items():
        for size in range(easy, hard + 1):
            prompt = FAMILIES[name].problem(size, rng)
            for text in (prompt.text, FAMILIES[name].worked(prompt, 0.1, rng) + EOS):
                assert codec.decode(codec.encode(text).ids, False) == text.replace(" ", "")


def test_expressions_are_worked_off_one_operation_at_a_time() -> None:
    prompt = Prompt("4 - 6 - 10 + 9", "", "-3")

    assert FAMILIES["expressions"].worked(prompt, 0.0, random.Random(0)) == "-2-10+9=-12+9=-3</think>-3"


def test_searches_show_the_value_after_each_step() -> None:
    prompt = FAMILIES["countdown"].problem(3, random.Random(5))
    trace, _, chain = FAMILIES["countdown"].worked(prompt, 0.0, random.Random(6)).partition("</think>")

    last = trace.split(",")[-1]
    assert last.count("=") == 2
    assert re.sub(r"=\d+", "", last) == chain  # without the values it is the answer
