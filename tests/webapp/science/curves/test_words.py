"""Numbers carry the digits that their intervals support."""

import math

import pytest

from webapp.science.curves import words
from webapp.science.curves.words import AXES


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (0.7888, (0.779, 0.799), "0.79"),
        (0.6101, (0.604, 0.616), "0.610"),
        (0.6101, (0.5, 0.75), "0.61"),
        (0.61012, (0.6095, 0.6107), "0.6101"),
        (0.61012, (0.61011, 0.61013), "0.6101"),
        (0.61, (None, None), "0.610"),
        (None, (0.1, 0.2), "–"),
        (math.nan, (0.1, 0.2), "–"),
    ],
)
def test_rate(value, interval, text):
    assert words.rate(value, interval) == text


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ((-0.072, -0.031), "−0.07 to −0.03"),
        ((-0.003, 0.14), "0.00 to +0.14"),
        ((-0.11, 0.004), "−0.11 to 0.00"),
        ((None, 0.2), "open to +0.200"),
    ],
)
def test_what_is_zero_in_its_digits_has_no_sign(interval, text):
    assert words.signed_span(interval) == text


def test_an_interval_without_ends_is_none():
    assert words.span((None, None), "{:.2f}".format) == words.between((None, None), 0.9) == "no interval"


@pytest.mark.parametrize(
    ("interval", "text"),
    [((0.05, 0.29), "0.0500 to 0.290"), ((0.05, None), "0.0500 to never"), ((None, 2.0), "open to 2.00")],
)
def test_a_compute_that_may_never_come_has_no_upper_end(interval, text):
    assert words.compute_span(*interval) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (14903.2, "14,900"),
        (2542, "2,540"),
        (0.041234, "0.0412"),
        (0.0001234, "0.000123"),
        (-0.00001234, "-1.23e-5"),
        (1e-12, "1e-12"),
        (0, "0"),
        (12.34, "12.3"),
        (1.234e21, "1.23e21"),
        (math.inf, "never"),
        (None, "–"),
    ],
)
def test_amount(value, text):
    assert words.amount(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (58, "58"),
        (8, "8"),
        (34.5, "34"),
        (7.82, "7.8"),
        (0.25, "0.250"),
        (1234, "1,230"),
        (0, "0"),
        (math.inf, "never"),
    ],
)
def test_an_amount_of_what_is_counted(value, text):
    assert words.amount(value, counted=True) == text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("step", 58, "58 steps"),
        ("step", 1, "1 step"),
        ("tokens", 138_250, "138,000 tokens"),
        ("device_hours", 58, "58.0 device-hours"),
        ("flops", 1.2e18, "1.20e18 FLOPs"),
    ],
)
def test_an_amount_with_its_unit(key, value, text):
    assert AXES[key].text(value) == text


def test_an_open_interval_is_one_sided():
    assert words.between((0.48, None), 0.9) == "90 % at least 0.480"
    assert words.between((None, 0.7), 0.9) == "90 % at most 0.700"
    assert words.between((0.596, 0.627), 0.9) == "90 % 0.60 to 0.63"


def test_count_knows_the_plural():
    assert words.count(1, "evaluation") == "1 evaluation"
    assert words.count(1600, "evaluation") == "1,600 evaluations"
