"""Runs and published curves side by side."""

import json
from types import SimpleNamespace

import pytest

from webapp.science.curves.comparison.compare import _unpinned_rows, comparison
from webapp.science.curves.models import ReferenceFit


def test_the_better_one_is_said_so_whatever_the_order(make_run):
    better, worse = make_run(a=0.6, name="X"), make_run(a=0.5, name="Y", seed=1)

    payload = comparison([better, worse], [])

    assert len(payload["series"]) == 2
    sentence, seeds = payload["sentences"]
    assert sentence.startswith("X, seed 0 is better than Y, seed 1 at 8.00 device-hours, by 0.")
    assert "(95 % +0.0" in sentence and "forecast ceiling" in sentence
    assert "Seeds differ by 0.007 (standard deviation" in seeds and "2 are compared by one seed" in seeds
    assert comparison([worse, better], [])["sentences"] == [sentence, seeds]


def test_a_lead_within_what_seeds_differ_by_is_not_called_one(make_run):
    pinned, higher = make_run(a=0.6, name="X"), make_run(a=0.615, name="Y", seed=1)

    sentence, _ = comparison([pinned, higher], [])["sentences"]

    assert sentence.startswith("Y, seed 1 and X, seed 0 cannot be told apart at 8.00 device-hours")
    assert "95 % −0.0" in sentence and " to +0.0" in sentence and "which seeds and noise may be" in sentence


def test_a_run_that_was_stopped_early_has_no_advantage(make_run):
    long, short = make_run(a=0.6, name="X"), make_run(a=0.605, name="Y", to=4.0, seed=1)

    payload = comparison([long, short], [])

    assert "cannot be told apart at 8.00 device-hours" in payload["sentences"][0]
    assert [row["rank"] for row in payload["table"]] == [1, 1]


def test_what_has_hardly_begun_decides_nothing(make_run):
    payload = comparison([make_run(), make_run(to=0.4, name="Y", seed=1)], [])

    assert payload["sentences"][0] == (
        "ScaleRL, seed 0 against Y, seed 1: seen to less than a quarter of the compute that the furthest has "
        "seen (8) (Y, seed 1), so nothing can be said."
    )


def test_other_tasks_are_no_rivals(make_run):
    other = make_run(seed=1)
    other.task = "code"

    assert "not rivals" in comparison([make_run(), other], [])["sentences"][0]


@pytest.mark.django_db
def test_published_curves_are_drawn_only_as_shares():
    references = list(ReferenceFit.objects.all()[:2])

    as_rates = comparison([], references, view="rate")
    as_shares = comparison([], references, view="share")

    assert as_rates["series"] == []
    assert any("R0" in sentence for sentence in as_rates["sentences"])
    assert [series["kind"] for series in as_shares["series"]] == ["published", "published"]
    assert max(as_shares["series"][0]["fit"]["y"]) <= 1


def test_shares_of_a_run_run_from_zero_to_one(make_run):
    series = comparison([make_run()], [], view="share")["series"][0]

    assert min(series["fit"]["y"]) > -0.1
    assert 0.9 < max(series["fit"]["y"]) <= 1.0


def test_the_payload_is_json(make_run):
    json.dumps(
        comparison([make_run(), make_run(n=2, seed=1)], list(ReferenceFit.objects.all())), allow_nan=False
    )


def test_a_lower_bound_is_rounded_down():
    """Rounded up it would promise more than is known; the run's own page rounds down too."""
    intervals = {"A": (0.517, None), "R0": (0.19, 0.21)}
    fit = SimpleNamespace(params={"R0": 0.2}, intervals=intervals)

    row, *_ = _unpinned_rows(SimpleNamespace(grouped=False, drawn_fits=[fit]))

    assert row["interval_text"] == "at least 0.51"
