"""The tabs of the run page: analyses, plan, log, configuration, attempts, panels; and their budgets."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import scaling
from tests.checkpoints import whole_checkpoint
from tests.launching import tracked_run
from tests.webapp.interfaces.pages.data import curve_records, record
from tests.webapp.interfaces.pages.reading import text_of
from webapp.interfaces.pages.run.attempts import attempt_rows, duration
from webapp.record.runs import ingest, launch, lifecycle
from webapp.record.runs.models import Attempt, State
from webapp.science.curves import fitting
from webapp.science.curves.fitting import CRASHED

HTMX = {"HX-Request": "true"}
TABS = [
    "diagnostics",
    "machines",
    "timeline",
    "benchmarks",
    "forms",
    "window",
    "history",
    "plan",
    "log",
    "configuration",
    "attempts",
]


@pytest.fixture
def panel(ada):
    """panel(run, tab="forms", ...): the fragment of one tab."""

    def get(run, **query):
        response = ada.get(f"/runs/{run.pk}", query, headers=HTMX)
        assert response.status_code == 200
        return response.content.decode()

    return get


def payload_in(fragment, name):
    return json.loads(
        re.search(rf'<script id="{name}" type="application/json">(.*?)</script>', fragment, re.S)[1]
    )


def rows_in(fragment):
    return fragment.count("<tr") - fragment.count("<thead><tr")


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("n", [0, 1, 30])
def test_every_tab_stands_with_any_number_of_evaluations(panel, make_run, tab, n):
    assert f'data-tab="{tab}"' in panel(make_run(n), tab=tab)


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_stands_for_a_run_that_trains_elsewhere(panel, user, project, tab):
    run = tracked_run(user=user, project=project, name="elsewhere", task="math", model="8b")

    panel(run, tab=tab)


@pytest.mark.parametrize("tab", ["forms", "window", "history", "plan"])
def test_a_crash_is_said_on_the_tab_and_the_page_stands(ada, panel, make_run, tab, monkeypatch):
    run = make_run(30, seed=11)

    def crash(*args, **options):
        raise RuntimeError("boom")

    fitting._cached_fit.cache_clear()
    monkeypatch.setattr(scaling, "fit", crash)
    monkeypatch.setattr("scaling.forms.choose", crash)
    monkeypatch.setattr("scaling.window.propose", crash)

    fragment = panel(run, tab=tab)
    assert tab == "history" or CRASHED in fragment
    assert CRASHED in ada.get(f"/runs/{run.pk}", {"cutoff": 6}).content.decode()
    assert CRASHED not in ada.get(f"/runs/{run.pk}").content.decode()  # it is kept from when it was fitted


BUDGETS = {
    "diagnostics": 8, "machines": 6, "timeline": 6, "benchmarks": 8, "forms": 5, "window": 5, "history": 6, "plan": 6,
    "log": 7, "configuration": 6, "attempts": 9,
}  # fmt: skip


@pytest.mark.parametrize(("tab", "most"), BUDGETS.items())
def test_a_tab_has_a_budget_of_queries_that_does_not_grow(ada, make_run, tab, most):
    run = make_run(12)

    def queries():
        with CaptureQueriesContext(connection) as captured:
            assert ada.get(f"/runs/{run.pk}", {"tab": tab}, headers=HTMX).status_code == 200
        return len(captured)

    before = queries()
    ingest.store_records(run, curve_records(60, first=13, to=48))
    assert queries() == before <= most


@pytest.mark.parametrize("tab", ["forms", "window", "history", "plan"])
def test_a_heavy_tab_comes_after_the_page(ada, make_run, tab):
    page = text_of(ada.get(f"/runs/{make_run(12).pk}", {"tab": tab}))

    assert re.search(rf'<div id="panel" data-tab="{tab}"[^>]* data-lazy>', page)
    assert "Fitting what this tab shows" in page
    assert f'data-tab="{tab}" aria-current="page"' in page


def test_the_forms_answer_the_question_of_the_address(panel, make_run):
    fragment = panel(make_run(30), tab="forms", cutoff="4", x="tokens")
    chart = payload_in(panel(make_run(30), tab="forms", cutoff="4000000", x="tokens"), "forms-data")

    assert "at least 5 are needed" in fragment  # four tokens are nothing
    assert chart["x"]["key"] == "tokens"
    assert chart["points"]["role"].count("after") == 15
    assert [line["form"] for line in chart["lines"]] == list(scaling.FORMS)


def test_each_window_has_a_link_that_applies_it_and_keeps_the_rest(panel, make_run):
    fragment = panel(make_run(30), tab="window", cutoff="4", robust="1")

    links = re.findall(r'href="\?([^"]*)" data-window', fragment)
    assert len(links) == rows_in(fragment) - 1
    assert all("robust=1" in link and "tab=window" in link for link in links)
    assert any("cutoff" not in link for link in links)


def test_a_history_that_never_said_anything_has_no_chart(panel, make_run):
    run = make_run(12)
    run.fits.update(status="failed", params=None, intervals=None, forecast=None)

    page = panel(run, tab="history")

    assert "of none was the ceiling known" in page
    assert "history-chart" not in page


def test_the_history_shows_every_stored_fit(panel, make_run):
    run = make_run(30)

    fragment = panel(run, tab="history")

    data = payload_in(fragment, "history-data")
    assert len(data["known"]["x"]) + len(data["open"]["x"]) == run.fits.count() == 1
    assert "The ceiling was first known at 8.00 h" in fragment


def test_long_histories_are_folded_until_asked_for(panel, make_run):
    run = make_run(30)
    fit = run.fits.get()
    for i in range(70):
        fit.pk, fit.data_digest = None, f"digest-{i}"
        fit.save(force_insert=True)

    assert "Show the 11 earlier fits too" in panel(run, tab="history")
    assert "earlier fits too" not in panel(run, tab="history", all="1")


def test_the_plan_answers_the_form(panel, make_run):
    fragment = panel(make_run(30), tab="plan", target="0.55", of="rate", delta="0.0001")

    assert "To reach 0.55: " in fragment
    assert "Go on: " in fragment
    assert 'value="0.55"' in fragment


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"target": "soon"}, "Target: not a number"),
        ({"target": "7"}, "Target: a pass rate is between 0 and 1"),
        ({"target": "nan"}, "Target: not a number"),
        ({"target": "120", "of": "gain"}, "Target: a share of the gain is between 0 and 100 %"),
        ({"target": "0.6", "of": "gain"}, "Target: write 60 for 60 %, or 0.6% if that is meant"),
        ({"target": "0.5", "of": "hope"}, "Kind of target: one of rate, gain"),
        ({"delta": "-1"}, "Smallest gain: a gain of pass rate is between 0 and 1"),
        ({"delta": "1e999"}, "Smallest gain: must be a finite number"),
    ],
)
def test_a_bad_target_is_answered_where_it_was_typed(ada, panel, make_run, query, message):
    run = make_run(12)

    fragment = panel(run, tab="plan", **query)

    assert message in fragment
    assert "<h2>Whether to stop</h2>" in fragment
    if "target" in query:
        field = "target" if message.startswith("Target") else "of"
        response = ada.get(f"/runs/{run.pk}/figure", query)
        assert (response.status_code, response.json()["error"]["field"]) == (400, field)


def test_the_target_of_the_address_is_the_one_in_the_strip(ada, make_run):
    run = make_run(30)

    payload = ada.get(f"/runs/{run.pk}/figure", {"target": "50", "of": "gain"}).json()

    assert payload["target"]["title"] == "To reach 0.40"
    assert (payload["asked"]["target"], payload["asked"]["of"]) == (50.0, "gain")


def test_nonsense_in_the_address_is_named_and_the_rest_is_used(ada, make_run):
    run = make_run(30)

    page = ada.get(
        f"/runs/{run.pk}", {"x": "tokens", "lo": "soon", "cutoff": "4e6", "view": "pie"}
    ).content.decode()
    figure = json.loads(
        re.search(r'<script id="figure" type="application/json">(.*?)</script>', page, re.S)[1]
    )

    assert re.search(r'mono">lo</span> in a way that cannot be read: not a number', page)
    assert re.search(r'mono">view</span> in a way that cannot be read: one of curve, slope, gain', page)
    assert (figure["asked"]["x"], figure["asked"]["cutoff"], figure["asked"]["lo"]) == ("tokens", 4e6, None)


def test_a_window_that_ends_before_it_starts_is_named(ada, make_run):
    response = ada.get(f"/runs/{make_run(30).pk}/figure", {"lo": "4", "cutoff": "2"})

    assert response.status_code == 400
    assert response.json()["error"] == {
        "code": "invalid_input",
        "message": "cutoff: ends before the window starts",
        "field": "cutoff",
    }


def test_the_diagnostics_ask_for_their_panels(ada, panel, make_run):
    run = make_run(0)
    assert "Nothing reported yet" in panel(run)
    ingest.store_records(run, [record(i, i, {"my/metric": 1.0 + i, "train/kl": 0.1}) for i in range(3)])

    fragment = panel(run, **{"x": "tokens", "panels-x": "wall_clock", "panels-m": "my/*"})

    assert f'data-url="/runs/{run.pk}/panels" data-prefix="panels-"' in fragment
    assert 'value="wall_clock" selected' in fragment and 'value="my/*"' in fragment
    found = ada.get(f"/runs/{run.pk}/panels", {"panels-m": "my/*", "m": "train/kl"}).json()
    assert [one["lines"][0]["y"] for one in found["panels"]] == [[1, 2, 3]]


def test_the_panels_of_a_run_have_a_budget_of_queries(ada, make_run):
    run = make_run(30)
    url = f"/runs/{run.pk}/panels"
    ada.get(url)

    with CaptureQueriesContext(connection) as captured:
        assert ada.get(url).status_code == 200
    assert len(captured) <= 12


def test_the_log_is_filtered_and_saved(ada, panel, make_run):
    run = make_run(0)
    Attempt.objects.filter(run=run).update(log_tail="step 1\nWARNING: slow <b>\nstep 2")

    fragment = panel(run, tab="log", q="warning")
    saved = ada.get(f"/runs/{run.pk}/log/1")

    assert "WARNING: slow &lt;b&gt;" in fragment
    assert 'data-n="2"' in fragment and 'data-n="1"' not in fragment
    assert "1 of 3 lines" in fragment
    assert "No line holds “nothing like it”" in panel(run, tab="log", q="nothing like it")
    assert b"".join(saved.streaming_content).decode() == "step 1\nWARNING: slow <b>\nstep 2\n"
    assert saved["Content-Disposition"] == f'attachment; filename="{run.pk}-attempt-1.log"'
    assert saved["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("attempt", ["2", "0", "99999999999999999999"])
def test_there_is_no_log_of_an_attempt_that_was_not_made(ada, make_run, attempt):
    assert ada.get(f"/runs/{make_run(0).pk}/log/{attempt}").status_code == 404


def test_the_log_of_another_project_does_not_exist(ada, foreign_run):
    assert ada.get(f"/runs/{foreign_run.pk}/log/1").status_code == 404


def test_each_attempt_has_its_log(panel, make_run):
    run = make_run(6, ended="failed", message="Traceback\nRuntimeError: the verifier hung")
    run = launch.resume_run(run, user=None)
    for number in (1, 2):
        run.attempts.filter(number=number).update(log_tail=f"log of {number}")

    assert 'data-n="1">log of 2\n' in panel(run, tab="log")
    assert 'data-n="1">log of 1\n' in panel(run, tab="log", attempt="1")
    assert "There is no attempt 9; this is the log of attempt 2." in panel(run, tab="log", attempt="9")


def test_attempts_say_from_where_how_long_and_why(panel, make_run):
    run = make_run(6, ended="failed", message="Traceback\nRuntimeError: the verifier hung")
    run = launch.resume_run(run, user=None)
    lifecycle.report_started(run, attempt=2, resumed_from_step=4, device={"kind": "cpu", "cores": 2})

    fragment = panel(run, tab="attempts")

    assert "<summary>RuntimeError: the verifier hung</summary>" in fragment
    assert "step 4" in fragment and "the start" in fragment
    assert "kind cpu, cores 2" in fragment
    assert "tab=log&amp;attempt=1" in fragment


def test_durations_of_attempts():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = Attempt(number=1, state=State.RUNNING, created_at=start, started_at=start + timedelta(seconds=40))
    waiting = Attempt(number=2, state=State.QUEUED, created_at=start)

    running, queued = attempt_rows([made, waiting], start + timedelta(hours=3, minutes=12, seconds=40))

    assert (running["waited"], running["lasted"], running["resumed"]) == ("40 s", "3 h 12 min", "the start")
    assert [queued[name] for name in ("waited", "lasted", "resumed", "device")] == ["–", "–", "–", "–"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3661, "1 h 1 min"), (90000, "1 d 1 h"), (-5, "0 s")],
)
def test_a_duration_has_its_two_greatest_units(seconds, text):
    assert duration(timedelta(seconds=seconds)) == text


def test_the_configuration_is_compared_with_any_run_of_the_project(ada, panel, make_run, foreign_run):
    run, other = make_run(0, seed=1), make_run(0, seed=2)

    fragment = panel(run, tab="configuration", other=other.pk)

    assert f'<option value="{other.pk}" selected>' in fragment
    assert '<td>seed</td><td class="was">2</td><td class="now">1</td>' in fragment
    assert f'<option value="{run.pk}"' not in fragment
    for unknown in (foreign_run.pk, "no-such-run", "a\0b"):
        assert "There is no such run in this project." in panel(run, tab="configuration", other=unknown)


def test_a_checkpoint_is_measured_from_its_tab(ada, panel, make_run):
    run = make_run(3)
    assert "run-evaluate" not in panel(run, tab="benchmarks") and "No benchmark yet" in panel(
        run, tab="benchmarks"
    )
    whole_checkpoint(run.pk, 4)
    sent = {
        "task": "arithmetic",
        "k": "2",
        "limit": "",
        "step": "4",
        "options": '{"max_digits": 2, "train_prompts": 20}',
    }

    answer = ada.post(f"/runs/{run.pk}/evaluate", sent, follow=True)
    broken = ada.post(f"/runs/{run.pk}/evaluate", sent | {"options": "[1]"}, follow=True)

    assert (
        "Step 4 on arithmetic, max_digits=2, train_prompts=20, k=2 will be measured."
        in answer.content.decode()
    )
    page = broken.content.decode()
    assert "options: JSON such as" in page and 'value="[1]"' in page and 'value="arithmetic"' in page
    assert broken.redirect_chain[0][0].endswith(
        "options=%5B1%5D"
    )  # no fragment: what is wrong stands at the top
    assert 'data-state="queued"' in panel(run, tab="benchmarks")
    result = {"pass_rate": 0.5, "pass_rate_stderr": 0.125, "contamination": 0.5}
    run.evaluations.update(state="succeeded", result=result)
    shown = panel(run, tab="benchmarks")
    assert "± 0.12<" in shown and "50.0 % seen" in shown
