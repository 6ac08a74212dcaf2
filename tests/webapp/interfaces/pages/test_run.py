"""The run page, its figure endpoint, its tabs, stop and resume."""

import json
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.launching import tracked_run
from tests.webapp.interfaces.pages.data import curve_records, mixture_records, record
from webapp.record.health.services import note_cluster
from webapp.record.runs import ingest, lifecycle
from webapp.record.runs.models import Attempt, Run
from webapp.science.curves import services

HTMX = {"HX-Request": "true"}


def figure_in(page):
    """The payload that the page carries for its script."""
    text = re.search(r'<script id="figure" type="application/json">(.*?)</script>', page, re.S)[1]
    return json.loads(text)


def offered(page):
    """What the page offers to do with its run."""
    return {name for name, may in figure_in(page)["actions"].items() if may}


@pytest.mark.parametrize("n", [0, 1, 4, 30])
def test_the_page_stands_with_any_number_of_evaluations(ada, make_run, n):
    run = make_run(n)

    response = ada.get(f"/runs/{run.pk}")

    assert response.status_code == 200
    assert len(figure_in(response.content.decode())["points"]["x"]) == n


def test_the_page_says_the_ceiling_in_words_without_any_script(ada, make_run):
    run = make_run(30, a=0.6)

    page = ada.get(f"/runs/{run.pk}").content.decode()

    assert re.search(r'data-text="forecast_ceiling.text">0\.\d+<', page)
    assert re.search(r'data-text="forecast_ceiling.interval_text">90 % 0\.\d+ to 0\.\d+<', page)


def test_the_page_comes_as_its_script_would_leave_it(ada, make_run):
    """Nothing moves when the script begins: parameters, key of the view, controls of the window are there already."""
    page = ada.get(f"/runs/{make_run(30, a=0.6).pk}").content.decode()
    fit = figure_in(page)["fit"]

    table = re.search(r'id="parameters">(.*?)</table>', page, re.S)[1]
    assert [row["value_text"] for row in fit["rows"]] == re.findall(r'<td class="num">(.*?)</td>', table)
    assert re.search(r'data-text="fit_title">Eq. 1 fitted on [\d.]+ to [\d.]+ device-hours<', page)
    shown = dict(re.findall(r'data-views="([a-z ]+)"[^>]*?( hidden)?>', page))
    assert shown["curve gain"] == "" and shown["gain"] == shown["slope"] == " hidden"
    assert not re.search(r'id="window-controls"[^>]* hidden', page)
    assert re.search(r'id="chart-empty" hidden', page)


def test_a_run_that_waits_for_the_cluster_says_so_instead_of_standing_empty(ada, make_run):
    waiting = make_run(0)
    Run.objects.filter(pk=waiting.pk).update(config=waiting.config | {"resources": {"generator_cpus": 2}})
    note_cluster([{"id": "n", "alive": True, "gpus": 0, "cpus": 2}])
    lifecycle.claim_dispatches()

    page = ada.get(f"/runs/{waiting.pk}").content.decode()

    assert figure_in(page)["state_reason"] == "needs 3 CPU cores, the cluster has 2"


def test_a_run_without_an_evaluation_says_so_without_its_script(ada, make_run):
    page = ada.get(f"/runs/{make_run(0).pk}").content.decode()

    assert re.search(r'id="chart-empty">', page)
    assert re.search(r'class="chart" id="chart"[^>]* hidden>', page)
    assert re.search(r'id="window-controls" hidden', page)
    assert re.search(r'data-text="fit_title">Eq. 1<', page)


def test_too_few_evaluations_are_no_ceiling(ada, make_run):
    page = ada.get(f"/runs/{make_run(3).pk}").content.decode()

    assert "no forecast yet" in page
    assert 'class="dot"' not in page


@pytest.mark.parametrize("path", ["", "/figure", "?tab=log"])
def test_runs_of_others_do_not_exist(ada, foreign_run, path):
    assert ada.get(f"/runs/{foreign_run.pk}{path}").status_code == 404


@pytest.mark.parametrize("action", ["stop", "resume", "extend", "priority", "launch", "delete"])
def test_runs_of_others_cannot_be_changed(ada, foreign_run, action):
    state = foreign_run.state

    assert ada.post(f"/runs/{foreign_run.pk}/{action}").status_code == 404
    foreign_run.refresh_from_db()
    assert foreign_run.state == state


def test_the_figure_answers_the_question_in_the_query(ada, make_run):
    run = make_run(30)

    payload = ada.get(f"/runs/{run.pk}/figure", {"x": "tokens", "cutoff": "4e6", "lo": "1e6"}).json()

    assert payload["x"]["key"] == "tokens"
    assert payload["fit"]["cutoff"] == 4e6
    assert set(payload["points"]["role"]) == {"excluded", "fitted", "after"}
    assert payload["after"]["n"] == payload["points"]["role"].count("after")
    assert payload["ceiling_svg"].startswith("<svg")


def test_a_mixture_offers_its_curves_and_keeps_the_choice(ada, make_run):
    run = make_run(30)
    assert 'id="curve-choice" hidden' in ada.get(f"/runs/{run.pk}").content.decode()

    ingest.store_records(run, mixture_records(31, 60))
    query = {"metric": "eval/math/pass_rate", "x": "tokens", "cutoff": "2.5e7"}
    page = ada.get(f"/runs/{run.pk}", query).content.decode()
    figure = figure_in(page)

    assert 'id="curve-choice">' in page
    assert '<option value="eval/math/pass_rate" selected>math</option>' in page
    assert (figure["metric"], figure["x"]["key"], figure["fit"]["cutoff"]) == (
        "eval/math/pass_rate",
        "tokens",
        2.5e7,
    )
    assert figure["metric_label"] == "Held-out pass rate on math, mean@2"
    assert ada.get(f"/runs/{run.pk}").content.decode().count("selected>all parts</option>") == 1


def test_nothing_new_is_204_until_a_record_arrives(ada, make_run):
    run = make_run(10)
    since = ada.get(f"/runs/{run.pk}/figure").json()["version"]

    assert ada.get(f"/runs/{run.pk}/figure", {"since": since}).status_code == 204

    ingest.store_records(run, [record(11, 9.0, {"eval/pass_rate": 0.59})])
    newer = ada.get(f"/runs/{run.pk}/figure", {"since": since})
    assert newer.status_code == 200
    assert newer.json()["points"]["y"][-1] == 0.59


def test_points_and_fit_come_one_after_the_other_and_say_so(ada, make_run):
    run = make_run(10)
    since = ada.get(f"/runs/{run.pk}/figure").json()["version"]
    ingest.store_records(run, [record(11, 9.0, {"eval/pass_rate": 0.59})])

    first = ada.get(f"/runs/{run.pk}/figure", {"since": since}).json()
    page = ada.get(f"/runs/{run.pk}").content.decode()
    services.refit(run.pk)
    second = ada.get(f"/runs/{run.pk}/figure").json()

    assert (first["waiting"], first["version"], first["fit"]["n"]) == (1, None, 10)
    assert "1 newer evaluation is not in it yet" in page
    assert (second["waiting"], second["fit"]["n"]) == (0, 11)
    assert second["version"] == Run.objects.get(pk=run.pk).version


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("x", "hours"),
        ("metric", "train/reward"),
        ("metric", "eval/\0/pass_rate"),
        ("cutoff", "soon"),
        ("cutoff", "-1"),
        ("cutoff", "nan"),
        ("lo", "inf"),
    ],
)
def test_a_bad_question_names_its_parameter(ada, make_run, field, value):
    run = make_run(6)

    response = ada.get(f"/runs/{run.pk}/figure", {field: value})

    assert response.status_code == 400
    assert response.json()["error"]["field"] == field
    assert ada.get(f"/runs/{run.pk}", {field: value}).status_code == 200


def test_stopping_a_queued_run_cancels_it(ada, make_run):
    run = make_run(0)

    response = ada.post(f"/runs/{run.pk}/stop")

    assert response.url == f"/runs/{run.pk}"
    run.refresh_from_db()
    assert run.state == "cancelled"
    assert ada.get(f"/runs/{run.pk}/stop").status_code == 405


def test_a_failed_run_says_why_and_can_be_resumed(ada, make_run):
    run = make_run(10, ended="failed", message="the verifier did not answer for 30 s")

    page = ada.get(f"/runs/{run.pk}").content.decode()
    assert "the verifier did not answer for 30 s" in page
    assert offered(page) == {"resume", "extend"}

    ada.post(f"/runs/{run.pk}/resume")
    run.refresh_from_db()
    assert (run.state, run.attempt_number) == ("queued", 2)


def test_what_cannot_be_done_any_more_is_said(ada, make_run):
    run = make_run(10)

    page = ada.post(f"/runs/{run.pk}/resume", follow=True).content.decode()

    assert 'class="note warning"' in page
    assert Run.objects.get(pk=run.pk).attempt_number == 1


def test_a_run_that_trains_elsewhere_is_not_ours_to_stop(ada, user, project):
    run = tracked_run(user=user, project=project, name="elsewhere", task="math", model="8b")

    page = ada.get(f"/runs/{run.pk}").content.decode()

    assert offered(page) == set()
    assert (
        "This run was reported without a configuration"
        in ada.get(f"/runs/{run.pk}?tab=configuration").content.decode()
    )


@pytest.mark.parametrize("tab", ["diagnostics", "log", "configuration", "attempts", "no-such-tab"])
def test_a_tab_is_a_fragment_for_htmx_and_a_page_for_others(ada, make_run, tab):
    run = make_run(10)

    fragment = ada.get(f"/runs/{run.pk}", {"tab": tab}, headers=HTMX).content.decode()
    page = ada.get(f"/runs/{run.pk}", {"tab": tab}).content.decode()

    assert "<html" not in fragment
    panel = re.search(r'<div id="panel" data-tab="(\w+)"', fragment)[1]
    assert panel == ("diagnostics" if tab == "no-such-tab" else tab)
    assert f'<div id="panel" data-tab="{panel}"' in page


def test_the_log_is_escaped_and_ends_with_the_newest_line(ada, make_run):
    run = make_run(0)
    Attempt.objects.filter(run=run).update(log_tail="step 1\n<script>alert(1)</script>\nstep 2")

    page = ada.get(f"/runs/{run.pk}?tab=log", headers=HTMX).content.decode()

    assert "&lt;script&gt;alert(1)&lt;/script&gt;\n</span>" in page
    assert page.index("alert(1)") < page.index("step 2\n</span>") < page.index("</pre>")


def test_the_number_of_queries_does_not_grow_with_the_points(ada, make_run):
    run = make_run(10)

    def queries(path):
        with CaptureQueriesContext(connection) as captured:
            assert ada.get(path).status_code == 200
        return len(captured)

    before = queries(f"/runs/{run.pk}"), queries(f"/runs/{run.pk}/figure")
    ingest.store_records(run, curve_records(60, first=11, to=48))

    assert (queries(f"/runs/{run.pk}"), queries(f"/runs/{run.pk}/figure")) == before
    assert before[0] <= 16
    # session, user, project, run, points, names of curves, what is kept, recalibration, alarms, policies
    assert before[1] <= 10


@pytest.mark.parametrize(
    ("rates", "reason"),
    [([0.3] * 12, "Every reward is the same"), ([0.2, 1.4] * 6, "is not between 0 and 1")],
)
def test_a_run_without_a_fit_is_not_said_to_have_too_few_evaluations(ada, make_run, rates, reason):
    run = make_run(0)
    ingest.store_records(run, [record(i, i / 2, {"eval/pass_rate": rate}) for i, rate in enumerate(rates)])

    page = ada.get(f"/runs/{run.pk}").content.decode()

    assert "No curve of Eq. 1 is fitted." in page
    assert reason in page
    assert "too few evaluations" not in page
