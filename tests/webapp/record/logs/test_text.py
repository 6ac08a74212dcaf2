"""Lines of a job's output, the rest of a tail, and the end that tells why a run failed."""

import pytest

from webapp.record.logs.chunking import (
    BEGIN_MISSING,
    FULL_TAIL_LINES,
    MOST_CHARACTERS,
    PART_MISSING,
    clean_lines,
    error_lines,
    rest_of_tail,
)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("one\n\ntwo", ["one", "", "two"]),
        ("windows\r\n", ["windows"]),
        (" 10 %\r 50 %\r100 %\n", ["100 %"]),
        ("\x1b[31mred\x1b[0m\x1b[K\n", ["red"]),
        ("no\0thing\n", ["nothing"]),
    ],
)
def test_lines_are_as_a_terminal_leaves_them(text, lines):
    assert clean_lines(text) == lines


def test_a_very_long_line_is_cut_off_and_says_so():
    (line,) = clean_lines("x" * (MOST_CHARACTERS + 1000))

    assert line == "x" * MOST_CHARACTERS + " … [1,000 more characters of this line]"


@pytest.mark.parametrize(
    ("kept", "tail", "rest"),
    [
        ([], "a\nb\n", ["a", "b"]),
        (["a", "b"], "a\nb\nc\nd\n", ["c", "d"]),
        (["a", "b"], "a\nb\n", []),
        (["a", "b"], "", []),
        (["long ago", "step 1", "step 2"], "tep 1\nstep 2\nstep 3\n", ["step 3"]),  # it begins in a line
        (["step", "x", "step"], "step\nx\nstep\ny\n", ["y"]),
        (["a", "b"], "y\nz\n", [PART_MISSING, "y", "z"]),
        (["a", "b", "c", "d"], "a\nb\nc\n", []),  # read a moment before the end
        (["a", "b", "c", "succeeded"], "\nb\nc\n", []),
        (["a", "b", "c"], "b\nc\nlast wo", ["last wo"]),
        (["a", "b", "c", "last words"], "b\nc\nlast wo", []),
        (["a", "", "b"], "\nc\nd\n", [PART_MISSING, "", "c", "d"]),
    ],
)
def test_the_rest_of_a_tail_is_what_comes_after_what_is_kept(kept, tail, rest):
    assert rest_of_tail(kept, tail) == rest


def test_a_tail_that_was_cut_off_says_that_its_beginning_is_missing():
    lines = [str(i) for i in range(FULL_TAIL_LINES)]

    assert rest_of_tail([], "\n".join(lines)) == [BEGIN_MISSING, *lines]


def test_the_error_is_the_last_traceback():
    log = ["step 1", "Traceback (most recent call last):", "  old", "caught", *map(str, range(30))]
    trace = ["Traceback (most recent call last):", "  File x", "RuntimeError: no", "error: no"]

    assert error_lines([*log, "", *trace]) == trace
    assert error_lines(["a", "", "b"]) == ["a", "b"]
    assert error_lines([str(i) for i in range(50)]) == [str(i) for i in range(42, 50)]
