"""The sentences that every page says of the same comparison. No database."""

import numpy as np
import pytest

from scaling.course import Course
from scaling.ranking import Compared, compared
from scaling.seeds import CORPUS, Between
from webapp.science.curves.ranking import standing

KNOWN = Between(0.005, 1e6, "3 recipes with several seeds here")


def flat(value: float, seen: float = 8.0, half: float = 0.004, ceiling: float | None = None) -> Course:
    """A run that stays where it is."""
    grid = np.geomspace(0.01 * seen, 20.0 * seen, 40)
    y, top = np.full(40, value), value if ceiling is None else ceiling
    return Course("ok", "", 0.9, top, (top - half, top + half), grid, y, y - half, y + half, seen)


def falling() -> Course:
    nothing = np.empty(0)
    return Course("failed", "the pass rate falls", 0.9, None, None, nothing, nothing, nothing, nothing, 8.0)


def of(*recipes: list[Course | None], between: Between = KNOWN) -> Compared:
    return compared(list(recipes), between)


def test_a_leader_is_named_with_its_lead_and_its_chance() -> None:
    first, ceiling, seeds = standing.answer(["A", "B"], of([flat(0.7)], [flat(0.6)]))

    assert first == (
        "A leads: at 8.00 device-hours it comes to 0.700 (90 % 0.691 to 0.709), above B by 0.10 (95 % +0.08 to "
        "+0.12). It is the best there with probability above 0.99."
    )
    assert ceiling.startswith(
        "By forecast ceiling too, A is ahead with 0.700 (90 % 0.691 to 0.709), above B by 0.10"
    )
    assert seeds == (
        "Seeds differ by 0.005 (standard deviation, from 3 recipes with several seeds here); these intervals include "
        "it. 2 are compared by one seed."
    )


def test_names_with_commas_of_their_own_are_parted_by_semicolons() -> None:
    names = ["steady, seed 0", "steady, seed 1", "steady, seed 2"]

    first, *_ = standing.answer(names, of([flat(0.7)], [flat(0.7)], [flat(0.7)]))

    assert first.startswith("steady, seed 0; steady, seed 1 and steady, seed 2 cannot be told apart")


def test_a_tie_names_the_tied_and_what_would_decide() -> None:
    first, ceiling, _, decide = standing.answer(["A", "B", "C"], of([flat(0.7)], [flat(0.698)], [flat(0.6)]))

    assert first.startswith(
        "A and B cannot be told apart at 8.00 device-hours; 1 other lies below. A comes to 0.700"
    )
    assert (
        "less than 0.01 (95 % −0.0" in first
        and "which seeds and noise may be. Likeliest to be the best is A" in first
    )
    assert ceiling.startswith(
        "By forecast ceiling those of A and B cannot be told apart; likeliest to be the highest is"
    )
    assert decide == "What would tell the first two apart soonest is another seed of A."


def test_where_the_forecast_is_vague_more_compute_decides() -> None:
    said = standing.answer(["A", "B"], of([flat(0.7)], [flat(0.69, half=0.05)]))

    assert said[-1] == "What would tell the first two apart soonest is more compute for B."
    assert said[1] == (
        "The forecast ceilings cannot be told apart; likeliest to be the highest is A, with probability "
        f"{said[1].rsplit(' ', 1)[1]}"
    )


def test_another_may_have_the_higher_ceiling() -> None:
    found = of([flat(0.7, ceiling=0.72)], [flat(0.6, ceiling=0.8)])

    assert "By forecast ceiling B is ahead with 0.800" in standing.by_ceiling(["A", "B"], found)
    said = standing.pair(["A", "B"], found, 1, 0)
    assert said.startswith("A is better than B at 8.00 device-hours, by 0.10")
    assert said.endswith("; the forecast ceiling of B is the higher one (95 % −0.10 to −0.06).")


def test_of_a_pair_the_better_one_is_named_once() -> None:
    said = standing.pair(["A", "B"], of([flat(0.7, ceiling=0.8)], [flat(0.6, ceiling=0.72)]), 1, 0)

    assert said.startswith("A is better than B at 8.00 device-hours, by 0.10")
    assert "; its forecast ceiling is the higher one, too (95 % +0.0" in said


def test_a_pair_within_what_seeds_differ_by_is_not_told_apart() -> None:
    said = standing.pair(["A", "B"], of([flat(0.70)], [flat(0.71)], between=CORPUS), 0, 1)

    assert said.startswith("B and A cannot be told apart at 8.00 device-hours: the first is 0.01 (95 % −0.0")
    assert "their forecast ceilings cannot be told apart (95 %" in said


def test_who_is_not_compared_is_named_with_the_reason() -> None:
    found = of([flat(0.7)], [None], [falling()], [flat(0.6, seen=1.0)])
    said = standing.answer(["A", "B", "C", "D"], found)

    assert said == [
        "A is alone so far: 0.700 (90 % 0.691 to 0.709) at 8.00 device-hours, forecast ceiling 0.700 (90 % 0.691 to "
        "0.709).",
        "B is not compared: no forecast yet.",
        "C is not compared: the pass rate falls.",
        "D is not compared: seen to less than a quarter of the compute that the furthest has seen (8).",
    ]
    assert standing.pair(["A", "B", "C", "D"], found, 0, 2) == (
        "A against C: the pass rate falls (C), so nothing can be said."
    )
    assert (
        standing.told(found, 1)["rank"] is None
        and standing.told(found, 1)["at_budget_span"] == "no forecast yet"
    )


@pytest.mark.parametrize(
    ("recipes", "said"),
    [
        ([[None]], "There is no forecast of A yet."),
        ([[falling()]], "There is no forecast of A yet: the pass rate falls."),
        ([[None], [None]], "Nothing can be said of the order of these 2 yet: no forecast yet."),
        ([[None], [falling()]], "Nothing can be said of the order of these 2 yet: none has a forecast."),
    ],
)
def test_without_any_forecast_one_sentence_says_why(recipes, said) -> None:
    names = ["A", "B"][: len(recipes)]
    assert standing.answer(names, of(*recipes)) == [said]


def test_the_values_of_an_axis_in_words() -> None:
    apart, level = of([flat(0.7)], [flat(0.6)]), of([flat(0.7)], [flat(0.699)])

    assert standing.extremes(["128", "256"], apart, 0, 1) == (
        "At 8.00 device-hours it is highest at 128 and lowest at 256, 0.10 (95 % +0.08 to +0.12) apart."
    )
    assert standing.extremes(["128", "256"], level, 0, 1).startswith(
        "No value is told apart from the others at 8.00"
    )


def test_what_is_told_where_nothing_is_compared_has_the_same_names() -> None:
    assert set(standing.NOTHING) == set(standing.told(of([flat(0.7)]), 0))
