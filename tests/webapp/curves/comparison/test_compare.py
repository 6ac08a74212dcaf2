"""Runs and published curves side by side."""

import json
import re
from types import SimpleNamespace

import pytest

from webapp.curves.comparison.compare import _unpinned_rows, comparison
from webapp.curves.models import ReferenceFit
from webapp.runs.models import Point


def test_a_higher_ceiling_is_said_so(make_run):
    better, worse = make_run(a=0.6, name="X"), make_run(a=0.5, name="Y", seed=1)

    payload = comparison([better, worse], [])

    assert len(payload["series"]) == 2
    (sentence,) = payload["sentences"]
    assert sentence.startswith("X, seed 0 has a higher ceiling than Y, seed 1, by ")
    assert "(90 % +0.0" in sentence or "(90 % +0.1" in sentence
    assert comparison([worse, better], [])["sentences"] == [sentence]


def test_the_sooner_halfway_is_named(make_run):
    """Two runs that differ in compute alone: the second needs 1.5 times as much for everything."""
    soon, late = make_run(name="X"), make_run(name="Y", seed=1)
    for point in Point.objects.filter(series__run=late):
        Point.objects.filter(pk=point.pk).update(device_hours=1.5 * point.device_hours)

    (sentence,) = comparison([late, soon], [])["sentences"]

    assert re.search(
        "X, seed 0 is halfway up its curve with 6[5-8] % of the compute that Y, seed 1 takes", sentence
    )
    assert "halfway" not in comparison([soon, make_run(name="Z", seed=2)], [])["sentences"][0]


def test_a_lead_within_the_noise_is_not_called_one(make_run):
    pinned, vague = make_run(a=0.6, name="X"), make_run(a=0.63, name="Y", to=3.0, noise=0.02, seed=1)

    (sentence,) = comparison([pinned, vague], [])["sentences"]

    assert sentence.startswith("Y, seed 1 and X, seed 0 cannot be told apart yet")
    assert "90 % −0.0" in sentence and " to +0.0" in sentence


def test_an_unidentified_ceiling_decides_nothing(make_run):
    payload = comparison([make_run(), make_run(to=0.4, name="Y", seed=1)], [])

    assert "not identified" in payload["sentences"][0]


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
