"""Runs, recipes and published curves side by side."""

import json
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.webapp.crashing import crash_fits_of
from tests.webapp.interfaces.pages.copies import copies_of
from tests.webapp.interfaces.pages.reading import text_of
from webapp.record.runs.models import Run
from webapp.record.savedviews.models import SavedView
from webapp.science.curves.fitting import curve_of


def comparison_in(page, name="comparison"):
    return json.loads(
        re.search(rf'<script id="{name}" type="application/json">(.*?)</script>', page, re.S)[1]
    )


def page_of(ada, **query):
    response = ada.get("/compare", query)
    assert response.status_code == 200
    return text_of(response)


def test_nothing_chosen_says_how_to_choose(ada, make_run):
    page = page_of(ada)

    assert "Nothing chosen yet" in page
    assert 'hx-get="/compare/search"' in page


def test_two_runs_are_told_apart_in_words(ada, make_run):
    better, worse = make_run(a=0.7, name="better"), make_run(a=0.5, seed=1, name="worse")

    page = page_of(ada, run=[better.pk, worse.pk])

    assert "better, seed 0 is better than worse, seed 1 at " in page
    assert [s["label"] for s in comparison_in(page)["series"]] == ["better, seed 0", "worse, seed 1"]


def test_runs_of_one_name_and_seed_are_told_by_their_ids(ada, make_run):
    runs = [make_run(0, name="same").pk for _ in range(2)]

    labels = [s["label"] for s in comparison_in(page_of(ada, run=runs))["series"]]

    assert labels == [f"same, seed 0 ({pk})" for pk in runs]


def test_series_differ_in_shape_as_well_as_in_colour(ada, make_run):
    chosen = [make_run(6, seed=seed).pk for seed in range(3)]

    page = page_of(ada, run=chosen)

    keys = re.findall(r'<span class="key (s\d)"><svg[^>]*><path d="([^"]+)"', page)
    assert len({colour for colour, _ in keys}) == 3
    assert len({shape for _, shape in keys}) == 3


def test_published_curves_are_drawn_as_share_and_slope_only(ada, make_run):
    query = {"run": make_run().pk, "ref": "scalerl"}

    as_rate, as_share, as_slope = (page_of(ada, **query, view=view) for view in ("rate", "share", "slope"))

    assert "switch to the share of the gain" in as_rate
    assert 'class="whisker s2 published"' in as_rate and 'class="key s2 hollow"' in as_rate
    assert [s["kind"] for s in comparison_in(as_rate)["series"]] == ["run"]
    assert [s["kind"] for s in comparison_in(as_share)["series"]] == ["run", "published"]
    assert [s["kind"] for s in comparison_in(as_slope)["series"]] == ["run", "published"]


def test_runs_of_others_and_unknown_choices_are_left_out_and_named(ada, foreign_run):
    query = {"run": [foreign_run.pk, "nosuchrun\0"], "ref": "nosuchcurve", "x": "parsecs", "view": "sideways"}

    page = page_of(ada, **query, recipe=["nothing@1", "tiny-scalerl@x"], by="colour", budget="much")

    assert "Nothing chosen yet" in page
    assert foreign_run.pk in page and "They are left out" in page
    assert foreign_run.name not in page


def test_a_run_without_evaluations_can_be_compared(ada, make_run):
    page = page_of(ada, run=[make_run(0).pk, make_run(seed=1).pk])

    assert "no forecast yet" in page
    assert "No evaluation on this axis yet" in page


@pytest.mark.parametrize("n", [0, 1])
def test_none_or_one_point_is_no_curve_and_no_error(ada, make_run, n):
    page = page_of(ada, run=[make_run(n).pk])

    assert "Nothing fitted yet" in page


def test_a_whole_recipe_is_its_runs_as_one(ada, make_run):
    runs = [make_run(seed=seed) for seed in range(3)]
    make_run(a=0.5, recipe="tiny-minimax", seed=9)

    page = page_of(ada, recipe=["tiny-scalerl@1", "tiny-minimax@1"])
    payload = comparison_in(page)

    assert [s["kind"] for s in payload["series"]] == ["run", "recipe"]
    assert all(f'<a class="link" href="/runs/{run.pk}">' in page for run in runs)
    assert "1 curve is of a single run" in page  # never mixed silently
    assert "the ceilings of 3 runs differ by a standard deviation of" in page
    assert len(comparison_in(page_of(ada, recipe="tiny-scalerl@1", by="run"))["series"]) == 3


def test_some_seeds_of_a_recipe_are_said_to_be_some(ada, make_run):
    runs = [make_run(seed=seed).pk for seed in range(3)]

    assert "2 of its 3 runs" in page_of(ada, run=runs[:2], by="recipe")


def test_what_is_dropped_leaves_the_address(ada):
    response = ada.get("/compare", {"run": ["aaa", "bbb"], "drop": "aaa", "q": "", "x": "tokens"})

    assert response.status_code == 302
    assert response.url == "/compare?run=bbb&x=tokens"


def test_only_settings_that_differ_are_listed(ada, make_run):
    page = page_of(ada, run=[make_run().pk, make_run(recipe="tiny-deepseek-grpo", seed=1).pk])

    table = page[page.index("Settings that differ") :]
    assert '<th scope="row">loss.type</th><td>cispo</td><td>grpo</td>' in table
    assert "optimizer.weight_decay" not in table
    assert re.search(r"\d+ other settings are the same", table)


def test_runs_alike_have_no_settings_that_differ(ada, make_run):
    page = page_of(ada, run=[make_run(0, name="a").pk, make_run(0, name="b").pk])

    assert "No setting differs" in page


def odds_of(ada, **query):
    response = ada.get("/compare/odds", query)
    assert response.status_code == 200
    return response.content.decode()


def test_a_budget_answers_with_rates_and_chances(ada, make_run):
    runs = [make_run(a=0.7, name="better").pk, make_run(a=0.5, seed=1, name="worse").pk]

    page = odds_of(ada, run=runs, budget="4")
    odds = comparison_in(page, "odds-data")

    assert "better, seed 0 leads: at 4.00 device-hours it comes to 0." in page
    assert [row["label"] for row in odds["rows"]] == ["better, seed 0", "worse, seed 1"]
    assert all(row["lo"] < row["value"] < row["hi"] for row in odds["rows"])


@pytest.mark.parametrize("budget", ["0", "-1", "much", "nan", "inf", "1e400"])
def test_a_bad_budget_is_said_and_the_default_taken(ada, make_run, budget):
    page = odds_of(ada, run=make_run().pk, budget=budget)

    assert "a number above 0 is needed, in device-hours" in page
    assert comparison_in(page, "odds-data")["budget"] == 8.0


def test_a_slider_is_answered_from_stored_forecasts(ada, make_run, monkeypatch):
    runs = [make_run(seed=seed).pk for seed in range(3)]
    odds_of(ada, run=runs, budget="4")

    monkeypatch.setattr("scaling.extrapolate", None)
    page = odds_of(ada, run=runs, budget="5")

    assert len(comparison_in(page, "odds-data")["rows"]) == 3


def test_crossings_come_as_marks_and_sentences(ada, make_run):
    runs = [make_run(name="X").pk, make_run(seed=1, name="Y").pk]

    page = ada.get("/compare/crossings", {"run": runs}).content.decode()

    assert "X, seed 0 and Y, seed 1" in page
    assert isinstance(comparison_in(page, "crossing-marks"), list)


def test_the_search_finds_runs_recipes_and_published_curves(ada, make_run):
    run = make_run(0, name="steady")
    chosen = make_run(0, name="steadfast", seed=1)

    page = ada.get("/compare/search", {"q": "stead", "run": chosen.pk, "view": "slope"}).content.decode()
    recipes = ada.get("/compare/search", {"q": "scalerl"}).content.decode()

    assert f'href="/compare?run={chosen.pk}&amp;run={run.pk}&amp;view=slope"' in page
    assert page.count("chosen</span>") == 1
    assert f"run={chosen.pk}&amp;run={run.pk}" in page and "Add all 2 runs that match" in page
    assert "recipe=tiny-scalerl%401" in recipes and "2 runs" in recipes
    assert "ref=scalerl" in recipes
    assert "Nothing matches" in ada.get("/compare/search", {"q": "nowhere\0<"}).content.decode()


def test_the_search_keeps_to_the_project(ada, foreign_run):
    assert "Nothing matches" in ada.get("/compare/search", {"q": foreign_run.pk}).content.decode()


def test_the_search_reads_as_many_rows_as_it_shows(ada, make_run, django_assert_max_num_queries):
    copies_of(make_run(6), 40)

    with django_assert_max_num_queries(11):
        page = ada.get("/compare/search", {"q": "tiny"}).content.decode()

    assert "12 of 41" in page
    assert page.count("<li>") < 25


def queries(ada, url, query):
    with CaptureQueriesContext(connection) as captured:
        response = ada.get(url, query)
    assert response.status_code == 200
    return len(captured)


@pytest.mark.parametrize("by", ["run", "recipe"])
def test_three_runs_and_sixty_cost_the_same_queries(ada, make_run, by):
    runs = [make_run().pk, *(run.pk for run in copies_of(make_run(seed=1), 59))]
    ada.get("/compare", {"run": runs, "by": by})  # the fits are read once and then known

    few, many = (queries(ada, "/compare", {"run": chosen, "by": by}) for chosen in (runs[:3], runs))

    assert few <= 17
    assert abs(many - few) <= 1


def test_many_runs_are_drawn_from_stored_fits_and_say_so(ada, make_run):
    run = make_run(60)
    runs = [run.pk, *(copy.pk for copy in copies_of(run, 39))]

    page = page_of(ada, run=runs)
    payload = comparison_in(page)

    assert payload["many"] is True
    assert "1,200 of 2,400 evaluations are shown" in page or re.search(
        r"[\d,]+ of 2,400 evaluations are shown", page
    )
    assert all(s["fit"]["lo"] is None and s["fit"]["y"] for s in payload["series"])
    assert page.count('class="cap"') == 40  # each ceiling with its interval
    assert all(row["chance"] is not None for row in comparison_in(page, "odds-data")["rows"])
    assert "Crossings are worked out for a few series" in page


def test_a_hundred_runs_are_a_small_page(ada, make_run):
    run = make_run(60)
    runs = [run.pk, *(copy.pk for copy in copies_of(run, 99))]
    assert Run.objects.count() == 100

    page = page_of(ada, run=runs)

    assert len(page.encode()) < 500_000
    assert len(comparison_in(page)["series"]) == 100


def test_a_fit_that_crashes_is_said_and_the_others_are_compared(ada, make_run, monkeypatch):
    bad, good = make_run(a=0.7, name="bad"), make_run(a=0.5, seed=1, name="good")
    crash_fits_of(monkeypatch, curve_of(bad).y)

    page = page_of(ada, run=[bad.pk, good.pk])

    assert "Without parameters of Eq. 1: bad, seed 0. Its fit crashed" in page
    assert [bool(s["fit"]) for s in comparison_in(page)["series"]] == [True, True]  # by stored forecasts
    shares = comparison_in(page_of(ada, run=[bad.pk, good.pk], view="share"))["series"]
    assert [bool(s["fit"]) for s in shares] == [False, True]


def test_where_every_fit_crashes_none_is_called_too_early(ada, make_run, monkeypatch):
    run = make_run(a=0.7)
    crash_fits_of(monkeypatch)

    page = page_of(ada, run=run.pk)

    assert "Its fit crashed" in page
    assert "at least five evaluations" not in page


def test_metrics_are_the_second_tab_and_keep_the_choice(ada, make_run):
    runs = [make_run(0, name="one").pk, make_run(0, name="two", seed=1).pk]

    curves = page_of(ada, run=runs)
    metrics = page_of(ada, run=runs, tab="metrics", m="train/* entropy", x="tokens", smooth="0.5", cols="2")

    assert "tab=metrics" in curves and 'src="/static/js/compare_metrics' in metrics
    assert 'value="train/* entropy"' in metrics and 'value="0.5"' in metrics and "cols-2" in metrics
    assert metrics.count('name="run"') == 2  # of the choice
    assert 'name="tab" value="metrics"' in metrics and '<option value="tokens" selected>' in metrics
    over_a_metric = page_of(ada, run=runs, tab="metrics", x="train/kl")
    assert "<option selected>train/kl</option>" in over_a_metric
    assert 'name="x" value="train/kl"' in over_a_metric  # of the choice: who adds a run keeps the axis


def test_a_part_of_the_axis_stands_in_the_address(ada, make_run):
    run = make_run(0).pk

    page = page_of(ada, run=run, tab="metrics", lo="3e2", hi="inf")

    assert 'id="axis-lo" value="3e2"' in page and 'id="axis-hi" value=""' in page
    assert page.count('name="lo"') == 2  # its own field, and one of the choice


def test_a_layout_of_panels_is_saved_opened_and_deleted(ada, make_run):
    run = make_run(12).pk
    shown = f"run={run}&tab=metrics&m=train/*&cols=1&smooth=0.5&hide=seed+0"

    answer = ada.post("/compare/layouts", {"name": "Training", "back": shown})

    layout = SavedView.objects.get()
    assert (layout.page, layout.layout) == ("metrics", "m=train%2F%2A&cols=1&smooth=0.5")
    assert answer.url.startswith(f"/compare?run={run}&tab=metrics")
    shown_so = page_of(ada, run=run, tab="metrics", m="train/*", cols="1", smooth="0.5")
    otherwise = page_of(ada, run=run, tab="metrics", m="entropy", hide="seed 0")
    opens = f'href="/compare?run={run}&amp;tab=metrics&amp;m=train%2F%2A&amp;cols=1&amp;smooth=0.5"'
    assert opens in otherwise and f'{opens} aria-current="true"' in shown_so
    assert "Training" not in ada.get("/runs").content.decode()

    ada.post("/compare/layouts", {"name": "training", "back": shown})
    assert SavedView.objects.count() == 1
    ada.post(f"/compare/layouts/{layout.pk}/delete", {"version": 9, "back": shown})
    assert SavedView.objects.count() == 1
    ada.post(f"/compare/layouts/{layout.pk}/delete", {"version": layout.version, "back": shown})
    assert not SavedView.objects.exists()


def test_settings_are_the_third_tab(ada, make_run):
    runs = [make_run(12, name="one").pk, make_run(12, name="two", seed=1).pk]

    page = page_of(ada, run=runs, tab="settings", sx="seed", sy="pass_rate", x="tokens")

    assert 'src="/static/js/compare_settings' in page and "tab=metrics" in page
    assert '<option value="seed" selected>' in page and '<option value="pass_rate" selected>' in page
    assert page.count("data-run=") == 2 and "Forecast ceiling" in page
    assert "<option>train/entropy</option>" in page
    by_metric = page_of(ada, run=runs, tab="settings", sx="train/reward", sy="train/entropy")
    assert '<option value="train/entropy" selected>train/entropy, newest</option>' in by_metric
    assert (
        '<option value="train/reward" selected>' in by_metric
        and "<th>train/entropy, newest</th>" in by_metric
    )
    assert "No runs chosen yet" in page_of(ada, tab="settings", ref="scalerl")
    assert "selected>Forecast ceiling" in page_of(ada, run=runs, tab="settings", sx="nothing", sy="nothing")


def test_panels_answer_what_the_page_asks(ada, make_run):
    runs = [make_run(12, name="one").pk, make_run(12, name="two", seed=1).pk]

    found = ada.get("/compare/panels", {"run": runs, "m": "train/* nothing", "by": "recipe"}).json()

    assert [panel["metric"] for panel in found["panels"]] == [
        "train/entropy",
        "train/reward",
        "train/truncation_rate",
    ]
    assert found["unmatched"] == ["nothing"] and found["x"]["key"] == "step"
    assert [line["runs"] for line in found["panels"][0]["lines"]] == [2]
    pairs = ada.get("/compare/panels", {"run": runs, "m": "train/reward", "x": "train/entropy"}).json()
    assert pairs["x"]["is_metric"] and pairs["panels"][0]["runs"] == 2 and not pairs["problem"]
    unknown = ada.get("/compare/panels", {"run": runs, "m": "train/reward", "x": "train/entropi"}).json()
    assert unknown["x"]["key"] == "step" and 'did you mean "train/entropy"?' in unknown["problem"]
    part = ada.get("/compare/panels", {"run": runs, "m": "eval/pass_rate", "lo": "5", "hi": "8"}).json()
    assert part["panels"][0]["lines"][0]["x"] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "query",
    [
        {"x": "nothing"},
        {"x": "a" * 999},
        {"x": "\0"},
        {"lo": "5", "hi": "1"},
        {"lo": "-1e300"},
        {"smooth": "2"},
        {"smooth": "nan"},
        {"cols": "9"},
        {"m": "[" * 3000},
        {"m": "\0"},
    ],
)
def test_a_metrics_tab_stands_with_any_query(ada, make_run, query):
    run = make_run(12).pk

    assert page_of(ada, run=run, tab="metrics", **query)
    assert ada.get("/compare/panels", {"run": run, **query}).status_code == 200


def test_metrics_of_nothing_and_of_published_curves_say_so(ada, make_run):
    assert "Nothing chosen yet" in page_of(ada, tab="metrics")
    assert ada.get("/compare/panels").json()["panels"] == []
