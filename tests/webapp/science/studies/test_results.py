"""The numbers of a study are those of `scaling`; the words say no more than they support."""

import math
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import scaling
from scaling import compare, seeds
from tests.webapp.crashing import crash_fits_of
from tests.webapp.interfaces.pages.data import stretch_times
from webapp.record.runs import lifecycle
from webapp.record.runs.models import Run
from webapp.science.curves.fitting import Question, curve_of, fit_curve
from webapp.science.curves.ranking.variation import seeds_of_tasks
from webapp.science.studies import selectors
from webapp.science.studies.models import Study
from webapp.science.studies.results import (
    CSV_COLUMNS,
    csv_rows,
    hours_left,
    progress_sentence,
    results,
    stored_headline,
)


def shown(study, **kwargs):
    return results(study, selectors.groups_of(study), **kwargs)


def fits_of(study, position):
    runs = [p.run for p in study.members.filter(arm__position=position).order_by("run__seed")]
    return [fit_curve(curve_of(run), Question()) for run in runs]


def ceiling(fits):
    return compare.recipe_ceiling([(fit.params["A"], *fit.interval("A")) for fit in fits], 0.9)


def test_ceilings_and_effects_are_those_of_scaling(finished):
    base, dapo, fp32 = shown(finished)["rows"]

    a, lo, hi = ceiling(fits_of(finished, 1))
    assert (dapo["ceiling"]["value"], dapo["ceiling"]["lo"], dapo["ceiling"]["hi"]) == (a, lo, hi)
    assert dapo["effect"]["delta"] == pytest.approx(dapo["at_budget"] - base["at_budget"])
    assert dapo["effect"]["lo"] < dapo["effect"]["delta"] < dapo["effect"]["hi"] < 0
    assert dapo["effect"]["sentence"].startswith("The base is better than DAPO loss at ")
    assert dapo["effect"]["kind"] == "lower"
    assert fp32["effect"]["kind"] == "tie"
    assert base["effect"] is None


def test_b_is_pooled_and_compute_to_90_percent_is_that_of_the_fit(finished):
    row = shown(finished)["rows"][0]

    pooled = seeds.joint(fits_of(finished, 0)).parameters["B"]
    assert (row["B"]["value"], row["B"]["lo"], row["B"]["hi"]) == (pooled.value, pooled.lo, pooled.hi)
    goals = [fit.params["R0"] + 0.9 * (fit.params["A"] - fit.params["R0"]) for fit in fits_of(finished, 0)]
    alone = [fit.compute_for(goal) for fit, goal in zip(fits_of(finished, 0), goals, strict=True)]
    assert min(alone) <= row["c90"]["value"] <= max(alone)
    assert row["c90"]["lo"] < row["c90"]["value"] < row["c90"]["hi"]


def test_with_one_seed_each_the_rule_is_that_of_the_paper(make_study, report):
    study = make_study(changes=("loss=dapo",), seeds=(0,))
    for place, a in zip(study.members.order_by("id"), (0.6, 0.605), strict=True):
        report(place.run, a=a)

    payload = shown(study)

    own, base = fits_of(study, 1)[0], fits_of(study, 0)[0]
    rule = compare.compare(own, base)
    assert rule.winner == "tie_ceiling"
    slopes = {row["position"]: row for row in payload["slopes"]["rows"]}
    assert payload["slopes"]["shared_A"] == pytest.approx(rule.shared_A)
    assert slopes[1]["B"] == pytest.approx(rule.B_a)
    assert slopes[0]["B"] == pytest.approx(rule.B_b)
    assert (slopes[1]["lo"], slopes[1]["hi"]) == pytest.approx(rule.B_a_interval)
    assert payload["rows"][1]["effect"]["kind"] == "tie"
    assert "which noise and seeds may be." in payload["rows"][1]["effect"]["sentence"]


def test_the_slopes_lie_on_lines_through_one_point_and_the_steepest_comes_first(finished):
    slopes = shown(finished)["slopes"]

    assert [row["B"] for row in slopes["rows"]] == sorted((r["B"] for r in slopes["rows"]), reverse=True)
    for row in slopes["rows"]:
        for x, y in zip(row["line"]["x"], row["line"]["y"], strict=True):
            assert math.log(y) == pytest.approx(row["B"] * math.log(x), abs=1e-9)
    assert [item["label"] for item in slopes["left_out"]] == ["DAPO loss"]
    assert "below the base" in slopes["left_out"][0]["reason"]


def test_before_anything_reports_nothing_is_claimed(make_study):
    payload = shown(make_study())

    assert payload["headline"] == "Nothing can be told apart yet."
    assert [row["ceiling"] for row in payload["rows"]] == [None] * 3
    assert payload["slopes"]["rows"] == []
    assert all("no fit yet" in said["sentence"] for said in payload["sentences"])


def test_what_is_not_identified_is_said_and_has_no_value(make_study, report):
    study = make_study(changes=("loss=dapo",), seeds=(0,))
    for place in study.members.all():
        report(place.run, 8, to=0.5)

    payload = shown(study)

    assert [row["ceiling"]["identified"] for row in payload["rows"]] == [False, False]
    assert payload["rows"][1]["B"] is None
    assert payload["rows"][1]["c90"] is None
    assert "cannot be told apart" in payload["sentences"][0]["sentence"]
    assert payload["overlay"][0]["curve"]["x"][-1] == pytest.approx(0.5)  # nothing is drawn beyond the points


def test_who_has_no_place_among_the_slopes_is_told_whose_ceiling_is_missing(make_study, report):
    study = make_study(changes=("loss=dapo",), seeds=(0,))
    for place, curve in zip(study.members.order_by("id"), ({"n": 8, "to": 0.5}, {"n": 24}), strict=True):
        report(place.run, **curve)

    left_out = shown(study)["slopes"]["left_out"]

    assert [item["reason"] for item in left_out] == [
        "ceiling not identified",
        "the base's ceiling is not identified",
    ]


def test_a_seed_that_is_not_identified_opens_the_upper_end(make_study, report):
    study = make_study(changes=("loss=dapo",), seeds=(0, 1))
    for place in study.members.select_related("run"):
        report(place.run, **({"n": 8, "to": 0.5} if place.run.seed else {"n": 24}))

    row = shown(study)["rows"][0]

    assert (row["identified"], row["fitted"]) == (1, 2)
    assert row["ceiling"]["hi"] is None
    assert "at least" in row["ceiling"]["interval_text"]


def test_an_axis_has_its_ceilings_against_its_values(make_study, report):
    study = make_study(kind="axis", changes=("batch=128", "batch=512"), seeds=(0,))
    for place, a in zip(study.members.order_by("id"), (0.6, 0.5, 0.7), strict=True):
        report(place.run, a=a)

    payload = shown(study)
    axis = payload["axis"]

    assert [point["x"] for point in axis["points"]] == [128.0, 256.0, 512.0]
    assert axis["log"]
    row, point = payload["rows"][2], axis["points"][2]["forecast"]
    assert point == {"value": row["forecast"], "lo": row["forecast_lo"], "hi": row["forecast_hi"]}
    assert axis["points"][2]["B"]["value"] == pytest.approx(fits_of(study, 2)[0].params["B"])
    assert "it is highest at 512 and lowest at 128" in axis["sentence"]


def test_several_axes_have_no_chart_of_one(finished):
    assert shown(finished)["axis"] is None


def test_another_mixture_is_no_rival(make_study, report):
    study = make_study(kind="axis", changes=("mixture=arithmetic:1",), seeds=(0,))
    for place in study.members.all():
        report(place.run)

    said = shown(study)["sentences"][0]

    assert said["kind"] == "other task"
    assert "no rivals" in said["sentence"]


def test_the_list_says_what_the_page_says_of_ceilings(finished):
    stored = selectors.stored_courses_of([finished])[finished.pk]

    said = stored_headline(stored, seeds_of_tasks(finished.project)["arithmetic"])
    assert said == "Of 2 changes, 1 is worse, 1 ties with the base in pass rate."
    assert shown(finished)["headline"].startswith("Of 2 changes, 1 is worse")


def test_queries_do_not_grow_with_runs(finished, make_study, report):
    small = make_study(changes=("loss=dapo",), seeds=(0,), name="small")
    for place in small.members.all():
        report(place.run, 8)

    def queries(study):
        shown(study)  # forecasts are read once, and then known
        with CaptureQueriesContext(connection) as captured:
            shown(Study.objects.get(pk=study.pk))
        return len(captured)

    assert queries(small) == queries(finished) + 1 <= 10  # one more for the time left of all that run


def test_csv_has_a_row_for_each_run(finished):
    rows = [dict(zip(CSV_COLUMNS, row, strict=True)) for row in csv_rows(shown(finished))]

    assert len(rows) == 6
    assert {row["variant"] for row in rows} == {"Base", "DAPO loss", "no FP32 head"}
    dapo = next(row for row in rows if row["variant"] == "DAPO loss")
    assert dapo["verdict"] == "worse"
    assert dapo["effect_lo"] < dapo["effect"] < dapo["effect_hi"] < 0
    assert dapo["B_shared"] is None  # at a ceiling that it does not share


def test_progress_counts_what_is_to_come(finished, make_study, project):
    done = selectors.study_by_id(project, finished.pk)
    waiting = selectors.study_by_id(project, make_study().pk)

    assert progress_sentence(selectors.progress_of(done)) == "6 of 6 runs done."
    assert progress_sentence(selectors.progress_of(waiting)) == "0 of 6 runs done, 6 waiting."
    assert not selectors.is_live(selectors.progress_of(done))


def test_a_run_that_starts_counts_neither_as_waiting_nor_as_running(make_study, project):
    study = make_study(changes=("loss=dapo", "head=bfloat16"), seeds=(0,))
    first, second, _ = (place.run for place in study.members.select_related("run").order_by("id"))
    lifecycle.report_started(first, attempt=1)
    Run.objects.filter(pk=second.pk).update(state="starting")

    progress = selectors.progress_of(selectors.study_by_id(project, study.pk))

    assert progress_sentence(progress) == "0 of 3 runs done, 1 running, 1 starting, 1 waiting."


def test_without_a_fit_it_says_what_is_missing(make_study, report):
    study = make_study(changes=("loss=dapo", "head=bfloat16"), seeds=(0,))
    _, dapo, head = study.members.select_related("run").order_by("id")
    report(dapo.run, 3, to=1.0)
    lifecycle.report_finished(head.run, attempt=1, state="failed")

    said = {item["label"]: (item["verdict"], item["sentence"]) for item in shown(study)["sentences"]}

    assert said == {
        "DAPO loss": ("to come", "DAPO loss: no fit yet (3 evaluations, a fit takes 5)."),
        "no FP32 head": ("no fit", "no FP32 head: no fit yet (no evaluation after the first update)."),
    }


def test_the_fits_are_those_of_the_runs_own_pages(finished):
    member = selectors.groups_of(finished)[0].members[0]

    assert isinstance(member.fit, scaling.Fit)
    assert member.fit.params == fit_curve(curve_of(member.run), Question()).params


def test_the_time_left_is_that_of_the_slowest_run(make_study, report):
    study = make_study(changes=("loss=dapo",), seeds=(0,))
    for place, to in zip(study.members.select_related("run"), (8.0, 4.0), strict=True):
        report(place.run, to=to)  # of 16 device-hours
    stretch_times(timedelta(hours=1), 24)

    assert hours_left(selectors.groups_of(study)) == pytest.approx(3.0)
    assert hours_left([]) is None


def test_a_fit_that_crashes_is_said_where_its_variant_stands(finished, monkeypatch):
    place = finished.members.filter(arm__position=1).order_by("run__seed").first()
    crash_fits_of(monkeypatch, curve_of(place.run).y)

    row = shown(finished)["rows"][1]

    assert f"Left out: seed {place.run.seed}. Its fit crashed" in row["note"]
    assert row["fitted"] == finished.members.filter(arm__position=1).count() - 1
