"""Sentences of errors are stable and start with the field."""

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from webapp.base.errors import InvalidInput


class Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    n: int = Field(0, ge=1, le=5)
    s: str = Field("aa", min_length=2, max_length=3)
    f: float = 0.0
    long: str = Field("", max_length=1000)
    items: list[int] = Field(default_factory=list, max_length=1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"n": 0}, "n must be at least 1."),
        ({"n": 6}, "n must be at most 5."),
        ({"n": "1"}, "n must be a whole number."),
        ({"s": "a"}, "s must have at least 2 characters."),
        ({"s": "aaaa"}, "s must have at most 3 characters."),
        ({"s": 1}, "s must be text."),
        ({"f": "x"}, "f must be a number."),
        ({"items": [1, 2]}, "items must have at most 1 items."),
        ({"long": "a" * 1001}, "long must have at most 1,000 characters."),
        ({"items": [None]}, "items.0 must be a whole number."),
        ({"x": 1}, "x is not a known field."),
        ([], "The body must be an object."),
    ],
)
def test_one_sentence_for_each_kind(data, message):
    with pytest.raises(ValidationError) as caught:
        Model.model_validate(data)

    assert InvalidInput.from_problems(caught.value.errors()).message == message
