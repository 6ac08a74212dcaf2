"""The planner's page: four questions in the URL, answered for one task and model."""

import json
import re

import pytest

from tests.webapp.crashing import crash_fits_of
from tests.webapp.interfaces.pages.reading import text_of
from webapp.interfaces.pages.views.planner import MOST_RUNS
from webapp.science.curves.fitting import curve_of


def chart_in(page):
    return json.loads(re.search(r'id="plan-data" type="application/json">(.*?)</script>', page, re.S)[1])


def test_without_a_fitted_run_the_page_teaches(ada):
    page = ada.get("/planner").content.decode()

    assert "Nothing to plan with yet" in page
    assert "/studies/new" in page


@pytest.fixture
def three(make_run):
    return [
        make_run(24, a=0.7, name="good"),
        make_run(24, a=0.5, recipe="tiny-minimax", seed=1, name="poor"),
        make_run(24, a=0.6, recipe="tiny-magistral", seed=2, name="ended", ended="succeeded"),
    ]


def test_four_questions_are_answered(ada, three):
    page = ada.get("/planner", {"target": "0.6", "budget": "16", "keep": "1", "more": "4", "hours": "2"})

    text = page.content.decode()
    assert "ScaleRL (tiny) rev 1 reaches 0.6 at" in text
    assert "MiniMax (tiny) rev 1 is not expected to reach 0.6" in text
    assert "ScaleRL (tiny) rev 1 leads: at 16.0 device-hours it comes to 0." in text
    assert "Keep the first 1 of 2" in text  # of those that have not ended
    assert "The next 2.00 device-hours buy the most in" in text
    assert chart_in(text)["budget"] == 16
    assert len(chart_in(text)["series"]) == 3


def test_numbers_that_are_not_given_have_defaults(ada, three):
    response = ada.get("/planner")

    assert response.status_code == 200
    page = text_of(response)
    assert re.search(r'name="target" data-default="0.65" inputmode="decimal" value="0.65"', page)
    assert re.search(r'name="budget" data-default="16" inputmode="decimal" value="16"', page)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("target", value) for value in ("0", "1.5", "much", "nan", "-1")],
        *[
            (name, value)
            for name in ("budget", "more", "hours")
            for value in ("0", "-3", "inf", "x", "1e300")
        ],
        *[("keep", value) for value in ("0", "1.5", "99", "x")],
    ],
)
def test_bad_numbers_are_answered_at_their_field(ada, three, name, value):
    response = ada.get("/planner", {name: value})

    assert response.status_code == 422
    page = response.content.decode()
    assert f'id="{name}-error"' in page
    assert f'value="{value}"' in page
    assert page.count("aria-invalid") == 1


def test_the_choice_of_runs_is_in_the_address(ada, three):
    page = text_of(ada.get("/planner", {"run": [three[0].pk, three[2].pk, "nothing"], "keep": "1"}))

    assert page.count('checked aria-label="') == 2
    assert 'aria-label="ended, seed 2 is among them"' in page


def test_another_task_is_another_plan(ada, three, make_run):
    from webapp.record.runs.models import Run

    Run.objects.filter(pk=three[1].pk).update(task="math")

    page = ada.get("/planner", {"group": "math:tiny-arithmetic"}).content.decode()

    assert '<option value="math:tiny-arithmetic" selected>' in page
    assert len(chart_in(page)["series"]) == 1
    assert "no fitted run of" not in page


def test_a_task_without_fitted_runs_is_not_answered_for_another_in_silence(ada, three):
    page = ada.get("/planner", {"group": "gone:tiny-arithmetic"}).content.decode()

    assert "no fitted run of “gone:tiny-arithmetic” (any more). You see arithmetic, tiny-arithmetic." in page


def test_a_run_that_does_not_rise_is_no_candidate(ada, make_run, three):
    make_run(8, a=0.2, noise=0.0, recipe="tiny-deepseek-grpo", seed=5)

    assert len(chart_in(ada.get("/planner").content.decode())["series"]) == 3


def test_runs_of_others_are_not_looked_at(ada, foreign_run):
    assert "Nothing to plan with yet" in ada.get("/planner").content.decode()


def test_queries_do_not_grow_with_runs(ada, make_run, three, django_assert_max_num_queries):
    for seed in range(3, 6):
        make_run(12, seed=seed)

    with django_assert_max_num_queries(16):
        page = ada.get("/planner").content.decode()

    assert "6 fitted runs" in page
    assert MOST_RUNS >= 6


def test_a_fit_that_crashes_is_left_out_and_said(ada, three, monkeypatch):
    good, *_ = three
    crash_fits_of(monkeypatch, curve_of(good).y)

    page = ada.get("/planner", {"budget": "16"})

    text = page.content.decode()
    assert page.status_code == 200
    assert "Left out: good, seed 0. Its fit crashed" in text
    assert "2 fitted runs" in text
    assert "ScaleRL (tiny) rev 1" not in text
    assert "at 16.0 device-hours" in text
