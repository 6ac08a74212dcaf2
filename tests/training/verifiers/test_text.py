import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.verifiers.text import Choice, ExactMatch, choice, final_answer, last_boxed, normalise


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<think>a</think> b ", "b"),
        ("a</think>b</think>c", "c"),
        ("no trace", "no trace"),
        ("<think>never ended", ""),
        ("<think>a</think>b<think>begun again", ""),
        ("all</think>", ""),
    ],
)
def test_final_answer(response: str, answer: str) -> None:
    assert final_answer(response) == answer


@pytest.mark.parametrize(
    ("text", "boxed"),
    [
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{x\right.}", r"\left\{x\right."),
        (r"\boxed {3}", "3"),
        (r"\boxed{4} and \boxed{5", "4"),
        (r"\boxed{a \boxed{b}}", "b"),
        (r"} \boxed{6}", "6"),
        (r"\boxed{}", ""),
        ("none {1}", None),
        (r"\boxed{", None),
    ],
)
def test_last_boxed(text: str, boxed: str | None) -> None:
    assert last_boxed(text) == boxed


@given(st.text(alphabet="ab{ \\}"), st.text(alphabet="xy "))
def test_last_boxed_finds_what_was_put_last(before: str, content: str) -> None:
    assert last_boxed(f"{before} \\boxed{{{content}}}") == content


@pytest.mark.parametrize(
    "junk", ["\\boxed{" * 100_000, "{" * 500_000, "answer " * 100_000, "A.) *" * 100_000, " " * 10**6]
)
def test_hostile_text_takes_no_time(junk: str) -> None:
    began = time.process_time()

    Choice().verify("A", junk)
    ExactMatch().verify("x", junk)

    assert time.process_time() - began < 20  # what grows with the square of its length takes hours


@pytest.mark.parametrize(
    ("answer", "response", "correct"),
    [
        ("Paris", "paris.", True),
        ("Paris", "<think>Rome</think>The Paris", True),
        ("Paris", "Paris, France", False),
        ("Paris", "Rome", False),
        ("Paris", "I think it is \\boxed{Paris}", True),
        ('["Paris", "Paris, France"]', "paris france", True),
        ('["Paris", "Lutetia"]', "Rome", False),
        ('["The Beatles"]', "Beatles", True),
        ("1999", "1999", True),
        ('"quoted"', "quoted", True),
        ("the", "a", False),
        ("Paris", "", False),
        ("Paris", "<think>Paris</think>", False),
    ],
)
def test_exact_match(answer: str, response: str, correct: bool) -> None:
    assert ExactMatch().verify(answer, response).correct is correct


@given(st.text())
def test_normalising_twice_changes_nothing_and_a_text_matches_itself(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)
    if normalise(final_answer(text)) and last_boxed(text) is None:
        assert ExactMatch().verify(json.dumps([final_answer(text)]), text).correct


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("The answer is (B).", "B"),
        ("The answer is (b)", "B"),
        ("Answer: C", "C"),
        ("Answer: **D**", "D"),
        ("**Answer:** the sky", None),
        ("The correct answer is A, not B. So the answer is B because ...", "B"),
        ("The final answer is option C, clearly", "C"),
        ("so \\boxed{D}", "D"),
        ("so \\boxed{\\text{(a)}}", "A"),
        ("\\boxed{A} but the answer is (B)", "A"),
        ("It must be\n\nC", "C"),
        ("B", "B"),
        ("(B)", "B"),
        ("B.", "B"),
        ("<think>The answer is A</think>The answer is E", "E"),
        ("<think>The answer is A</think>", None),
        ("The answer is a bit unclear", None),
        ("The answer is Denmark", None),
        ("A dog is what I", "I"),
        ("nothing", None),
        ("", None),
    ],
)
def test_choice(response: str, letter: str | None) -> None:
    assert choice(response) == letter


def test_choice_verdicts() -> None:
    assert Choice().verify("B", "The answer is (B).").correct
    assert Choice().verify("(b)", "The answer is (B).").correct
    assert not Choice().verify("A", "The answer is (B).").correct
    assert Choice().verify("A", "no idea").reason == "no letter chosen"
    assert Choice().verify("Paris", "A").failure == "broken answer: 'Paris' is not one letter"
