"""The calibration figure against `scaling.scores`, and its words."""

import pytest

from scaling import scores
from webapp.interfaces.pages.prediction import calibration as said
from webapp.science.predictions.calibration import Calibration, Counts, Probabilities, Row


def row(inside, n, level=0.9, kind="level", runs=None):
    found = scores.coverage([i < inside for i in range(n)], [level] * n, level=0.9)
    label = f"{100 * level:g} %"
    return Row(
        kind, label, label, found.n, found.inside, found.claimed, found.observed, found.lo, found.hi,
        runs if runs is not None else n, 0.1, 0.05, 0.01, 0.02,
    )  # fmt: skip


def calibration(*rows, bins=()):
    counts = Counts(20, 1, 2, 10, 3, 4, 0, 0, 0)
    return Calibration(rows[-1], tuple(rows), Probabilities(0, None, None, None, bins), counts, 0.9)


def test_points_are_the_shares_with_their_exact_intervals():
    figure = said.calibration_figure(calibration(row(7, 10), row(3, 4, 0.5)), "level")

    many, few = figure["rows"]
    lo, hi = scores.clopper_pearson(7, 10, 0.9)
    assert (many["claimed"], many["observed"]) == (pytest.approx(0.9), 0.7)
    assert (many["lo"], many["hi"]) == (pytest.approx(lo), pytest.approx(hi))
    assert not many["few"]
    assert few["few"]


def test_bins_of_probabilities_are_drawn_as_they_are():
    bins = scores.reliability([0.1, 0.9, 0.95], [False, True, False])

    drawn = said.calibration_figure(calibration(row(1, 1), bins=bins), "level")["bins"]

    assert [(one["mean"], one["happened"], one["n"]) for one in drawn] == [
        (b.mean, b.happened, b.n) for b in bins
    ]


@pytest.mark.parametrize(
    ("inside", "n", "words"),
    [
        (4, 4, "too few to say: 4 scored intervals"),
        (9, 10, "agrees with what was claimed"),
        (2, 10, "too narrow"),
        (0, 0, "nothing scored yet"),
    ],
)
def test_no_more_is_said_than_the_number_tells(inside, n, words):
    assert words in said.verdict(row(inside, n))


def test_everything_that_is_not_counted_is_said():
    words = said.apart(Counts(20, 1, 2, 10, 3, 4, 0, 0, 0))

    assert (
        words
        == "Not counted above: 1 open, 2 projections, 3 withdrawn, 4 replaced, of 20 predictions in all."
    )


def test_claims_that_one_run_judged_are_said_to_hang_together():
    assert said.dependence(row(5, 6, runs=6)) == ""
    assert "2 runs only" in said.dependence(row(5, 6, runs=2))
