"""The list of runs."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.webapp.interfaces.pages.reading import text_of
from webapp.record.runs.models import Run

HTMX = {"HX-Request": "true"}
PAGES = ["runs", "launch", "compare", "leaderboard", "leaderboard-csv", "recipes", "tokens"]


@pytest.mark.parametrize("name", PAGES)
def test_every_page_asks_to_sign_in(client, db, name):
    response = client.get(reverse(name))

    assert response.status_code == 302
    assert response.url.startswith("/sign-in?next=/")


@pytest.mark.parametrize("name", PAGES)
def test_every_page_stands_without_any_run(ada, name):
    assert ada.get(reverse(name)).status_code == 200


def test_no_run_yet_says_what_to_do(ada):
    page = ada.get("/runs").content.decode()

    assert "No run yet" in page
    assert 'href="/runs/new"' in page and 'href="/connect"' in page
    assert "<table" not in page


def test_a_row_has_the_ceiling_with_its_interval(ada, make_run):
    run = make_run(30, a=0.6, name="ScaleRL, first try")

    page = ada.get("/runs").content.decode()

    assert f'href="/runs/{run.pk}"' in page
    assert "ScaleRL, first try" in page
    assert "ScaleRL (tiny) rev 1" in page
    assert re.search(r'aria-label="ceiling 0\.\d+, 90 % 0\.\d+ to 0\.\d+"', page)
    assert 'class="spark"' in page


def test_a_ceiling_that_is_not_known_is_a_range_and_never_a_point(ada, make_run):
    make_run(8, to=0.5)

    page = ada.get("/runs").content.decode()

    assert re.search(r'aria-label="ceiling not known yet, 90 % 0\.\d+ to [01]\.\d+"', page)
    assert 'class="dot"' not in page


def test_what_waits_says_when_it_starts(ada, make_run):
    run, other = make_run(0), make_run(0, seed=1)
    why = "waits for the cluster: needs 2 CPU cores, 0 free; starts in about 2 to 5 min"
    Run.objects.filter(pk=run.pk).update(state="queued", state_reason=why)
    Run.objects.filter(pk=other.pk).update(state="queued", state_reason="")

    page = ada.get("/runs").content.decode()

    assert f'title="{why}">starts in about 2 to 5 min<' in page
    assert page.count("no forecast yet") == 1


def test_it_refreshes_only_while_a_run_is_unfinished(ada, make_run):
    run = make_run(6)
    assert 'data-live="yes"' in ada.get("/runs").content.decode()

    run.state = "succeeded"
    run.save(update_fields=["state"])
    assert 'data-live="no"' in ada.get("/runs").content.decode()


def test_htmx_gets_the_table_alone(ada, make_run):
    make_run(6)

    fragment = ada.get("/runs", headers=HTMX).content.decode()

    assert "<table" in fragment
    assert "<html" not in fragment


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({"state": "failed"}, {"broken"}),
        ({"state": "unfinished"}, {"waiting"}),
        ({"state": "ended"}, {"broken"}),
        ({"recipe": "tiny-deepseek-grpo"}, {"broken"}),
        ({"q": "WAIT"}, {"waiting"}),
        ({"q": "nothing like it"}, set()),
        ({"state": "no such state"}, {"waiting", "broken"}),
    ],
)
def test_the_filter_leaves_what_fits(ada, make_run, query, shown):
    make_run(0, name="waiting")
    make_run(6, name="broken", ended="failed", recipe="tiny-deepseek-grpo")

    page = ada.get("/runs", query, headers=HTMX).content.decode()

    assert {name for name in ("waiting", "broken") if f">{name}</a>" in page} == shown


def test_a_filter_without_a_hit_offers_all_runs(ada, make_run):
    make_run(0)

    assert "No run fits this filter" in ada.get("/runs", {"q": "xyzzy"}).content.decode()


def test_paging_keeps_the_filter(ada, make_run, monkeypatch):
    monkeypatch.setattr("webapp.interfaces.pages.run_list.listing.PAGE_SIZE", 2)
    for seed in range(3):
        make_run(0, name=f"run {seed}", seed=seed)

    first = text_of(ada.get("/runs", {"q": "run"}))

    assert "1 to 2 of 3" in first
    assert "?q=run&amp;page=2" in first
    assert ">run 0</a>" in ada.get("/runs", {"q": "run", "page": 2}).content.decode()


def test_runs_of_other_projects_are_not_listed(ada, foreign_run):
    assert foreign_run.pk not in ada.get("/runs").content.decode()


def test_the_number_of_queries_does_not_grow_with_the_runs(ada, make_run):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            ada.get("/runs")
        return len(captured)

    make_run(6)
    few = queries()
    for seed in range(1, 5):
        make_run(6, seed=seed)

    assert queries() == few
    assert few <= 12


def test_going_back_gets_the_whole_page(ada, make_run):
    make_run(0)

    response = ada.get("/runs", headers=HTMX | {"HX-History-Restore-Request": "true"})

    assert "<html" in response.content.decode()
    assert "HX-Request" in response["Vary"]
