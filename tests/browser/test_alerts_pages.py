# ruff: noqa: F811 (a fixture that is imported and asked for)
"""Alerts in a real browser: a rule with its live check, a channel tested for real, and the bell."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NARROW
from tests.browser.look import look
from tests.webapp.reporting.alerts.conftest import receiver  # noqa: F401 (fixture)
from tests.webapp.reporting.alerts.data import entropy_below, make_rule, report
from webapp.record.runs import lifecycle
from webapp.reporting.alerts import channels, delivery, firing
from webapp.reporting.alerts.firing import notify
from webapp.reporting.alerts.models import AlertRule, Notice


@pytest.fixture(autouse=True)
def opened(page):
    page.goto("/alerts")


@pytest.mark.deep
def test_a_rule_from_the_choice_of_its_kind_to_its_notice_under_the_bell(page, user, project, make_run):
    run = make_run(0, name="ScaleRL, seed 0")
    report(run, [0.3, 0.05, 0.04, 0.04], minutes=60)
    look(page, "alerts-empty")
    page.get_by_role("link", name="New rule", exact=True).click()
    look(page, "alerts-new-rule")
    page.get_by_role("link", name=re.compile("A metric crosses")).click()
    page.get_by_label("Name").fill("Entropy collapses")
    page.get_by_label("Metric").fill("train/entropi")
    page.get_by_label("Is", exact=True).select_option("<")
    page.get_by_label("Threshold").fill("0.1")
    expect(page.locator("#check")).to_contain_text("Did you mean train/entropy?")
    page.get_by_label("Metric").fill("train/entropy")
    expect(page.locator("#check")).to_contain_text("would have fired 1 time")
    page.get_by_label("In which runs").fill("state:running stat:x")
    expect(page.locator("#check pre")).to_contain_text("^")
    look(page, "alerts-rule-bad-filter")
    page.get_by_label("In which runs").fill("by:me")
    expect(page.locator("#check")).to_contain_text("ScaleRL, seed 0")
    look(page, "alerts-rule")
    page.get_by_role("button", name="Make the rule").click()
    expect(page.get_by_role("status").filter(has_text="watches from now on")).to_be_visible()

    lifecycle.report_started(run, attempt=1)
    report(run, [0.3, 0.05, 0.04, 0.03], first=20, minutes=-0.2)
    lifecycle.report_finished(run, attempt=1, state="failed", message="out of memory")
    firing.check_changed()
    page.reload()
    expect(page.locator("#bell-count")).to_have_text("2")
    page.keyboard.press("b")
    expect(page.locator("#bell")).to_contain_text("train/entropy is 0.03 at step 23")
    look(page, "alerts-bell")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.locator("#bell").get_by_role("button", name=re.compile("has failed: out of memory")).click()
    expect(page).to_have_url(re.compile(f"/runs/{run.pk}$"))
    expect(page.locator("#bell-count")).to_have_text("1")
    page.locator("#bell-button").click()
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.locator("#bell-count")).to_be_hidden()
    assert not Notice.objects.filter(user=user, read_at=None).exists()
    page.get_by_role("link", name="All notices").click()
    look(page, "notices")
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page.get_by_role("heading", name="Alerts", exact=True)).to_be_visible()
    page.get_by_role("button", name="On for Entropy collapses").click()
    expect(page.get_by_role("button", name="Off for Entropy collapses")).to_be_visible()
    assert not AlertRule.objects.get(name="Entropy collapses").enabled


@pytest.mark.deep
def test_a_webhook_is_made_tested_and_shows_what_became_of_its_messages(
    page, user, project, make_run, receiver
):
    page.get_by_role("link", name="Webhook").click()
    look(page, "alerts-new-channel")
    page.get_by_label("Address of the hook").fill("https://192.168.0.1/hook")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_text("not on the public internet")).to_be_visible()
    page.watch.expect("422")
    page.get_by_label("Address of the hook").fill(receiver.url)
    page.get_by_label("Name").fill("On-call")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_text("Copy the secret now")).to_be_visible()
    look(page, "alerts-secret")
    page.get_by_role("link", name=re.compile("Go on")).click()
    page.get_by_role("button", name="Send a test through On-call").click()
    expect(page.get_by_text(re.compile("The test went through: 200, in"))).to_be_visible()
    assert len(receiver.got) == 1

    hook = user.alert_channels.get()
    dead, _ = channels.create_channel(
        user=user, project=project, kind="slack", name="Team's Slack", address=receiver.url, shared=True
    )
    make_rule(user, project, "metric", entropy_below(), name="Entropy", channels=[hook.pk], critical=True)
    make_rule(
        user,
        project,
        "state",
        {"states": ["started", "failed"]},
        name="Ends",
        channels=[dead.pk],
        shared=True,
    )
    run = make_run(30, name="ScaleRL, seed 0")
    report(run, [0.05] * 3, first=100)
    firing.check_changed()
    delivery.deliver_due()
    receiver.status, receiver.body = 404, b"no_service"
    for attempt in range(2):
        firing.fire(
            AlertRule.objects.get(name="Ends"),
            run,
            firing.Event(f"{attempt}", run.created_at, "was lost: no heartbeat"),
        )
    delivery.deliver_due()
    notify(
        user,
        project=project,
        kind="mention",
        text="Ben mentioned you in a comment on a prediction",
        url="/runs",
    )
    page.reload()
    expect(page.get_by_text("paused", exact=True)).to_be_visible()
    expect(page.get_by_text("It answered 404: no_service").first).to_be_visible()
    look(page, "alerts")
    page.get_by_role("link", name="Change On-call").click()
    look(page, "alerts-channel")
    page.goto("/alerts/preferences")
    page.get_by_label("From").fill("22:00")
    page.get_by_label("To", exact=True).fill("07:00")
    page.get_by_label("Zone").fill("Europe/Berlin")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Now: 22:00 to 07:00, every day, Europe/Berlin.")).to_be_visible()
    look(page, "alerts-quiet-hours")


@pytest.mark.parametrize("unread", [*(pytest.param(few, marks=pytest.mark.deep) for few in (1, 16)), 100])
def test_the_bell_stands_beside_the_name_however_many_notices_wait(page, user, project, unread):
    for number in range(unread):
        notify(user, project=project, kind="mention", text=f"grace mentioned you: {number}", url="/runs")
    page.reload()
    expect(page.locator("#bell-count")).to_have_text("99+" if unread == 100 else str(unread))

    gap = page.evaluate(
        """() => {
          const words = document.createRange();
          words.selectNode(document.querySelector(".side .brand").lastChild);
          const bell = document.getElementById("bell-button").getBoundingClientRect();
          const side = document.querySelector(".side").getBoundingClientRect();
          return [bell.left - words.getBoundingClientRect().right, side.right - bell.right];
        }"""
    )

    assert min(gap) >= 0, gap

    type(user).objects.filter(pk=user.pk).update(username="somebody-with-a-long-name")
    page.set_viewport_size(NARROW)
    page.reload()
    expect(page.locator("#bell-count")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
