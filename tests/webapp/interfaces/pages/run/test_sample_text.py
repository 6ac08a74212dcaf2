"""Text from models: harmless, split into thinking and answer, compared word by word."""

import pytest

from webapp.interfaces.pages.run.sample_text import MOST_WORDS, Part, compared, harmless, shown


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31mred\x00", "␛[31mred␀"),
        ("abc\u202edcba\u2066", "abc⟨U+202E⟩dcba⟨U+2066⟩"),
        ("zero\u200bwidth\ufeff", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
        ("\x85\u2028\u00ad\U000e0041", "⟨U+0085⟩⟨U+2028⟩⟨U+00AD⟩⟨U+E0041⟩"),
        ("שלום é 漢字 👍", "שלום é 漢字 👍"),
    ],
)
def test_nothing_hides_or_turns_the_writing(text, seen):
    assert harmless(text) == seen


def test_thinking_and_answer():
    found = shown("<think>\nlong\nthought</think>\nSo it is \\boxed{42}.")

    assert (found.thinking, found.is_open) == ("long\nthought", False)
    assert found.answer == [Part("answer", "So it is \\boxed{"), Part("final", "42"), Part("answer", "}.")]
    assert shown("thought</think>x").thinking == "thought"  # the prompt opened it


def test_a_thought_without_end_has_no_answer():
    found = shown("<think>on and on \\boxed{1}")

    assert found.is_open and found.answer == [] and found.thinking == "on and on \\boxed{1}"


@pytest.mark.parametrize(
    ("text", "final"),
    [
        ("It is 4.\nAnswer: 4", "4"),
        ("#### 17", None),
        ("sum\n#### 17\n", "17"),
        ("no more", None),
        ("", None),
    ],
)
def test_what_was_judged_is_marked(text, final):
    assert [part.text for part in shown(text).answer if part.kind == "final"] == ([final] if final else [])


def test_a_long_response_says_how_much_is_not_shown():
    found = shown(f"<think>{'a' * 100}</think>{'b' * 50}end", most=20)

    assert found.cut == 80 + 33 and found.thinking == "a" * 20 and found.answer[-1].text.endswith("bend")
    assert shown("a" * 100, most=None).cut == 0
    assert shown(f"<think>{'word ' * 100}</think>", most=20).thinking_words == 100


def test_words_that_differ():
    assert compared("one plus two", "one plus three\u202e") == [
        Part("same", "one plus "), Part("gone", "two"), Part("new", "three⟨U+202E⟩"),
    ]  # fmt: skip
    (part,) = compared("word " * 500, "word " * 500)
    assert "[… 2,100 characters that are the same …]" in part.text and len(part.text) < 500
    assert compared("same", "same") == [Part("same", "same")]
    assert compared("a " * (MOST_WORDS + 1), "b") is None
