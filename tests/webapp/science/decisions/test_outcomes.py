"""Whether an evaluation agrees with the curve, against the formula written out another way."""

import math

from hypothesis import given
from hypothesis import strategies as st

from webapp.science.decisions.outcomes import agrees

rates = st.floats(0, 1)
widths = st.floats(0.001, 0.3)


@given(actual=rates, value=rates, below=widths, above=widths, stderr=st.floats(0, 0.1))
def test_an_evaluation_agrees_within_both_errors_together(actual, value, below, above, stderr):
    gap = actual - value
    width = above if gap > 0 else below
    distance = math.sqrt(width**2 + (1.6448536269514722 * stderr) ** 2)

    found = agrees(actual, stderr, value, value - below, value + above, 0.9)

    if abs(abs(gap) - distance) > 1e-9:
        assert found == (abs(gap) < distance)


@given(actual=rates, value=rates, below=widths, above=widths, stderr=st.floats(0.001, 0.1))
def test_more_error_of_its_own_never_makes_it_disagree(actual, value, below, above, stderr):
    ends = (value, value - below, value + above, 0.9)

    if agrees(actual, None, *ends):
        assert agrees(actual, stderr, *ends)
        assert agrees(actual, 2 * stderr, *ends)
