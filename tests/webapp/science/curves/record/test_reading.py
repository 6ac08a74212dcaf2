"""The tables of the record."""

import numpy as np
import pytest

from webapp.record.runs.editing import delete_run, restore_run
from webapp.record.runs.models import Run
from webapp.science.curves.record.keeping import choices_of
from webapp.science.curves.record.reading import Judged, StoredForecast, recalibrated, record
from webapp.science.curves.record.recalibrating import Record, record_of


def rows(found, name="methods"):
    return {row.method: row for row in (found.methods if name == "methods" else found.by[name])}


def test_errors_coverage_and_scores_are_those_of_the_rows(judged, project):
    judged(0.5)
    judged(2.0)

    found = record(project)

    row = rows(found)["forecast"]
    assert (found.runs, found.forecasts, row.n, row.runs, row.without) == (2, 8, 8, 2, 0)
    assert row.bias == pytest.approx((0.015 + 0.06) / 2)
    assert row.rmse == pytest.approx(((0.015**2 + 0.06**2) / 2) ** 0.5)
    assert (row.inside, row.n_intervals, row.observed) == (4, 8, 0.5)
    assert row.lo < 0.5 < row.hi
    assert row.score == pytest.approx(0.06 + (0.0 + 20 * 0.03) / 2)
    assert rows(found)["last"].bias == pytest.approx(row.bias + 0.1)
    assert (rows(found)["eq1"].n, rows(found)["eq1"].without) == (0, 8)
    assert "recalibrated" not in rows(found)


def test_reliability_is_by_nominal_level(judged, project):
    judged(0.5)

    levels = {one.level: (one.inside, one.n, one.recalibrated_inside) for one in record(project).levels}

    assert levels == {0.5: (0, 4, None), 0.8: (4, 4, None), 0.9: (4, 4, None)}


def test_after_twenty_runs_the_recalibrated_intervals_hold(judged, project):
    for place in range(20):
        judged(0.5 + 0.1 * place)

    found = record(project)

    assert rows(found)["recalibrated"].observed >= 0.9 > rows(found)["forecast"].observed
    assert rows(found)["recalibrated"].rmse == rows(found)["forecast"].rmse
    assert found.factors["0.9"] == pytest.approx(2.3)
    assert {one.level: one.recalibrated_inside for one in found.levels}[0.9] == rows(found)[
        "recalibrated"
    ].inside


def test_groups_are_by_share_task_and_recipe(judged, project, revision):
    judged(0.5, task="math")
    judged(2.0, task="code", cuts=(0.26, 0.74))

    found = record(project)

    share = [(row.key, row.n) for row in found.by["share"] if row.method == "forecast"]
    assert share == [("0.25", 2), ("0.375", 1), ("0.5", 1), ("0.75", 2)]
    assert [(row.key, row.n) for row in found.by["task"] if row.method == "forecast"] == [
        ("code", 2),
        ("math", 4),
    ]
    assert {row.key for row in found.by["recipe"]} == {"scalerl"}
    assert record(project, task="code").forecasts == 2
    assert record(project, recipe="scalerl").forecasts == 6
    assert record(project, recipe="none").forecasts == 0


def test_an_empty_project_has_an_empty_record(project):
    found = record(project)

    assert (found.runs, found.forecasts, found.methods, found.waiting) == (0, 0, (), 0)


def test_a_deleted_run_does_not_count_until_it_is_restored(judged, project):
    judged(0.5, task="math")
    gone = judged(2.0, task="code")
    Run.objects.filter(pk=gone.pk).update(origin=Run.Origin.TRACKED)
    gone.refresh_from_db()
    assert record_of(project).n_runs == 2

    delete_run(gone, user=None)

    assert (record(project).runs, record_of(project).n_runs, choices_of(project)[0]) == (1, 1, ["math"])

    restore_run(gone, user=None)

    assert (record(project).runs, record_of(project).n_runs) == (2, 2)


def test_recalibrated_intervals_end_at_what_was_reached():
    levels = {"0.5": (0.49, 0.51), "0.8": (0.48, 0.52), "0.9": (0.47, 0.53)}
    said = StoredForecast(0.5, levels, {"0.9": 0.465})
    one = Judged("r", "math", "scalerl", 0.5, 0.52, False, {"forecast": said})
    ratios = {level: np.full(30, 2.0) for level in levels}

    found = recalibrated(one, Record(np.arange(30).astype(str), ratios)).by["recalibrated"]

    assert found.levels["0.9"] == pytest.approx((0.465, 0.56))
    assert found.levels["0.8"] == pytest.approx((0.46, 0.54))  # not kept for this level: as wide as asked for
