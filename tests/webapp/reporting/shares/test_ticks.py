"""Ticks: where they are, and what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.reporting.shares.ticks import linear_ticks, log_ticks, tick_text


def test_linear_ticks_are_round():
    ticks = linear_ticks(0.18, 0.63)

    assert [text for _, text in ticks] == ["0.2", "0.3", "0.4", "0.5", "0.6"]
    assert [value for value, _ in ticks] == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.6])


def test_log_ticks_are_one_two_five():
    assert [text for _, text in log_ticks(0.5, 20)] == ["0.5", "1", "2", "5", "10", "20"]


def test_a_log_axis_between_two_round_values_still_has_ticks():
    """As where all points share one compute."""
    assert [text for _, text in log_ticks(10.2, 13.2)] == ["11", "12", "13"]
    assert [text for _, text in log_ticks(1.02e18, 1.32e18)] == ["1.1e18", "1.2e18", "1.3e18"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.25e6, "1.25e6"), (0, "0"), (0.01, "0.01"), (20, "20"), (5000, "5k"), (2e18, "2e18"), (5e-6, "5e-6")],
)
def test_tick_texts(value, text):
    assert tick_text(value) == text


@given(st.floats(1e-6, 1e20), st.floats(1.01, 1e12))
def test_ticks_lie_within_and_are_few(lo, factor):
    hi = lo * factor
    for ticks, most in ((log_ticks(lo, hi), 9), (linear_ticks(lo, hi), 8)):
        slack = 1e-6 * (hi - lo)
        assert len(ticks) <= most
        assert all(lo - slack <= value <= hi + slack for value, _ in ticks)
        assert [value for value, _ in ticks] == sorted({value for value, _ in ticks})


def test_no_span_has_no_ticks():
    assert linear_ticks(0.5, 0.5) == []
