"""No text keeps a secret: whole, in a URL, in JSON, or cut in two by the end of a log."""

import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from webapp.identity.secrets.services import MASK, redacted

VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40)
TEXTS = st.text(max_size=60)


@given(TEXTS, VALUES, TEXTS)
def test_the_value_is_nowhere(before, value, after):
    for form in (value, quote(value, safe=""), json.dumps(value)[1:-1]):
        text = redacted(before + form + after, [value])

        assert value not in text and form not in text
        assert MASK in text


@given(VALUES, st.integers(1, 35), TEXTS)
def test_a_log_that_was_cut_within_the_value(value, cut, after):
    rest = value[cut:]
    if len(rest) >= 4:
        assert not redacted(rest + "\n" + after, [value]).startswith(rest)


@given(TEXTS)
def test_other_texts_stay_as_they_are(text):
    assert redacted(text, []) == text
    assert redacted(text, ["a value that is not in it, of many characters"]) == text or text in (
        "a value that is not in it, of many characters"
    )


def test_of_two_values_one_is_a_part_of_the_other():
    assert (
        redacted("token-long-and-more token-long", ["token-long", "token-long-and-more"]) == f"{MASK} {MASK}"
    )
