"""Recipes with their seeds side by side: every number is one of `scaling`'s."""

import json
import re

import numpy as np
import pytest

import scaling
from scaling import curve, seeds
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.runs.models import Attempt, Point, Run
from webapp.science.curves import estimates, services
from webapp.science.curves.comparison import odds
from webapp.science.curves.comparison.compare import comparison, entries_of
from webapp.science.curves.comparison.entries import choose, with_fits
from webapp.science.curves.fitting import Question, curve_of, curves_of, fit_curve, thinned_curves
from webapp.science.curves.models import ReferenceFit
from webapp.science.curves.ranking.variation import forecast_now


@pytest.fixture
def other(project):
    recipe = Recipe.objects.create(project=project, slug="grpo", name="GRPO")
    return Revision.objects.create(recipe=recipe, number=1, config={}, content_hash="1" * 64)


def chosen(*runs):
    """The runs as a page reads them."""
    found = Run.objects.select_related("revision__recipe").in_bulk([run.pk for run in runs])
    return [found[run.pk] for run in runs]


def fits_of(runs):
    return [fit_curve(curve_of(run), Question()) for run in runs]


def test_a_recipe_has_the_parameters_of_the_joint_estimate(make_run):
    runs = chosen(*(make_run(seed=seed) for seed in (1, 2, 3)))

    payload = comparison(runs, [], by="recipe")

    joint = seeds.joint(fits_of(runs))
    (row,) = payload["table"]
    assert row["kind"] == "recipe"
    for cell in row["rows"]:
        pooled = joint.parameters[cell["name"]]
        assert (cell["value"], cell["lo"], cell["hi"]) == pytest.approx((pooled.value, pooled.lo, pooled.hi))
    a = joint.parameters["A"]
    assert (row["ceiling"]["value"], row["ceiling"]["lo"], row["ceiling"]["hi"]) == pytest.approx(
        (a.value, a.lo, a.hi)
    )
    assert row["said"] == joint.message


def test_a_recipe_is_drawn_as_it_is_compared(make_run):
    """At any budget the drawn curve and its band are the numbers of the table."""
    runs = chosen(*(make_run(seed=seed) for seed in (1, 2)))

    (series,) = comparison(runs, [], by="recipe")["series"]

    (entry,) = entries_of(runs, [], by="recipe")
    drawn = series["fit"]
    assert drawn["solid_until"] == entry.reach[1] < drawn["x"][-1]
    for at in (0, 40, 79):
        (row,) = odds.at_budget([entry], drawn["x"][at], "device_hours")["rows"]
        told = [row[name] for name in ("value", "lo", "hi")]
        assert [drawn[name][at] for name in ("y", "lo", "hi")] == pytest.approx(told, rel=1e-4)
    assert len(series["points"]["x"]) == 80
    assert series["points"]["runs"] == ["seed 1", "seed 2"]


def test_one_run_of_a_recipe_is_a_single_run_and_mixing_is_said(make_run, other):
    runs = chosen(make_run(seed=1), make_run(seed=2), make_run(a=0.5, revision=other, name="alone"))

    payload = comparison(runs, [], by="recipe")

    assert [series["kind"] for series in payload["series"]] == ["recipe", "run"]
    assert payload["mixed"]
    assert any("single run" in note for note in payload["notes"])
    assert not comparison(runs, [], by="run")["mixed"]


def test_a_recipe_on_two_tasks_is_two(make_run):
    runs = [make_run(seed=seed) for seed in range(4)]
    Run.objects.filter(pk__in=[run.pk for run in runs[:2]]).update(task="code")

    payload = comparison(chosen(*runs), [], by="recipe")

    assert sorted(series["label"] for series in payload["series"]) == [
        "ScaleRL rev 1 on code, 8b", "ScaleRL rev 1 on math, 8b",
    ]  # fmt: skip
    assert "not rivals" in payload["sentences"][0]
    assert all(row["rank"] == 1 and not row["tied"] for row in payload["table"])


def test_ranks_in_the_table_count_who_is_really_better(make_run):
    runs = chosen(*(make_run(a=a, seed=i, name=f"r{i}") for i, a in enumerate((0.6, 0.59, 0.5, 0.61))))

    table = comparison(runs, [])["table"]

    assert [(row["label"][:2], row["rank"], row["tied"]) for row in table] == [
        ("r3", 1, True), ("r0", 1, True), ("r1", 1, True), ("r2", 4, False),
    ]  # fmt: skip
    assert table[0]["forecast_lo"] < table[0]["forecast"]


def test_of_more_than_three_the_leader_is_told(make_run):
    runs = chosen(*(make_run(a=0.75 - 0.08 * i, seed=i, name=f"r{i}") for i in range(4)))

    said = comparison(runs, [])["sentences"]

    assert said[0].startswith("r0, seed 0 leads: at 8.00 device-hours it comes to 0.7")
    assert "above r1, seed 1 by 0.0" in said[0]


def test_those_below_a_tie_are_counted(make_run):
    runs = chosen(*(make_run(a=a, seed=i, name=f"r{i}") for i, a in enumerate((0.7, 0.7, 0.7, 0.5))))

    said = comparison(runs, [])["sentences"]

    assert "cannot be told apart at 8.00 device-hours; 1 other lies below." in said[0]


def test_slopes_are_those_of_the_paper(make_run):
    run = make_run()
    fit = fits_of([run])[0]

    (series,) = comparison([run], [], view="slope")["series"]

    p = fit.params
    law = {"r0": p["R0"], "a": p["A"], "b": p["B"], "c_mid": p["C_mid"]}
    points = curve_of(run)
    _, log_f = curve.slope_view(points.x, points.y, **law)
    shown = log_f[np.isfinite(log_f)] / np.log(10)
    assert series["points"]["y"] == pytest.approx(shown)
    assert series["left_out"] == 40 - len(shown)
    line = np.polyfit(np.log10(series["fit"]["x"]), series["fit"]["y"], 1)
    assert line == pytest.approx([p["B"], 0.0], abs=1e-3)


@pytest.mark.parametrize("x", ["flops", "tokens"])
def test_any_axis_gives_the_same_ceiling(make_run, x):
    run = make_run()

    here, there = (
        comparison([run], [], x=axis)["table"][0]["ceiling"]["value"] for axis in ("device_hours", x)
    )

    assert here == pytest.approx(there, abs=1e-4)


def test_one_query_reads_what_each_run_alone_would(make_run, django_assert_num_queries):
    runs = [make_run(seed=seed) for seed in range(3)]
    alone = {run.pk: curve_of(run) for run in runs}

    with django_assert_num_queries(1):
        together = curves_of(alone)

    for pk, one in alone.items():
        for name in ("x", "y", "se", "step", "hours"):
            np.testing.assert_array_equal(getattr(together[pk], name), getattr(one, name))
        assert together[pk].start == one.start


def test_superseded_points_stay_out_of_both(make_run):
    run = make_run()
    Attempt.objects.create(
        run=run, number=2, submission_id="a2", resumed_from_step=200, started_at="2026-01-02T00:00:00Z"
    )

    assert len(curves_of([run.pk])[run.pk].x) == len(curve_of(run).x) == 20
    assert thinned_curves([run.pk])[run.pk].total == 20


def test_thinned_points_never_move(make_run):
    run = make_run(n=200)
    shown: list[set] = []
    for last in (60, 100, 130, 200):
        hidden = Point.objects.filter(series__run=run, step__gt=10 * last)
        hidden.update(device_hours=None)
        kept = thinned_curves([run.pk])[run.pk]
        assert len(kept.x) <= 33
        shown.append(set(kept.x[:-1]))
        run = make_run(n=200)
    everything = set(curve_of(run).x)
    assert all(one <= everything for one in shown)
    assert shown[3] <= shown[2] | {x for x in everything if x > max(shown[2])}


def test_at_a_budget_the_forecasts_are_compared(make_run):
    run, rival = make_run(), make_run(a=0.5, seed=1, name="rival")

    payload = odds.at_budget(entries_of([run, rival], []), 5.0, "device_hours")

    first, second = payload["rows"]
    stored = forecast_now(fits_of([run])[0])
    assert first["value"] == pytest.approx(float(stored.at(np.array([5.0]))[0][0]))
    assert first["lo"] < float(stored.at(np.array([5.0]))[1][0])  # seeds are in it
    assert first["chance"] > 0.95 and first["chance"] + second["chance"] == pytest.approx(1.0)
    assert payload["sentence"].startswith("ScaleRL, seed 0 leads: at 5.00 device-hours")


def test_a_recipe_competes_with_its_mean(make_run, other):
    runs = chosen(make_run(seed=1), make_run(seed=2), make_run(a=0.5, revision=other, name="alone"))
    entries = entries_of(runs, [], by="recipe")

    payload = odds.at_budget(entries, 4.0, "device_hours")

    each = [float(forecast_now(fit).at(np.array([4.0]))[0][0]) for fit in fits_of(runs[:2])]
    assert min(each) <= payload["rows"][0]["value"] <= max(each)
    assert payload["rows"][0]["chance"] > 0.95


def test_the_slider_reaches_ten_times_the_last_compute(make_run):
    stops = odds.budget_stops(entries_of([make_run()], []))

    assert stops == sorted(stops)
    assert (stops[0], stops[-1]) == (0.1, 80.0)
    assert odds.budget_stops([]) == [] and odds.default_budget([]) is None


def test_forecasts_cross_where_the_curves_do(make_run):
    slow, fast = make_run(name="slow"), make_run(a=0.5, seed=1, name="fast")
    for point in Point.objects.filter(series__run=slow):  # three times the compute for everything
        Point.objects.filter(pk=point.pk).update(device_hours=3 * point.device_hours)
    entries = entries_of([slow, fast], [])

    found = odds.crossings(entries, "device_hours")

    at = np.geomspace(1.0, 100.0, 10_001)
    late, early = (fit.predict(at) for fit in fits_of([slow, fast]))
    (mark,) = found["marks"]
    assert mark["x"] == pytest.approx(at[np.flatnonzero(late > early)[0]], rel=0.2)
    assert mark["lo"] < mark["x"] and (mark["hi"] is None or mark["hi"] > mark["x"])
    said = r"The forecasts of slow, seed 0 and fast, seed 1 cross at [\d.]+ h; their order is open from [\d.]+ h "
    assert re.match(said, found["sentences"][0])


def test_a_recipe_is_chosen_by_its_revision(project, make_run, other):
    runs = [make_run(seed=seed) for seed in (2, 1)]
    make_run(revision=other)
    choice = choose(project, recipes=["scalerl@1", "scalerl@7"], runs=["nosuch"], references=["scalerl", "x"])

    assert [run.pk for run in choice.runs] == [run.pk for run in reversed(runs)]  # by seed
    assert choice.missing == ["nosuch", "scalerl@7", "x"]
    assert [one.slug for one in choice.references] == ["scalerl"]


def test_every_view_is_json(make_run, other):
    runs = chosen(make_run(seed=1), make_run(seed=2), make_run(to=0.4, revision=other), make_run(n=2, seed=4))
    references = list(ReferenceFit.objects.all()[:2])

    for view in ("rate", "share", "slope"):
        for by in ("run", "recipe"):
            json.dumps(comparison(runs, references, view=view, by=by), allow_nan=False)
    assert scaling.MIN_POINTS == 5


def test_many_are_pooled_side_by_side_as_each_alone(make_run, other):
    runs = [make_run(seed=seed, revision=revision) for seed in range(2) for revision in (other, None)]
    for run in runs:
        services.refit(run.pk)
    few = entries_of(chosen(*runs), [], by="recipe")
    fits = {pk: stored.fit for pk, stored in estimates.latest([run.pk for run in runs]).items()}
    many = [with_fits(entry, fits) for entry in few]

    for one, stored in zip(few, many, strict=True):
        assert stored.ceiling == {key: pytest.approx(value) if isinstance(value, float) else value
                                  for key, value in one.ceiling.items()}  # fmt: skip
        for name, said in one.parameters.items():
            assert stored.parameters[name] == pytest.approx(said)
        at = np.array([1.0, 5.0])
        assert stored.at(at).lo == pytest.approx(one.at(at).lo, abs=2e-4)
