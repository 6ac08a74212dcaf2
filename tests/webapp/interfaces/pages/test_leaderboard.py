"""Recipes by ceiling."""

import csv
import io
import re

import pytest

from webapp.interfaces.pages.marks import tie_stripes
from webapp.record.runs.models import Run


def test_no_fitted_run_says_what_to_do(ada):
    page = ada.get("/leaderboard").content.decode()

    assert "No fitted run yet" in page
    assert "published=1" in page


def test_recipes_are_ranked_with_their_intervals(ada, make_run):
    make_run(a=0.7)
    make_run(a=0.5, recipe="tiny-deepseek-grpo", seed=1)

    page = ada.get("/leaderboard").content.decode()

    assert page.index("ScaleRL (tiny)") < page.index("DeepSeek GRPO (tiny)")
    assert page.count('class="whisker') == 2


def test_what_has_hardly_begun_has_no_rank(ada, make_run):
    make_run(30, to=8.0)
    make_run(8, to=0.5, recipe="tiny-deepseek-grpo", seed=1)

    page = ada.get("/leaderboard").content.decode()

    assert re.search(r'<td class="muted nowrap">\s*–', page)
    assert "seen to less than a quarter of the compute that the furthest has seen (8)" in page
    assert "DeepSeek GRPO (tiny) rev 1 is not compared" in page


def test_published_rows_are_marked_with_their_margin(ada):
    page = ada.get("/leaderboard", {"published": "1"}).content.decode()

    assert "as published" in page
    assert "margin ± 0.02" in page
    assert "arXiv 2510.13786, Table 1" in page
    assert "as published" not in ada.get("/leaderboard").content.decode()


def test_the_budget_gives_an_expected_rate(ada, make_run):
    make_run(a=0.6)

    page = ada.get("/leaderboard", {"budget": "1"}).content.decode()  # C_mid: half of the gain above 0.2

    assert "at 1.00 h" in page
    assert re.search(r'<strong>0\.(40|39)\d*</strong><div class="small muted nowrap">0\.\d+ to 0\.\d+', page)


@pytest.mark.parametrize("budget", ["0", "-3", "much", "nan", "inf"])
def test_a_bad_budget_is_said_beside_its_field(ada, budget):
    page = ada.get("/leaderboard", {"budget": budget}).content.decode()

    assert 'id="budget-error"' in page


def test_csv_has_the_rows_of_the_page(ada, make_run):
    run = make_run(a=0.6)
    assert run.state == "running"

    response = ada.get("/leaderboard.csv", {"published": "1"})

    rows = list(csv.DictReader(io.StringIO(response.content.decode())))
    assert response["Content-Type"].startswith("text/csv")
    own = next(row for row in rows if row["published"] == "False")
    assert own["recipe"] == "ScaleRL (tiny)"
    assert float(own["lo"]) < float(own["A"]) < float(own["hi"])
    assert {row["A"] for row in rows if row["recipe"] == "ScaleRL"} == {"0.61"}


def test_no_name_of_a_recipe_becomes_a_formula(ada, make_run, project):
    make_run(a=0.6)
    project.recipes.filter(slug="tiny-scalerl").update(name="=cmd|' /C calc'!A0")

    rows = list(csv.DictReader(io.StringIO(ada.get("/leaderboard.csv").content.decode())))

    assert rows[0]["recipe"] == "'=cmd|' /C calc'!A0"


def test_tie_bars_of_neighbouring_groups_differ_and_who_is_alone_has_none():
    rows = [
        {"tied": tied, "tie_group": group}
        for tied, group in [(True, 1), (True, 1), (True, 3), (True, 3), (False, 5)]
    ]

    assert [stripe for _, stripe in tie_stripes(rows)] == ["odd", "odd", "even", "even", ""]


def test_it_says_who_leads_and_by_how_much(ada, make_run):
    make_run(a=0.7)
    make_run(a=0.5, recipe="tiny-deepseek-grpo", seed=1)

    page = ada.get("/leaderboard").content.decode()

    assert re.search(r"ScaleRL \(tiny\) rev 1 leads: at \S+ device-hours it comes to 0\.", page)
    assert "By forecast ceiling" in page and "Seeds differ by 0.007 (standard deviation, from " in page


def test_each_row_leads_to_its_evidence(ada, make_run):
    runs = [make_run(seed=seed) for seed in (1, 2)]

    page = ada.get("/leaderboard").content.decode()

    assert re.search(rf'href="/compare\?run={runs[1].pk}&amp;run={runs[0].pk}"', page)
    url = re.search(r'hx-get="(/leaderboard/evidence[^"]+)"', page)[1].replace("&amp;", "&")
    evidence = ada.get(url).content.decode()
    assert all(f'href="/runs/{run.pk}"' in evidence for run in runs)
    assert "2 seeds" in evidence and "no earlier forecast to check" in evidence
    assert ada.get("/leaderboard/evidence", {"task": "x", "model": "y", "run": "\0"}).status_code == 404


def test_of_many_tasks_the_first_are_there_and_the_others_come_when_asked_for(ada, make_run, monkeypatch):
    monkeypatch.setattr("webapp.interfaces.pages.views.leaderboard.SCREENFUL", 3)
    runs = [make_run(seed=seed) for seed in range(4)]
    for place, run in enumerate(runs):
        Run.objects.filter(pk=run.pk).update(task=f"task {place}")

    page = ada.get("/leaderboard", {"sort": "b", "budget": "2"}).content.decode()
    assert page.count('<table class="rows board"') == 3 and "its run</a>" in page
    url = re.search(r'hx-get="(/leaderboard/group[^"]+)"', page)[1].replace("&amp;", "&")
    later = ada.get(url).content.decode()

    assert "task 3" in later and runs[3].pk in later and "budget=2" in later
    assert f'href="/runs/{runs[0].pk}"' not in later and runs[0].pk not in later
    assert ada.get("/leaderboard/group", {"task": "none", "model": "none"}).status_code == 404
    assert len(list(csv.DictReader(io.StringIO(ada.get("/leaderboard.csv").content.decode())))) == 4


def test_ties_share_a_rank_and_ask_for_their_efficiency(ada, make_run):
    make_run(a=0.6)
    make_run(a=0.6, recipe="tiny-minimax", seed=1)

    page = ada.get("/leaderboard").content.decode()
    url = re.search(r'hx-get="(/leaderboard/efficiency[^"]+)"', page)[1].replace("&amp;", "&")

    assert page.count('title="shares this rank"') == 2
    assert page.count("tie odd") == 2
    answer = ada.get(url).content.decode()
    assert (
        "Efficiency at the shared ceiling 0.60" in answer and "none is known to be more efficient" in answer
    )
    assert ada.get("/leaderboard/efficiency", {"task": "\0no"}).content.decode().strip() == ""


def test_another_order_says_what_the_rank_means(ada, make_run):
    make_run(a=0.6)
    make_run(a=0.6, recipe="tiny-minimax", seed=1)

    page = ada.get("/leaderboard", {"sort": "c90"}).content.decode()

    assert "in the order of compute to 90 %" in page
    assert "tie odd" not in page
    assert ada.get("/leaderboard", {"sort": "nonsense"}).status_code == 200


def test_a_budget_may_be_in_tokens(ada, make_run):
    make_run(a=0.6)

    page = ada.get("/leaderboard", {"budget": "1e6", "x": "tokens"}).content.decode()

    assert "at 1.00e6 tokens" in page
    assert "turned into device-hours by what each run has spent" in page
    assert re.search(r'<strong>0\.(40|39)\d*</strong><div class="small muted nowrap">0\.\d+ to 0\.\d+', page)


def test_a_filter_without_rows_offers_the_way_back(ada, make_run):
    make_run(a=0.6)

    page = ada.get("/leaderboard", {"task": "chess"}).content.decode()

    assert "No recipe on this task and model" in page


def test_many_recipes_cost_the_same_queries(ada, make_run, django_assert_max_num_queries):
    from tests.webapp.interfaces.pages.copies import copies_of

    run = make_run()
    copies_of(run, 30)

    with django_assert_max_num_queries(20):
        page = ada.get("/leaderboard", {"published": "1", "budget": "4", "x": "flops"}).content.decode()

    assert "its 31 runs" in page
