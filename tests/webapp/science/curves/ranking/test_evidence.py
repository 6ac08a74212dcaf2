"""Quality of evidence, what is stored beside a fit, and what a leaderboard answers."""

import numpy as np
import pytest

from tests.webapp.crashing import crash_fits_of
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.runs.models import Point, Run
from webapp.science.curves import estimates, services
from webapp.science.curves.answers import read
from webapp.science.curves.fitting import Question, curve_of, fit_curve
from webapp.science.curves.models import Fit
from webapp.science.curves.ranking.evidence import Facts, facts_of, forecast_of
from webapp.science.curves.ranking.leaderboard import in_order, leaderboard, tasks_and_models
from webapp.science.curves.ranking.variation import efficiencies


@pytest.fixture
def other(project):
    recipe = Recipe.objects.create(project=project, slug="grpo", name="GRPO")
    return Revision.objects.create(recipe=recipe, number=1, config={}, content_hash="1" * 64)


def fitted(run):
    services.refit(run.pk)
    return run


def rows_of(project, **asked):
    (group,) = leaderboard(project, published=False, **asked)
    return group["rows"]


def test_what_is_stored_beside_a_fit_is_what_it_says(make_run):
    run = fitted(make_run())
    fit = fit_curve(curve_of(run), Question())
    stored = read(Fit.objects.get(run=run).outlook)

    at = np.array([0.07, 0.9, 3.3, 100.0])
    lo, hi = fit.predict_interval(at)
    assert stored.band(at, fit.predict)[0] == pytest.approx(lo, abs=1e-4)
    assert stored.band(at, fit.predict)[1] == pytest.approx(hi, abs=1e-4)
    assert np.isnan(stored.band(np.array([1e6]), fit.predict)[0]).all()
    goal = fit.params["R0"] + 0.9 * (fit.params["A"] - fit.params["R0"])
    assert stored.c90 == pytest.approx((fit.compute_for(goal), *fit.compute_for_interval(goal)))


def test_stored_and_new_fits_say_the_same(make_run):
    run = fitted(make_run())
    live = estimates.of_live(fit_curve(curve_of(run), Question()))
    stored = estimates.of_stored(Fit.objects.get(run=run))

    for name in estimates.PARAMETERS:
        assert estimates.parameters([[live]], name) == [
            pytest.approx(estimates.parameters([[stored]], name)[0])
        ]
    assert stored.quantile == pytest.approx(live.quantile)


def test_an_unbent_curve_promises_nothing(make_run):
    stored = Fit.objects.get(run=fitted(make_run(to=0.4))).outlook

    assert stored["c90"] is None


def test_a_row_is_compared_at_the_budget_asked_for(project, make_run):
    for seed in (1, 2, 3):
        fitted(make_run(seed=seed))

    (row,) = rows_of(project, budget=4.0)

    truth = 0.2 + 0.4 / (1 + 4.0**-2)
    assert row["compared_at"] == 4.0
    assert row["at_budget_lo"] < truth < row["at_budget_hi"] < row["at_budget_lo"] + 0.04
    assert row["c90_lo"] < 3.0 < row["c90_hi"]
    assert row["B_lo"] < 2.0 < row["B_hi"]


def test_a_row_says_why_it_is_not_compared(project, make_run):
    fitted(make_run(to=8.0))
    (unasked,), (early,), (far,) = (rows_of(project, budget=budget) for budget in (None, 0.001, 170.0))

    assert unasked["at_budget"] is not None and unasked["not_compared"] == ""
    assert (early["at_budget"], early["at_budget_span"]) == (None, "that compute lies before its evaluations")
    assert (far["at_budget"], far["at_budget_span"]) == (
        None,
        "seen to less than a tenth of the compute asked for (170)",
    )


def test_a_budget_on_another_axis_is_the_same_budget(project, make_run):
    fitted(make_run())

    (by_hours,), (by_tokens,) = rows_of(project, budget=4.0), rows_of(project, budget=4e6, x="tokens")

    assert by_tokens["at_budget"] == pytest.approx(by_hours["at_budget"])


def test_a_seed_that_pins_nothing_is_left_out_and_said(project, make_run):
    for run in (make_run(), make_run(to=0.4, seed=1)):
        fitted(run)

    (row,) = rows_of(project)

    assert (row["seeds"], row["identified_seeds"], row["evidence"]) == (2, 1, "weak")
    assert (row["hi"], row["c90_hi"]) == (
        None,
        None,
    )  # the other seed may rise beyond, as studies say it, too
    assert row["ceiling"]["interval_text"].startswith("90 % at least ") and row["c90_text"].endswith(
        " to never"
    )
    assert "2 seeds, 1 of them pins the ceiling; the others leave it open above" in row["evidence_words"]


def facts(**changes):
    strong = {
        "seeds": 3, "pinned": 3, "ahead": (4.5, 6.0), "points": (30, 31), "window": (0.1, 8.0), "spread": 0.01,
        "held": 3, "missed": 0,
    }  # fmt: skip
    return Facts(**strong | changes)


@pytest.mark.parametrize(
    ("changes", "grade"),
    [
        ({}, 3),
        ({"missed": 1, "held": 2}, 2),
        ({"ahead": (2.5, 6.0)}, 2),
        ({"seeds": 2, "pinned": 2}, 2),
        ({"ahead": (1.5, 6.0)}, 1),
        ({"spread": 0.03}, 1),
        ({"seeds": 1, "pinned": 1, "spread": None}, 1),
        ({"missed": 3, "held": 0}, 1),
        ({"pinned": 0, "ahead": None}, 0),
    ],
)
def test_grades(changes, grade):
    assert facts(**changes).grade == grade


def test_facts_are_counted_from_the_fits(make_run):
    fits = [estimates.of_live(fit_curve(curve_of(make_run(seed=seed)), Question())) for seed in (1, 2)]

    found = facts_of(fits, [None, None])

    a, b = (fit.params for fit in fits)
    assert found.spread == pytest.approx(abs(a["A"] - b["A"]))
    assert found.ahead == pytest.approx(sorted(8.0 / p["C_mid"] for p in (a, b)))
    assert "no earlier forecast to check" in found.sentences


def test_a_forecast_from_half_of_the_compute_is_checked(project, make_run):
    run = make_run(n=60)
    everything = list(Point.objects.filter(series__run=run, device_hours__gt=4))
    Point.objects.filter(pk__in=[p.pk for p in everything]).delete()
    fitted(run)
    Point.objects.bulk_create(everything)
    fitted(run)

    (row,) = rows_of(project)

    assert row["run_rows"][0]["held"] is True
    assert "1 of 1 forecast from half of the compute held" in row["evidence_words"]


def test_a_missed_forecast_is_told_from_one_that_held(make_run):
    early, same, higher = (
        estimates.of_live(fit_curve(curve_of(make_run(a=a, to=to, seed=seed)), Question()))
        for a, to, seed in ((0.6, 4.0, 1), (0.6, 8.0, 2), (0.7, 8.0, 3))
    )

    assert forecast_of(early, same).held is True
    assert forecast_of(early, higher).held is False
    assert "missed" in forecast_of(early, higher).words
    assert forecast_of(None, same) is None


def test_the_answer_names_who_leads_and_by_how_much(project, make_run, other):
    for run in (make_run(seed=1), make_run(seed=2), make_run(a=0.5, revision=other)):
        fitted(run)

    (group,) = leaderboard(project, published=False)
    first, ceiling, seeds = group["answer"]

    assert first.startswith("ScaleRL rev 1 leads: at 8.00 device-hours it comes to 0.5")
    assert "above GRPO rev 1 by 0." in first and "(95 % +0.0" in first
    assert ceiling.startswith("By forecast ceiling ")
    assert "from 1 recipe with several seeds here and" in seeds and "1 is compared by one seed" in seeds
    assert group["headline"] == first


def test_who_cannot_be_told_apart_is_said_so(project, make_run, other):
    for run in (make_run(), make_run(a=0.595, revision=other)):
        fitted(run)

    (group,) = leaderboard(project, published=False)

    assert group["answer"][0].startswith(
        "ScaleRL rev 1 and GRPO rev 1 cannot be told apart at 8.00 device-hours."
    )
    assert (
        group["answer"][-1] == "What would tell the first two apart soonest is another seed of ScaleRL rev 1."
    )


def test_a_single_recipe_has_nothing_to_be_compared_with(project, make_run):
    fitted(make_run(to=0.4))

    (group,) = leaderboard(project, published=False)

    (only,) = group["answer"]
    assert only.startswith("ScaleRL rev 1 is alone so far: 0.2")
    assert ", forecast ceiling not known yet (90 % 0." in only  # as its run's page says


def test_tied_recipes_are_refitted_at_their_shared_ceiling(
    project, make_run, other, django_assert_num_queries
):
    fast, slow = fitted(make_run(b=2.4)), fitted(make_run(a=0.595, b=1.6, revision=other))
    rows = rows_of(project)

    with django_assert_num_queries(1):
        (tie,) = efficiencies(rows)

    from scaling.compare import compare

    expected = compare(*(fit_curve(curve_of(run), Question()) for run in (fast, slow)))
    found = {row["name"]: row["B"] for row in tie["rows"]}
    assert tie["shared"] == pytest.approx(expected.shared_A)
    assert found == {
        "ScaleRL rev 1": pytest.approx(expected.B_a, rel=1e-6),
        "GRPO rev 1": pytest.approx(expected.B_b, rel=1e-6),
    }
    assert tie["sentence"] == (
        "ScaleRL rev 1 is more efficient than GRPO rev 1, by more than noise and seeds explain."
    )


def test_a_tied_recipe_whose_fit_crashes_is_named_and_has_no_b(project, make_run, other, monkeypatch):
    _, bad = fitted(make_run(b=2.4)), fitted(make_run(a=0.595, b=1.6, revision=other))
    rows = rows_of(project)
    crash_fits_of(monkeypatch, curve_of(bad).y)

    (tie,) = efficiencies(rows)

    assert [row["text"] == "–" for row in tie["rows"]] == [row["runs"] == [bad.pk] for row in rows]
    assert tie["crash_note"].startswith(f"Left out: run {bad.pk} of GRPO rev 1. Its fit crashed")
    assert tie["sentence"] == "There is no second recipe here that can be fitted at the shared ceiling."


def test_other_orders_keep_the_ranks(project, make_run, other):
    for run in (make_run(b=1.6), make_run(a=0.5, b=2.4, revision=other)):
        fitted(run)

    assert [(row["recipe"], row["rank"]) for row in in_order(rows_of(project), "b")] == [
        ("GRPO", 2),
        ("ScaleRL", 1),
    ]
    assert [row["rank"] for row in in_order(rows_of(project), "nonsense")] == [1, 2]


def test_tasks_and_models_filter(project, make_run):
    fitted(make_run())
    code = fitted(make_run(seed=1))
    tracked = [fitted(make_run(seed=seed)) for seed in (2, 3, 4)]
    Run.objects.filter(pk=code.pk).update(task="code")
    for name, run in zip(("mine", "mine", "yours"), tracked, strict=True):
        Run.objects.filter(pk=run.pk).update(task="code", revision=None, name=name)

    assert tasks_and_models(project) == {("code", "8b"): 3, ("math", "8b"): 1}
    Run.objects.filter(pk__in=[run.pk for run in tracked]).delete()
    (group,) = leaderboard(project, published=False, task="code")
    assert group["rows"][0]["runs"] == [code.pk]
    assert leaderboard(project, published=False, model="nothing") == []


def test_a_hundred_recipes_cost_the_queries_of_one(project, make_run, django_assert_max_num_queries):
    run = fitted(make_run())
    fit = Fit.objects.get(run=run)
    recipes = Recipe.objects.bulk_create(
        Recipe(project=project, slug=f"r{i}", name=f"R{i}") for i in range(99)
    )
    revisions = Revision.objects.bulk_create(
        Revision(recipe=recipe, number=1, config={}, content_hash="2" * 64) for recipe in recipes
    )
    copies = Run.objects.bulk_create(
        Run(project=project, revision=one, name="copy", task=run.task, model=run.model) for one in revisions
    )
    names = [f.attname for f in Fit._meta.concrete_fields if f.attname not in ("id", "run_id")]
    fields = {name: getattr(fit, name) for name in names}
    Fit.objects.bulk_create(Fit(run_id=copy.pk, **fields) for copy in copies)

    with django_assert_max_num_queries(8):
        (group,) = leaderboard(project, published=False, budget=4.0)

    assert len(group["rows"]) == 100
    assert {row["rank"] for row in group["rows"]} == {1}
