"""Logs, status, and what happens by itself, in a real browser."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from tests.browser.look import AT_THE_END, look
from tests.webapp.record.retention.conftest import grow_old, write_checkpoint
from webapp.base.disk import code_version
from webapp.record.health import services as health
from webapp.record.logs.chunking import add_lines
from webapp.record.logs.models import JobLog, LogChunk
from webapp.record.runs.models import Attempt, Run
from webapp.reporting.policies.models import PolicyAction

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/srv/headroom/training/launch.py", line 68, in run',
    "    outcome = asyncio.run(_run(recipe, run_dir))",
    "training.errors.PartDied: generator 0 (process 4711 on node-3) died: its node is gone",
    "error: generator 0 (process 4711 on node-3) died: its node is gone",
]


def append(run, lines) -> None:
    """As a round of the worker stores them."""
    row, _ = JobLog.objects.get_or_create(attempt=run.attempts.get(number=run.attempt_number))
    last = row.chunks.order_by("-first_line").first()
    LogChunk.objects.bulk_create(
        add_lines(row, last, lines),
        update_conflicts=True,
        unique_fields=["log", "first_line"],
        update_fields=["lines", "size", "text"],
    )
    row.save()


def steps(first, last):
    return [
        f"09:{i // 60 % 60:02}:{i % 60:02} step {i}  pass rate {0.2 + i / 10000:.3f} ± 0.010"
        for i in range(first, last + 1)
    ]


@pytest.mark.deep
def test_a_log_is_followed_searched_and_read_back(page, make_run):
    run = make_run(10)
    append(run, steps(1, 1200))
    page.goto(f"/runs/{run.pk}?tab=log")
    log = page.locator("#log")
    expect(log).to_contain_text("step 1200 ")
    expect(page.locator("#log .line")).to_have_count(500)

    append(run, ["a new line <b>"])
    expect(page.locator("#log .line[data-n='1201']")).to_have_text("a new line <b>")
    page.wait_for_function(AT_THE_END)
    expect(page.locator("#log-total")).to_have_text("1,201")

    log.evaluate("node => { node.scrollTop = 0 }")
    append(run, ["another one"])
    expect(page.locator("#log .line[data-n='1202']")).to_have_count(1)
    assert log.evaluate("node => node.scrollTop") == 0  # who reads is not pulled away
    look(page, "log-live")

    page.get_by_role("link", name="Earlier lines").click()
    expect(page.locator("#log .line").first).to_have_attribute("data-n", "201")
    page.get_by_role("link", name="The newest lines").click()
    expect(page.locator("#log .line").last).to_have_attribute("data-n", "1202")

    page.locator("#log-filter").fill("step 30")
    expect(page.locator("#panel-live")).to_contain_text("11 of 1,202 lines")
    look(page, "log-search")
    page.get_by_role("link", name="Line 305 in its place").click()
    expect(page.locator("#log .line[data-n='305']")).to_have_count(1)
    expect(page.locator("#log .line").last).to_have_attribute("data-n", "354")
    assert "before=355" in page.url and "q=" not in page.url


@pytest.mark.deep
def test_a_failed_run_has_its_last_lines_on_top(page, make_run):
    run = make_run(10, ended="failed", message="generator 0 (process 4711 on node-3) died: its node is gone")
    append(run, [*steps(1, 30), *TRACEBACK])
    JobLog.objects.update(head_lines=10, left_out_lines=7_201, left_out_size=9_437_184)

    page.goto(f"/runs/{run.pk}")
    expect(page.locator("#last-words .line")).to_have_count(5)
    expect(page.locator("#last-words")).to_contain_text("PartDied")
    look(page, "run-failed")
    page.locator("#last-words").get_by_role("link", name="The whole log").click()
    expect(page.locator("#log .gap")).to_contain_text("7,201 lines (9 MiB) are left out here")
    look(page, "log-gap")


@pytest.mark.deep
def test_a_policy_that_stopped_a_run_says_why_while_it_is_looked_at(page, make_run):
    run = make_run(10)
    page.goto(f"/runs/{run.pk}")
    expect(page.locator("#policies .note")).to_have_count(0)
    why = "Truncation rate is at or above 15 % since step 120, now 31 %."
    PolicyAction.objects.create(
        run=run, attempt=1, kind="truncation", action="stop", by_run=False, reason=why
    )
    Run.objects.filter(pk=run.pk).update(version=run.version + 1)

    expect(page.locator("#policies .note")).to_contain_text(why)
    look(page, "run-stopped-by-policy")
    page.goto(f"/runs/{run.pk}?tab=attempts")
    expect(page.locator("#panel")).to_contain_text("What policies did")
    look(page, "run-policies-attempts")


@pytest.fixture
def seen(transactional_db):
    """A worker, a round and a cluster, as the worker writes them down."""
    now = timezone.now()
    health.worker_lives("gpu-box:4711", host="gpu-box", version=code_version(), started_at=now)
    health.worker_lives("other-box:99", host="other-box", version="0f3a11bc22", started_at=now)
    health.note_cluster([
        {"id": "4fd2c1a09b11", "address": "10.0.0.1", "alive": True, "is_head": True, "cpus": 16, "gpus": 0},
        {"id": "77e0aa31c2d4", "address": "10.0.0.2", "alive": True, "is_head": False, "cpus": 96, "gpus": 8},
        {"id": "c0ffee000001", "address": "10.0.0.3", "alive": False, "is_head": False, "cpus": 0, "gpus": 0},
    ])  # fmt: skip
    health.note_round(now, {})


def test_the_status_page_says_what_is_wrong_and_follows(page, make_run, seen):
    make_run(0)
    page.goto("/status")
    expect(page.locator("#status")).to_contain_text("No broker is configured")
    expect(page.locator("#status")).to_contain_text("runs other code than this web server")
    look(page, "status")

    health.note_no_cluster("Ray at http://10.0.0.1:8265 does not answer: timed out")
    expect(page.locator("#status")).to_contain_text("Ray does not say how its nodes are")


def test_an_admin_says_what_happens_by_itself(page, make_run):
    run = make_run(2, ended="cancelled")
    long_ago = timezone.now() - timedelta(days=3)
    Run.objects.filter(pk=run.pk).update(ended_at=long_ago)
    Attempt.objects.filter(run=run).update(ended_at=long_ago)
    for step in (25, 50, 75):
        write_checkpoint(run.pk, f"step-{step:08d}", 3_000_000)
    grow_old(run.pk, 3)

    page.goto("/project/automation")
    page.get_by_label("The planner's advice to stop").select_option("advise")
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_text("The policies are saved")).to_be_visible()
    expect(page.get_by_label("The planner's advice to stop")).to_have_value("advise")

    page.get_by_label("Clean up").check()
    page.get_by_role("button", name="Save").last.click()
    expect(page.get_by_text("The clean-up is saved")).to_be_visible()
    page.get_by_role("button", name="What would go now").click()
    expect(page.locator("#preview")).to_contain_text("2.86 MiB in 1 checkpoint.")
    expect(page.locator("#preview")).to_contain_text("step 25 (2.86 MiB)")
    look(page, "automation")


def test_a_launch_says_what_stops_it(page, model_folder):
    page.goto("/runs/new")
    page.locator("#policies > summary").click()
    expect(page.get_by_label("Mismatch of generator and trainer")).to_be_visible()
    look(page, "launch-policies")
