from collections import Counter, OrderedDict, deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.deep import examples
from training.verifiers.harness import Remote, decode, encode

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
hashable = st.recursive(
    leaves, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5
)
values = st.recursive(
    hashable | st.complex_numbers(allow_nan=False) | st.fractions(),
    lambda inner: st.lists(inner) | st.dictionaries(hashable, inner) | st.tuples(inner),
    max_leaves=10,
)


@settings(max_examples=examples(40))
@given(values)
def test_values_cross_unchanged(value: Any) -> None:
    crossed = decode(encode(value, []), None)

    assert crossed == value
    assert type(crossed) is type(value)


@pytest.mark.parametrize(
    ("value", "crossed"),
    [
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (deque([1, 2]), deque([1, 2])),
        (Decimal("1.5"), Decimal("1.5")),
        (Fraction(1, 3), Fraction(1, 3)),
        (range(3), [0, 1, 2]),
        ({1: 2}.keys(), [1]),
        ({1, 2}, {1, 2}),
    ],
)
def test_relatives_of_plain_types(value: Any, crossed: Any) -> None:
    assert decode(encode(value, []), None) == crossed


def test_iterators_stay_iterators() -> None:
    assert list(decode(encode(map(abs, [-1, 2]), []), None)) == [1, 2]


def test_other_objects_are_kept_and_referred_to() -> None:
    class Equal:
        def __eq__(self, other: object) -> bool:
            return True

    kept: list[Any] = []
    crossed = decode(encode([Equal()], kept), lambda index: Remote(None, "", index))  # type: ignore[arg-type]

    assert crossed != [3]
    assert encode(crossed, None) == {"list": [{"reference": 0}]}
    assert isinstance(kept[0], Equal)


def test_the_tests_own_objects_cannot_be_sent() -> None:
    with pytest.raises(TypeError, match="cannot hand a object to the program"):
        encode(object(), None)
