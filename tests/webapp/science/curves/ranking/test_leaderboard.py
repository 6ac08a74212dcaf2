"""Recipes by ceiling: intervals always, ties as ties, published curves in groups of their own."""

import pytest

from benchmarks.table1 import published_fits
from webapp.record.recipes.models import Recipe, Revision
from webapp.science.curves import services
from webapp.science.curves.models import ReferenceFit
from webapp.science.curves.ranking.leaderboard import leaderboard


@pytest.fixture
def other_revision(project):
    recipe = Recipe.objects.create(project=project, slug="grpo", name="GRPO")
    return Revision.objects.create(recipe=recipe, number=1, config={}, content_hash="1" * 64)


def own_rows(project):
    return [row for group in leaderboard(project, published=False) for row in group["rows"]]


def test_the_higher_ceiling_ranks_first(project, make_run, other_revision):
    for run in (make_run(a=0.6), make_run(a=0.5, revision=other_revision)):
        services.refit(run.pk)

    rows = own_rows(project)

    assert [(row["recipe"], row["rank"]) for row in rows] == [("ScaleRL", 1), ("GRPO", 2)]
    assert all(row["lo"] < row["A"] < row["hi"] for row in rows)


def test_ceilings_within_the_margin_share_a_rank(project, make_run, other_revision):
    for run in (make_run(a=0.6), make_run(a=0.595, revision=other_revision)):
        services.refit(run.pk)

    assert [(row["rank"], row["tied"]) for row in own_rows(project)] == [(1, True), (1, True)]


def test_what_is_not_identified_has_no_rank_and_no_point(project, make_run, other_revision):
    for run in (make_run(a=0.6), make_run(to=0.4, revision=other_revision)):
        services.refit(run.pk)

    row = own_rows(project)[-1]

    assert (row["recipe"], row["rank"], row["A"]) == ("GRPO", None, None)
    assert row["ceiling"]["text"] == "not identified yet"


def test_seeds_of_a_recipe_are_one_row(project, make_run):
    for seed in (1, 2, 3):
        services.refit(make_run(seed=seed).pk)

    (row,) = own_rows(project)

    assert row["seeds"] == 3
    assert row["lo"] < 0.6 < row["hi"]


def test_other_projects_stay_out(project, make_run):
    from webapp.identity.accounts.services import create_project

    services.refit(make_run().pk)

    assert own_rows(create_project(slug="else", name="Else")) == []


def test_compute_to_90_percent_follows_from_the_law(project, make_run):
    services.refit(make_run(b=2.0).pk)

    (row,) = own_rows(project)

    assert row["c90"] == pytest.approx(3.0, rel=0.1)  # C_mid 9**(1/2) with C_mid = 1


def test_the_number_of_queries_does_not_grow(project, make_run, django_assert_max_num_queries):
    for seed in range(5):
        services.refit(make_run(seed=seed).pk)

    with django_assert_max_num_queries(11):
        leaderboard(project)
    with django_assert_max_num_queries(11):
        leaderboard(project, budget=1e15, x="flops")


@pytest.mark.django_db
def test_the_published_rows_are_those_of_table_1():
    stored = {(r.name, r.c_mid, r.b, r.a) for r in ReferenceFit.objects.all()}

    assert stored == {(p.name, p.c_mid, p.b, p.a) for p in published_fits()}


def test_published_curves_are_groups_of_their_own(project):
    groups = leaderboard(project)

    assert all(group["published"] for group in groups)
    math = next(g for g in groups if g["model"] == "8B dense" and g["task"].startswith("math"))
    assert math["rows"][0]["A"] == 0.645
    assert [row["rank"] for row in math["rows"][:2]] == [1, 1]
