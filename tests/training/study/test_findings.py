"""What the findings page says of two arms: Welch's interval, the answers that it allows, the mean of a curve."""

import numpy as np
import pytest
from scipy import stats

from stack.environment import ROOT
from training.study.corpus import read_corpus
from training.study.file import load_study
from training.study.findings import LEVEL, Curve, Difference, difference, finding, verdict


def test_the_interval_is_welchs() -> None:
    mine, base = [0.61, 0.64, 0.60, 0.66], [0.52, 0.50, 0.55]

    found = difference(mine, base)

    told = stats.ttest_ind(mine, base, equal_var=False).confidence_interval(LEVEL)
    assert (found.lo, found.hi) == pytest.approx((told.low, told.high))
    assert found.value == pytest.approx(np.mean(mine) - np.mean(base))


def test_one_seed_is_not_judged() -> None:
    assert difference([0.9], [0.1, 0.2]).answer(0.02) == "one seed: not judged"


@pytest.mark.parametrize(
    ("lo", "hi", "answer"),
    [
        (0.01, 0.09, "higher"),
        (-0.09, -0.01, "lower"),
        (-0.015, 0.012, "the same"),
        (0.001, 0.019, "the same"),  # different, but by less than the margin
        (-0.01, 0.09, "undecided"),
        (0.005, 0.03, "undecided"),  # above zero, and its middle within the margin
    ],
)
def test_what_an_interval_allows_to_say(lo: float, hi: float, answer: str) -> None:
    assert Difference((lo + hi) / 2, lo, hi).answer(0.02) == answer


def test_a_study_answers_yes_where_an_arm_differs_and_no_where_all_are_the_same() -> None:
    assert verdict(["the same", "lower", "undecided"]) == "yes"
    assert verdict(["the same", "the same"]) == "no"
    assert verdict(["the same", "undecided"]) == "undecided"
    assert verdict([]) == "undecided"


def test_a_yes_says_which_arms_end_higher_and_lower() -> None:
    folder = ROOT / "corpus" / "miniature"
    (size,) = (one for one in load_study(folder / "study.yaml").says.studies if one.name == "size")

    said = finding(read_corpus(folder), size).sentence

    assert said == "**Yes.** At least one size ends elsewhere than 0.3M. Higher: 1M. Lower: 0.1M, 3M."


def test_a_curves_mean_counts_how_early_it_rises() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0])
    straight = Curve(0, x, x / 10, np.full(4, 0.01), start=0.0)
    early = Curve(0, x, np.full(4, 0.4), np.full(4, 0.01), start=0.0)

    assert straight.mean_until(4.0) == pytest.approx(0.2)
    assert straight.mean_until(2.5) == pytest.approx(0.125)  # between two evaluations
    assert early.mean_until(4.0) == pytest.approx(0.35)
    assert straight.late_mean == pytest.approx(0.4)  # of eight evaluations one, of four at least one
