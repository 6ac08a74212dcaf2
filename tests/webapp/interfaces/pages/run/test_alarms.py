"""Alarms on the run page and in the list of runs."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.webapp.interfaces.pages.data import record
from webapp.record.runs import ingest
from webapp.record.runs.models import Run
from webapp.reporting.alarms import services

HTMX = {"HX-Request": "true"}


@pytest.fixture
def report():
    """report(run, [0.12, 0.13], first=31): truncation rates of consecutive steps, judged."""

    def make(run, values, *, first=31, metric="train/truncation_rate"):
        records = [record(first + i, 8.0 + 0.1 * i, {metric: value}) for i, value in enumerate(values)]
        ingest.store_records(run, records)
        services.judge_run(run.pk)

    return make


def test_a_quiet_run_shows_nothing(ada, make_run):
    run = make_run(30)
    services.judge_run(run.pk)

    page = ada.get(f"/runs/{run.pk}").content.decode()

    assert 'class="alarm-item' not in page
    assert "past alarm" not in page
    assert "data-alarm=" not in page
    assert "alarm-count" not in ada.get("/runs").content.decode()


def test_an_active_alarm_says_what_since_when_and_where_to_look(ada, make_run, report):
    run = make_run(30)
    report(run, [0.12, 0.13, 0.12])

    page = ada.get(f"/runs/{run.pk}").content.decode()

    assert "<strong>Warning</strong> Truncation rate is at or above 10 % since step 31, now 12 %." in page
    assert 'data-panel="metric-train-truncation_rate"' in page
    drawn = {one["metric"]: one for one in ada.get(f"/runs/{run.pk}/panels").json()["panels"]}
    assert drawn["train/truncation_rate"]["id"] == "metric-train-truncation_rate"
    assert 'data-alarm="train/truncation_rate"' in drawn["train/truncation_rate"]["said_html"]
    assert ">truncation rate 12 %</span>" in page


def test_the_figure_brings_the_banner_to_an_open_page(ada, make_run, report):
    run = make_run(30)
    since = ada.get(f"/runs/{run.pk}/figure").json()
    assert (since["alarms_html"], since["alarm"]) == ("", "")

    report(run, [0.2, 0.2, 0.2])
    payload = ada.get(f"/runs/{run.pk}/figure", {"since": since["version"]}).json()

    assert 'class="alarm-item critical"' in payload["alarms_html"]
    assert payload["alarm"] == "truncation rate 20 %"  # the warning is said by the critical one


def test_an_alarm_that_is_over_is_collapsed(ada, make_run, report):
    run = make_run(30)
    report(run, [0.12, 0.13, 0.12, 0.05])

    page = ada.get(f"/runs/{run.pk}").content.decode()

    assert "<summary>1 past alarm</summary>" in page
    assert "Truncation rate was at or above 10 % from step 31 to 33, worst 13 %." in page
    assert 'class="alarm-item' not in page
    notes = [one["note"] for one in ada.get(f"/runs/{run.pk}/panels").json()["panels"]]
    assert "Alarmed until step 33." in notes


def test_names_of_metrics_are_escaped(ada, make_run, report):
    run = make_run(30)
    report(run, [None], metric="<script>alert(1)</script>")

    page = ada.get(f"/runs/{run.pk}").content.decode()

    assert "&lt;script&gt;alert(1)&lt;/script&gt; is not a finite number since step 31." in page
    assert "<script>alert(1)" not in page


def test_the_list_marks_a_run_with_the_number_of_its_alarms(ada, make_run, report):
    run = make_run(30)
    report(run, [0.2, 0.2, 0.2])
    report(run, [0.3, 0.3, 0.3], metric="train/kl", first=40)

    page = ada.get("/runs").content.decode()

    assert 'class="alarm-count critical"' in page
    assert (
        "alarms: Truncation rate is at or above 15 % since step 31, now 20 %. KL is at or above 0.2" in page
    )


def test_the_list_filters_by_alarm(ada, make_run, report):
    quiet, loud, past = (make_run(6, name=name) for name in ("quiet", "loud", "past"))
    report(loud, [0.2, 0.2, 0.2])
    report(past, [0.2, 0.2, 0.2, 0.0])
    shown = lambda alarm: {
        run.name
        for run in (quiet, loud, past)
        if f">{run.name}</a>" in ada.get("/runs", {"alarm": alarm}, headers=HTMX).content.decode()
    }

    assert shown("active") == {"loud"}
    assert shown("any") == {"loud", "past"}
    assert shown("no such thing") == shown("") == {"quiet", "loud", "past"}


def test_without_a_worker_the_list_says_that_it_does_not_know(ada, make_run):
    run = make_run(6)
    assert "alarms unknown" not in ada.get("/runs").content.decode()

    Run.objects.filter(pk=run.pk).update(alarms_wanted_at=timezone.now() - timedelta(minutes=2))
    assert "alarms unknown" in ada.get("/runs").content.decode()

    ada.get(f"/runs/{run.pk}")  # whoever looks has it judged
    assert "alarms unknown" not in ada.get("/runs").content.decode()
