"""Leaving the band: by closed examples, and how often it happens by chance."""

import numpy as np
import pytest

import scaling
from scaling import curve
from tests.deep import IS_DEEP
from webapp.reporting.alerts.conditions import ALPHA, Known, departures
from webapp.science.curves.fitting import forecast_of, read

NOISE = 0.01


def fit_of(x, y) -> Known:
    live = scaling.fit(x, y)
    forecast = read(forecast_of(live))
    assert forecast is not None and live.sse is not None
    return Known(forecast, float(x[-1]), float(np.sqrt(live.sse / (live.n - 4))), live.n - 4)


def truth(x):
    return np.asarray(curve.curve(x, r0=0.2, a=0.6, b=1.5, c_mid=4.0))


def measured(n=40, seed=0):
    x = np.linspace(0.5, 20, n)
    return x, truth(x) + np.random.default_rng(seed).normal(0, NOISE, n)


@pytest.fixture(scope="module")
def halfway() -> Known:
    x, y = measured()
    return fit_of(x[:20], y[:20])


def test_a_collapse_is_seen_at_its_second_evaluation_and_once(halfway):
    x, y = measured()
    y[30:] -= 0.15

    (left,) = departures(x, y, np.zeros(len(x)), [halfway], 2)

    assert (left.first, left.counted, left.last, left.below) == (30, 31, 39, True)
    assert left.known_to == x[19]
    assert abs(left.expected - truth(x[31])) < 0.05


def test_one_evaluation_outside_is_chance(halfway):
    x, y = measured()
    y[30] -= 0.3

    assert departures(x, y, np.zeros(len(x)), [halfway], 2) == []
    assert len(departures(x, y, np.zeros(len(x)), [halfway], 1)) == 1


def test_two_on_different_sides_are_no_departure(halfway):
    x, y = measured()
    y[30] -= 0.3
    y[31] += 0.3

    assert departures(x, y, np.zeros(len(x)), [halfway], 2) == []


def test_what_a_fit_has_seen_is_not_held_against_it(halfway):
    x, y = measured()
    y[10:20] -= 0.2

    assert departures(x[:20], y[:20], np.zeros(20), [halfway], 2) == []
    assert departures(x, y, np.zeros(len(x)), [], 2) == []


def test_a_noisy_evaluation_counts_less(halfway):
    x, y = measured()
    y[30:] -= 0.1

    assert departures(x, y, np.zeros(len(x)), [halfway], 2)
    assert not departures(x, y, np.full(len(x), 0.1), [halfway], 2)


@pytest.mark.long_form
def test_runs_that_follow_their_curve_leave_it_no_more_often_than_promised():
    fired, runs = 0, 60 if IS_DEEP else 20
    for seed in range(runs):
        x, y = measured(60, seed)
        fits = [fit_of(x[:n], y[:n]) for n in (12, 20, 35)]
        fired += bool(departures(x, y, np.zeros(len(x)), fits, 2))
    assert fired <= runs * ALPHA + 2 * np.sqrt(runs * ALPHA * (1 - ALPHA))
