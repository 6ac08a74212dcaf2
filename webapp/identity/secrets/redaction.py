"""Taking secrets out of texts that jobs wrote."""

import json
from collections.abc import Iterable
from urllib.parse import quote

MASK = "•••"
SHORTEST_REST = 4  # characters of a secret's end: fewer say nothing, and may be anything


def redacted(text: str, values: Iterable[str]) -> str:
    """The text with each value replaced by MASK, also as it is written in URLs and in JSON.

    A text that was cut in the middle of a value begins with that value's end: that is replaced, too.
    """
    forms = {form for value in values for form in _forms(value)}
    for form in sorted(forms, key=len, reverse=True):  # one value may be a part of another
        text = text.replace(form, MASK)
    for form in forms:
        text = _without_rest(text, form)
    return text


def _forms(value: str) -> set[str]:
    return {value, quote(value, safe=""), quote(value), json.dumps(value)[1:-1]}


def _without_rest(text: str, form: str) -> str:
    for begin in range(1, len(form) - SHORTEST_REST + 1):
        rest = form[begin:]
        if text.startswith(rest):
            return MASK + text[len(rest) :]
    return text
