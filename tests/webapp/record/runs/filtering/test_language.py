"""The grammar: what is read, that it can be written back, and that nothing but its own error ever comes out."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.deep import examples
from webapp.record.runs.filtering import FilterError, fields, parse
from webapp.record.runs.filtering.compiling import compile_filter
from webapp.record.runs.filtering.fields import BY_NAME, FIELDS, field_names
from webapp.record.runs.filtering.parsing import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_LENGTH,
    And,
    Comparison,
    Not,
    Or,
    Value,
    Word,
    comparisons,
    nearest,
    to_text,
)

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
NAMES = st.sampled_from([*BY_NAME, "config.loss.type", "config.Odd-Key.0"])
OPERATORS = st.sampled_from([":", "=", "!=", "<", "<=", ">", ">=", "~"])
VALUES = st.builds(Value, TEXT | st.sampled_from(["running", "2d", "0.5", "none", "a*"]), st.booleans())
LEAVES = st.builds(Word, TEXT) | st.builds(
    Comparison, NAMES, OPERATORS, st.lists(VALUES, min_size=1, max_size=3).map(tuple)
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


def unquoted_only_where_possible(node):
    """A value that must be quoted is read back as quoted."""
    if isinstance(node, Comparison):
        read = [
            value.quoted or to_text(Comparison("x", "=", (value,))) != f"x={value.text}"
            for value in node.values
        ]
        pairs = zip(node.values, read, strict=True)
        return Comparison(node.field, node.op, tuple(Value(v.text, quoted) for v, quoted in pairs))
    if isinstance(node, Word):
        return node
    if isinstance(node, Not):
        return Not(unquoted_only_where_possible(node.item))
    return type(node)(tuple(unquoted_only_where_possible(item) for item in node.items))


def depth(node):
    if isinstance(node, Word | Comparison):
        return 1
    inner = (node.item,) if isinstance(node, Not) else node.items
    return 1 + max(depth(item) for item in inner)


@given(TREES)
def test_a_tree_written_down_is_read_back(tree):
    text = to_text(tree)
    if len(text) > MAX_LENGTH or depth(tree) > MAX_DEPTH:
        return

    assert parse(text) == unquoted_only_where_possible(tree)


SOUP = st.lists(
    st.sampled_from(["(", ")", "NOT ", "and ", " OR ", "state", "config.", ":", "=", "!", ">", "~", ",", '"', "'", "\\",
                     " ", "2d", "0.5", "none", "1e999", "99999999y", "recipe:", "created", "age<", "\n", "é", "*"])
    | st.just("\0")
    | st.text(max_size=4),
    max_size=14,
).map("".join)  # fmt: skip


@given(SOUP)
@settings(max_examples=examples(400))
def test_any_text_is_a_filter_or_a_filter_error(text):
    try:
        compiled = compile_filter(text, user=None, now=datetime(2026, 11, 21, tzinfo=UTC))
    except FilterError as error:
        assert 0 <= error.at <= len(text)
        assert error.pointer.splitlines()[-1].endswith("^")
        assert error.field == "filter"
    else:
        assert parse(to_text(compiled.node)) == compiled.node


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        ("state:", 6, "the filter ends too early; expected a value."),
        ("a)", 1, "this “)” closes nothing."),
        ("(a", 2, 'expected ")".'),
        ('name:"x', 5, "this quote is never closed"),
        ("AND b", 0, "“AND” is not possible here"),
        ("stat:running", 0, 'there is no field “stat”; did you mean "state"?'),
        ("state:runing", 6, 'did you mean "running"?'),
        ("state > running", 0, "state cannot be compared by >; expected one of : = !="),
        ("ceiling > much", 10, "“much” is not a number"),
        ("ceiling > 0.5,0.6", 14, "> takes one value"),
        ("seed = 1.5", 7, "is not a whole number"),
        ("created > soon", 10, "is not a time such as"),
        ("created = 2d", 10, "is an instant"),
        ("age > tall", 6, "is not a duration"),
        ("identified:perhaps", 11, "is neither yes nor no"),
        ("alarm:loud", 6, "is no alarm"),
        ("config..x = 1", 0, "is not the path of a setting"),
        ("x" * 1001, MAX_LENGTH, "at most 1000 characters"),
        ("NOT (a OR " * 10 + "b" + ")" * 10, 80, "nest at most"),
        ("a " * 70, 2 * MAX_CONDITIONS, "at most 60 words and values"),
    ],
)
def test_a_wrong_filter_says_where_and_what(text, at, reason):
    with pytest.raises(FilterError) as caught:
        compile_filter(text, user=None)

    assert reason in caught.value.said
    assert caught.value.at == at or "nest" in reason
    assert caught.value.message.startswith(f"filter, character {caught.value.at + 1}: ")
    assert (caught.value.status, caught.value.field) == (422, "filter")


def test_the_caret_stands_under_the_place():
    with pytest.raises(FilterError) as caught:
        compile_filter("state:running ceilin > 0.5", user=None)

    line, caret = caught.value.pointer.splitlines()
    assert line[caret.index("^") :].startswith("ceilin")


def test_precedence_and_keywords_in_any_case():
    assert parse("a b or c") == Or((And((Word("a"), Word("b"))), Word("c")))
    assert parse("not a AND b") == And((Not(Word("a")), Word("b")))
    assert parse("NOT NOT a") == Word("a")
    assert parse("android or notes") == Or((Word("android"), Word("notes")))
    assert parse('"and"') == Word("and")
    assert parse("  ") is None


def test_values_may_hold_what_words_may_not():
    assert parse("model:org/name@v1:2") == Comparison("model", ":", (Value("org/name@v1:2"),))
    assert parse(r'name ~ "say \"hi\""') == Comparison("name", "~", (Value('say "hi"', quoted=True),))
    assert parse("seed == 3") == Comparison("seed", "=", (Value("3"),))
    assert [c.field for c in comparisons(parse("NOT (Seed:1 OR config.Loss.type:x) b"))] == [
        "seed",
        "config.Loss.type",
    ]


def test_every_example_of_the_help_is_a_filter():
    for field in FIELDS:
        compile_filter(field.example, user=None)


def test_the_nearest_name():
    assert nearest("sate", field_names()) == 'did you mean "state"?'
    assert nearest("xyzzy", field_names()) == ""


NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "start", "days"),
    [
        ("today", datetime(2026, 11, 21, tzinfo=UTC), 1),
        ("yesterday", datetime(2026, 11, 20, tzinfo=UTC), 1),
        ("2026-02-28", datetime(2026, 2, 28, tzinfo=UTC), 1),
        ("2026-02-28T10:00+02:00", datetime(2026, 2, 28, 8, tzinfo=UTC), 0),
        ("2026-02-28 10:00", datetime(2026, 2, 28, 10, tzinfo=UTC), 0),
        ("2d", NOW - timedelta(days=2), 0),
        ("90 minutes ago", NOW - timedelta(minutes=90), 0),
        ("1.5h", NOW - timedelta(hours=1.5), 0),
    ],
)
def test_times(text, start, days):
    assert fields.moment(text, NOW) == (start, start + timedelta(days=days))


@pytest.mark.parametrize("text", ["2026-02-30", "999999999y", "2026-13-01T00:00", "-1d", "", "2 fortnights"])
def test_what_is_no_time(text):
    with pytest.raises(ValueError):
        fields.moment(text, NOW)


def test_numbers():
    assert (fields.number("90%"), fields.number("1e-4"), fields.number(".5")) == (0.9, 1e-4, 0.5)
    for text in ("nan", "inf", "1e999", "1_0", "0x10", ""):
        with pytest.raises(ValueError):
            fields.number(text)


def test_the_docs_name_every_field():
    page = (Path(__file__).resolve().parents[5] / "docs" / "filtering.md").read_text()

    assert [name for name in BY_NAME if f"`{name}`" not in page] == []
