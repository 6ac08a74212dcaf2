"""The panels of a run's diagnostics: what its alarms say of each metric, and what is drawn whatever the stride."""

import pytest
from django.http import QueryDict

from tests.webapp.interfaces.pages.data import record
from webapp.interfaces.pages.run.diagnostics import TITLES, diagnostics_payload
from webapp.record.runs import ingest
from webapp.record.runs.models import Point
from webapp.reporting.alarms.selectors import alarms_of
from webapp.reporting.alarms.services import judge_run


def report(run, name, values, first=0):
    ingest.store_records(
        run, [record(first + i, 0.01 * (first + i), {name: value}) for i, value in enumerate(values)]
    )


def panels(run, query=""):
    judge_run(run.pk)
    return {
        one["metric"]: one for one in diagnostics_payload(run, alarms_of(run), QueryDict(query))["panels"]
    }


def test_the_known_metrics_come_first_and_any_may_be_asked_for(make_run):
    run = make_run(0)
    ingest.store_records(run, [record(i, i, {"my/metric": 1.0, "train/kl": 0.1}) for i in range(2)])

    assert [(name, one["title"]) for name, one in panels(run).items()] == [("train/kl", TITLES["train/kl"])]
    assert [one["title"] for one in panels(run, "panels-m=my/metric").values()] == [None]
    assert panels(run, "panels-m=train/kl&panels-x=my/metric")["train/kl"]["lines"][0]["x"] == [1, 1]


def test_a_run_that_reported_nothing_has_none_and_one_with_its_own_metrics_has_those(make_run):
    run = make_run(0)
    assert panels(run) == {}
    report(run, "my/metric", [1.0])
    assert list(panels(run)) == ["my/metric"]


def test_a_metric_that_lost_all_its_points_has_no_panel(make_run):
    run = make_run(0)
    ingest.store_records(run, [record(0, 0.0, {"train/kl": 0.1, "train/entropy": 1.0})])
    Point.objects.filter(series__run=run, series__metric="train/entropy").delete()

    assert list(panels(run)) == ["train/kl"]


def test_the_newest_point_is_drawn_and_more_data_never_moves_one(make_run):
    run = make_run(0)
    report(run, "train/entropy", [1 / (i + 1) for i in range(900)])
    before = panels(run)["train/entropy"]["lines"][0]
    report(run, "train/entropy", [1 / (i + 1) for i in range(900, 4999)], first=900)
    after = panels(run)["train/entropy"]["lines"][0]

    old = dict(zip(before["x"], before["y"], strict=True))
    new = dict(zip(after["x"], after["y"], strict=True))
    assert all(old[step] == pytest.approx(value, abs=1e-4) for step, value in new.items() if step in old)
    assert (before["x"][-1], after["x"][-1]) == (899, 4998)
    part = panels(run, "panels-lo=100&panels-hi=200")["train/entropy"]["lines"][0]
    assert part["x"] == list(range(99, 202))


def test_no_stride_hides_an_alarm(make_run):
    values = [0.02] * 5000
    values[501:504] = [0.13, 0.14, 0.13]  # between two steps that are drawn
    run = make_run(0)
    report(run, "train/truncation_rate", values)

    panel = panels(run)["train/truncation_rate"]

    line = panel["lines"][0]
    assert (502, 0.14) in zip(line["x"], line["y"], strict=True) and 501 not in line["x"]
    assert list(line["x"]) == sorted(line["x"])
    assert panel["marks"] == [(502, 0.14)] and panel["note"] == "Alarmed until step 503."
    assert "data-alarm" not in panel["said_html"]
    assert panels(run, "panels-x=tokens")["train/truncation_rate"]["marks"] == []


def test_the_worst_active_alarm_marks_the_panel(make_run):
    run = make_run(0)
    report(run, "train/truncation_rate", [0.02, 0.2, 0.2, 0.2])

    panel = panels(run)["train/truncation_rate"]

    assert 'pill critical" data-alarm="train/truncation_rate"' in panel["said_html"]
    assert [limit["text"] for limit in panel["limits"]] == ["warning from 10 %", "critical from 15 %"]
    assert panel["label"] == "Truncation rate, latest 20 %; critical; warning,"
    assert panel["id"] == "metric-train-truncation_rate"


def test_a_rate_shows_its_first_limit_and_others_only_what_they_come_near(make_run):
    run = make_run(0)
    values = {"train/truncation_rate": 0.01, "train/ratio_max": 3.0, "train/kl": 0.15}
    ingest.store_records(run, [record(i, 0.01 * i, values) for i in range(3)])

    limits = {name: [limit["value"] for limit in panel["limits"]] for name, panel in panels(run).items()}

    assert limits == {"train/truncation_rate": [0.10], "train/ratio_max": [], "train/kl": [0.2]}


def test_a_panel_whose_newest_value_was_not_finite_says_so(make_run):
    run = make_run(0)
    report(run, "train/grad_norm", [0.5, 0.6, None])

    panel = panels(run)["train/grad_norm"]

    assert "critical not finite" in panel["said_html"] and panel["lines"][0]["y"] == [0.5, 0.6, None]


def test_shares_are_shown_in_percent(make_run):
    run = make_run(0)
    ingest.store_records(
        run, [record(i, 0.1 * i, {"perf/trainer_idle": 0.25, "train/entropy": 0.25}) for i in (0, 1)]
    )

    found = list(panels(run).values())
    assert [panel["in_percent"] for panel in found] == [False, True]  # its axis, too
    said = [panel["said_html"] for panel in found]
    assert ["0.25</span>" in said[0], "25 %</span>" in said[1]] == [True, True]
