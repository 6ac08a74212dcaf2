"""Numbers that people type into addresses and forms."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.base.formats import MAX_LENGTH, NoAmount, amount_in, number_in, whole_in
from webapp.science.curves import words


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12), (" 0.6 ", 0.6), ("12,000", 12_000), ("1,234,567.5", 1_234_567.5), ("1e21", 1e21), (".5", 0.5),
        ("5.", 5), ("-3", -3), ("1.20E-4", 1.2e-4),
    ],
)  # fmt: skip
def test_what_people_type_for_a_number(text, value):
    assert number_in(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "-", ".", "e5", "0,5", "1,23", "12,00", "1,2345", ",5", "1_000", "0x10", "٣", "nan", "inf", "NaN",
        "1 000", "1e", "1\0", "9" * (MAX_LENGTH + 1),
    ],
)  # fmt: skip
def test_nothing_else_becomes_a_number(text):
    with pytest.raises(NoAmount, match="not a number"):
        number_in(text)


def test_what_is_too_large_for_a_number_is_not_infinite():
    with pytest.raises(NoAmount, match="finite"):
        number_in("1e999")


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("0", {}, "positive"), ("-1", {}, "positive"), ("11", {"most": 10}, "at most 10"),
        ("2.5", {"whole": True}, "whole"),
    ],
)  # fmt: skip
def test_an_amount_says_what_is_wrong_with_it(text, options, why):
    with pytest.raises(NoAmount, match=why):
        amount_in(text, **options)


@given(st.floats(min_value=1e-4, max_value=1e25))
def test_an_amount_as_the_pages_write_it_is_read_back(value):
    assert math.isclose(amount_in(words.amount(value)), value, rel_tol=0.0051)


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("012", 12), ("123456789", 123456789), ("1234567890", None), ("", None)]
)
def test_a_whole_number_of_an_address_has_at_most_nine_digits(text, number):
    assert whole_in(text) == number


@pytest.mark.parametrize("text", ["²", "٣", "-1", "+1", "1.0", " 1", "1_0"])
def test_what_is_no_plain_whole_number_is_none(text):
    assert whole_in(text) is None
