"""The syntax of blocks: what is understood, and what is said of what is not, by line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.reporting.reports.document import KEYS, Ask, Problem, parse, read, text_of


def asks(parts):
    return [part for part in parts if isinstance(part, Ask)]


def problems(parts):
    return [part for part in parts if isinstance(part, Problem)]


def test_a_chart_is_read():
    found = parse("chart: run\nrun: 7k2m\n\n cutoff : 120 \ncaption: Up to: here\n", 10)

    assert (found.what, found.which) == ("chart", "run")
    assert found.fields == {"chart": "run", "run": "7k2m", "cutoff": "120", "caption": "Up to: here"}
    assert found.lines["cutoff"] == 14


def test_lists_are_separated_by_commas():
    assert parse("chart: compare\nruns: a, b,,c", 1).items("runs") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ("", 5, "the block is empty"),
        ("picture: run", 6, "begin with chart, table"),
        ("chart: pie", 6, "chart must be one of run, compare"),
        ("chart: run", 6, "chart: run needs run:"),
        ("chart: compare", 6, "needs runs: or recipes: or refs:"),
        ("chart: run\nrun: a\nrun: b", 8, "“run” is said twice"),
        ("chart: run\nrun:", 7, "“run” has no value"),
        ("chart: run\nnonsense", 7, "each line is “key: value”"),
        ("chart: run\nrun: a\nruns: b", 8, "chart: run has no “runs”; it may have caption, cutoff"),
        ("number: ceiling\nrun: a\ncutoff: 3", 8, "has no “cutoff”"),
        ("prediction: p\nrun: a", 7, "has no “run”"),
        ("chart: run\nrun: " + "x" * 2001, 7, "is too long"),
    ],
)
def test_what_cannot_be_read_names_its_line(content, line, reason):
    found = parse(content, 5)

    assert isinstance(found, Problem)
    assert found.line == line
    assert reason in found.reason


@given(st.text(max_size=200), st.integers(1, 1000))
def test_any_text_is_a_block_or_a_problem_within_it(content, line):
    found = parse(content, line)

    assert isinstance(found, Ask | Problem)
    assert line <= found.line <= line + content.count("\n") + 1


@given(
    st.sampled_from(sorted(KEYS)),
    st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=30),
)
def test_what_the_picker_writes_is_read_back(kind, caption):
    what, which = kind
    fields = {what: which, "run": "abc", "runs": "a, b", "caption": caption}
    kept = {key: value for key, value in fields.items() if key in KEYS[kind] | {what, "caption"}}

    found = asks(read(f"Before\n\n{text_of(kept)}\n\nAfter"))

    assert [one.fields for one in found] == [kept]


def test_lines_are_those_of_the_text():
    text = "# One\n\nTwo\n\n```headroom\nchart: run\n\nrun: a\ncutoff: x\nwhat: y\n```\n"

    assert [(one.line, one.reason[:12]) for one in problems(read(text))] == [(10, "chart: run h")]


def test_a_block_in_a_list_is_said_and_breaks_nothing():
    found = read("- one\n\n  ```headroom\n  chart: run\n  run: a\n  ```\n\n- two\n\nAfter")

    assert [f"Line {one.line}: {one.reason}" for one in problems(found)] == [
        "Line 3: a block stands by itself, not inside a list or a quotation."
    ]
    assert asks(found) == []


def test_there_are_at_most_forty():
    found = read("\n\n".join([text_of({"number": "ceiling", "run": "a"})] * 41))

    assert len(asks(found)) == 40
    assert "at most 40" in problems(found)[0].reason
