"""Runs and published curves side by side."""

import json
import re

from django.db import connection
from django.test.utils import CaptureQueriesContext


def comparison_in(page):
    return json.loads(
        re.search(r'<script id="comparison" type="application/json">(.*?)</script>', page, re.S)[1]
    )


def test_nothing_chosen_says_how_to_choose(ada, make_run):
    page = ada.get("/compare").content.decode()

    assert "Nothing chosen yet" in page
    assert 'hx-get="/compare/search"' in page


def test_two_runs_are_told_apart_in_words(ada, make_run):
    better, worse = make_run(a=0.7, name="better"), make_run(a=0.5, seed=1, name="worse")

    page = ada.get("/compare", {"run": [better.pk, worse.pk]}).content.decode()

    assert "better, seed 0 has a higher ceiling than worse, seed 1" in page
    assert [s["label"] for s in comparison_in(page)["series"]] == ["better, seed 0", "worse, seed 1"]


def test_series_differ_in_shape_as_well_as_in_colour(ada, make_run):
    chosen = [make_run(6, seed=seed).pk for seed in range(3)]

    page = ada.get("/compare", {"run": chosen}).content.decode()

    keys = re.findall(r'<span class="key (s\d)"><svg[^>]*><path d="([^"]+)"', page)
    assert len({colour for colour, _ in keys}) == 3
    assert len({shape for _, shape in keys}) == 3


def test_published_curves_are_drawn_as_share_only(ada, make_run):
    run = make_run()
    query = {"run": run.pk, "ref": "scalerl"}

    as_rate = ada.get("/compare", query).content.decode()
    as_share = ada.get("/compare", query | {"view": "share"}).content.decode()

    assert "switch to the share of the gain" in as_rate
    assert [s["kind"] for s in comparison_in(as_rate)["series"]] == ["run"]
    assert [s["kind"] for s in comparison_in(as_share)["series"]] == ["run", "published"]


def test_runs_of_others_and_unknown_choices_are_left_out(ada, foreign_run):
    query = {"run": [foreign_run.pk, "nosuchrun"], "ref": "nosuchcurve", "x": "parsecs", "view": "sideways"}

    response = ada.get("/compare", query)

    assert response.status_code == 200
    assert "Nothing chosen yet" in response.content.decode()


def test_a_run_without_evaluations_can_be_compared(ada, make_run):
    page = ada.get("/compare", {"run": [make_run(0).pk, make_run(seed=1).pk]}).content.decode()

    assert "is not identified yet" in page


def test_each_run_costs_the_same_number_of_queries(ada, make_run):
    runs = [make_run(10, seed=seed).pk for seed in range(4)]

    def queries(chosen):
        with CaptureQueriesContext(connection) as captured:
            ada.get("/compare", {"run": chosen})
        return len(captured)

    two, four = queries(runs[:2]), queries(runs)
    assert four - two <= 2  # one for the curve of each
