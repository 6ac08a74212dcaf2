"""The overview: what it says of runs in every state, and that it costs the same whatever their number."""

import re
import shutil
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.launching import launched
from tests.webapp.interfaces.pages.data import curve_records, record, stretch_times
from tests.webapp.interfaces.pages.reading import text_of
from webapp.interfaces.pages import overview as overviews
from webapp.interfaces.pages.marks import duration
from webapp.record.evaluations.models import Evaluation
from webapp.record.health.services import note_cluster
from webapp.record.runs import ingest
from webapp.record.runs.models import Run
from webapp.reporting.alarms.services import judge_run
from webapp.science.curves.models import Fit
from webapp.science.curves.selectors import newly_identified
from webapp.science.curves.services import refit

HTMX = {"HX-Request": "true"}


@pytest.fixture(autouse=True)
def _nothing_remembered():
    cache.clear()


def live(ada, page):
    """Ask again as the page does."""
    seen = re.search(r'hx-get="/\?seen=([^"]*)"', page)[1]
    return ada.get("/", {"seen": seen}, headers=HTMX)


def test_an_empty_project_is_taught(ada):
    page = ada.get("/").content.decode()

    assert 'href="/runs/new"' in page
    assert 'action="/connect"' in page
    assert "Open the example" not in page, "there is none here"
    assert page.count("<table") == 0


def test_it_is_the_first_page_of_the_navigation(ada):
    page = text_of(ada.get("/"))

    assert re.search(r'<nav[^>]*>\s*<a href="/" aria-current="page"[^>]*>Overview', page)


def test_a_run_at_work_has_rate_ceiling_and_time_to_the_end(ada, make_run):
    run = make_run(30, name="climber")
    Run.objects.filter(pk=run.pk).update(
        started_at=run.heartbeat_at - timedelta(days=2)
    )  # it waited for a place
    stretch_times(timedelta(hours=3), 30)  # half of its budget is used

    page = ada.get("/").content.decode()

    assert f'href="/runs/{run.pk}"' in page
    assert "ends in about 3 h" in page
    assert 'class="whisker' in page
    assert re.search(r"<strong>0\.\d+</strong>\s*<span class=\"muted nowrap\">0\.\d+ to 0\.\d+</span>", page)


def test_a_ceiling_that_bent_is_said_with_its_compute(ada, make_run, project):
    run = make_run(8, to=0.5)
    assert list(newly_identified(project, timezone.now() - timedelta(days=1))) == []

    ingest.store_records(run, [r for r in curve_records(60, to=16.0) if r.seq > 8])
    refit(run.pk)

    (fit,) = newly_identified(project, timezone.now() - timedelta(days=1))
    assert (fit.run, fit.status, fit.fitted_hi) == (run, "ok", 16.0)
    page = ada.get("/").content.decode()
    assert "Eq. 1 identified this week" in page and "since 16.0 device-hours" in page
    Fit.objects.filter(pk=fit.pk).update(created_at=timezone.now() - timedelta(days=30))
    assert list(newly_identified(project, timezone.now() - timedelta(days=7))) == []


def test_the_ceiling_bent_with_the_first_fit_since_which_all_are_identified(make_run, project):
    run = make_run(30)
    first = Fit.objects.get(run=run)
    outcome = {"status": "ok", "n": 5, "params": first.params, "intervals": first.intervals}
    for at, status in enumerate(["ok", "not_identified", "ok", "ok"], start=1):
        Fit.objects.create(run=run, data_digest=f"{at}", fitted_hi=at, **outcome | {"status": status})

    assert [fit.fitted_hi for fit in newly_identified(project, timezone.now() - timedelta(days=1))] == [3]


def test_alarms_stand_worst_first_in_words(ada, make_run):
    mild, bad = make_run(5, name="mild"), make_run(5, seed=1, name="bad")
    for run, rate in ((mild, 0.2), (bad, 0.9)):
        ingest.store_records(run, [record(i, 8 + i, {"train/truncation_rate": rate}) for i in range(10, 30)])
        judge_run(run.pk)

    page = ada.get("/").content.decode()

    alarms = page[page.index('id="o-alarms"') : page.index('id="o-running"')]
    assert alarms.index("bad") < alarms.index("mild")
    assert "<strong>critical</strong>: Truncation rate is at or above" in alarms
    assert f'href="/runs/{bad.pk}#alarms"' in alarms


def test_what_waits_says_why(ada, make_run):
    make_run(0, name="waiter")
    refused = make_run(0, seed=1, name="refused")
    Run.objects.filter(pk=refused.pk).update(
        state_reason="Could not be submitted, will be tried again: no Ray."
    )
    big = make_run(0, seed=3, name="big")
    Run.objects.filter(pk=big.pk).update(state_reason="waits for 8 GPUs")

    page = ada.get("/").content.decode()

    waiting = page[page.index('id="o-waiting"') :].split("</section>")[0]
    for words in (
        "waits for a worker.",
        "waits for 8 GPUs.",
        "will be tried again: no Ray.",
    ):
        assert words in waiting
    assert waiting.count("data-age") == 3  # when each was launched
    assert "<h2>Waiting <" in waiting
    assert (
        "<h2>Waiting in Default <" in ada.get("/status").content.decode()
    )  # whose counts are of all projects


def test_benchmarks_stand_beside_the_runs_that_wait(ada, make_run):
    run = make_run(0, name="measured")
    waits = Evaluation(
        run=run, step=40, task="gsm8k", reason="waits for the cluster: needs 1 CPU core, 0 free"
    )
    Evaluation.objects.bulk_create(
        [
            waits,
            Evaluation(run=run, step=7, task="mbpp", state="running"),
            Evaluation(run=run, step=9, state="failed"),
        ]
    )

    for address in ("/", "/status"):
        page = text_of(ada.get(address))
        assert page.index("mbpp of step 7") < page.index("gsm8k of step 40") < page.index(waits.reason)
        assert "of step 9" not in page and f'href="/runs/{run.pk}?tab=benchmarks"' in page
    assert "Benchmarks: 1 waiting, 1 starting, 0 running." in page


def test_what_starts_stands_beside_what_runs(ada, make_run):
    loading = make_run(0, name="loading")
    Run.objects.filter(pk=loading.pk).update(state="starting")

    page = ada.get("/").content.decode()

    assert "loading" in page and 'data-state="starting"' in page
    assert "<h2>Waiting" not in page


def test_what_ended_has_its_outcome_and_the_failed_ones_stand_first(ada, make_run):
    make_run(30, name="good", ended="succeeded")
    make_run(0, seed=1, name="never", ended="failed", message="Traceback\nno model named x")
    make_run(6, seed=2, name="broke", ended="failed", message="out of memory")
    old = make_run(30, seed=3, name="long ago", ended="succeeded")
    Run.objects.filter(pk=old.pk).update(ended_at=timezone.now() - timedelta(days=3))

    page = ada.get("/").content.decode()

    ended = page[page.index('id="o-ended"') : page.index('id="o-leaders"')]
    assert ended.index("never") < ended.index("good")
    assert "no model named x" in ended
    assert "Nothing was trained." in ended
    assert "out of memory" in ended
    assert "resume it" in ended
    assert re.search(r"Reached 0\.\d+; ceiling 0\.\d+ \(90 % 0\.\d+ to 0\.\d+\)\.", ended)
    assert "long ago" not in ended


def test_who_leads_is_a_sentence_per_task(ada, make_run):
    make_run(30, a=0.8)
    make_run(30, a=0.5, recipe="tiny-minimax", seed=1)

    page = ada.get("/").content.decode()

    assert re.search(r"ScaleRL \(tiny\) rev 1 leads: at \S+ device-hours it comes to 0\.\d+ \(90 % ", page)


def test_only_what_changed_is_sent_again(ada, make_run):
    run = make_run(6, name="one")
    page = ada.get("/").content.decode()
    assert "No Ray cluster is known" in page
    assert live(ada, page).status_code == 204, "what the page says of the cluster, its fragment says as well"

    note_cluster([{"id": "a", "address": "", "alive": True, "is_head": True, "cpus": 2, "gpus": 0}])
    cluster = live(ada, page).content.decode()
    assert 'id="o-health"' in cluster
    assert 'id="o-running"' not in cluster

    Run.objects.filter(pk=run.pk).update(
        state="failed", ended_at=timezone.now(), state_reason="out of memory"
    )

    again = live(ada, page).content.decode()
    assert "out of memory" in again
    assert 'id="o-running"' in again
    assert 'id="o-leaders"' not in again
    assert "<html" not in again


def test_the_number_of_queries_does_not_grow(ada, make_run):
    def ask():
        cache.clear()
        with CaptureQueriesContext(connection) as queries:
            ada.get("/")
        return len(queries)

    make_run(6), make_run(0, seed=1), make_run(6, seed=2, ended="failed")
    few = ask()
    for seed in range(3, 9):
        make_run(6, seed=seed), make_run(0, seed=seed + 100), make_run(6, seed=seed + 200, ended="succeeded")

    assert ask() == few
    assert few <= 27


def test_another_projects_runs_are_not_seen(ada, foreign_run):
    assert foreign_run.pk not in ada.get("/").content.decode()


@pytest.mark.parametrize(
    ("hours", "words"), [(0.01, "36 s"), (0.4, "24 min"), (3.34, "3 h 20 min"), (5, "5 h"), (53, "2 d 5 h")]
)
def test_durations(hours, words):
    assert duration(timedelta(hours=hours)) == words


def test_it_asks_to_sign_in(client, db):
    assert client.get("/").url == "/sign-in?next=/"


@pytest.mark.parametrize(
    ("seeds", "identified", "words"),
    [(1, 1, "1 seed"), (3, 3, "3 seeds"), (3, 2, "2 of 3 seeds"), (2, 0, "2 seeds")],
)
def test_seeds_without_an_identified_ceiling_are_not_counted_for_it(seeds, identified, words):
    assert overviews.seeds_words({"seeds": seeds, "identified_seeds": identified}) == words


def test_a_tiny_run_needs_nothing_made_in_a_terminal(ada, project, user, model_folder):
    shutil.rmtree(model_folder)
    asked = {"recipe": "tiny-scalerl", "task": "arithmetic", "model": "tiny-arithmetic", "seed": 0}

    assert "Launch a tiny run" in ada.get("/").content.decode()
    run = launched(user=user, project=project, **asked, budget_hours=0.5)
    assert run.state == "queued"
