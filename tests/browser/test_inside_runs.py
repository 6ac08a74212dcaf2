"""What shows inside of runs, in a real browser: any metrics side by side, machines, where the time of steps went."""

import math
import random
import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import NARROW
from tests.browser.look import look
from training.records import Record
from webapp.record.runs import ingest
from webapp.reporting.alarms.services import judge_run

BEGAN = datetime.now(UTC) - timedelta(hours=2)


def store(run, rows, *, first=100, seconds=60.0, step=None):
    """Rows of metrics as records, `seconds` apart; of one step where it is given."""
    records = [
        {
            "attempt": 1, "seq": first + i, "step": first + i if step is None else step,
            "time": (BEGAN + timedelta(seconds=seconds * i)).isoformat(),
            "compute": {"device_hours": 8 + 0.01 * i, "flops": 8e15, "tokens": 8e6 + i}, "metrics": row,
        }
        for i, row in enumerate(rows)
    ]  # fmt: skip
    ingest.store_records(run, [Record.model_validate(each) for each in records])


@pytest.fixture
def chosen(make_run):
    """Two recipes with two seeds each, which report some metrics: one with a break, and one that one run has."""
    runs = [make_run(30, a=0.6, seed=seed) for seed in (0, 1)]
    runs += [make_run(30, a=0.5, recipe="tiny-minimax", seed=seed) for seed in (2, 3)]
    for number, run in enumerate(runs):
        rng = random.Random(number)
        rows = [
            {
                "train/entropy": 0.9 * math.exp(-i / (60 + 20 * number)) + rng.gauss(0, 0.02),
                "train/grad_norm": None
                if number == 0 and 40 < i < 50
                else 1 + rng.random() + (30 if i == 80 else 0),
                "train/response_length": 300 + i * (2 + number) + rng.gauss(0, 20),
            }
            | ({"train/kl": 1e-5 * (1 + rng.random()) if i else -0.000888} if number == 1 else {})
            for i in range(120)
        ]
        store(run, rows)
    return [run.pk for run in runs]


@pytest.mark.deep
def test_any_metrics_of_runs_and_of_recipes(page, chosen):
    query = "&".join(f"run={pk}" for pk in chosen)
    page.goto(f"/compare?{query}&tab=metrics&m=train/*+eval/pass_rate")
    expect(page.locator("#panels .panel")).to_have_count(7)
    expect(page.locator("#panels-words")).to_have_text("7 metrics of 4 runs.")
    expect(page.locator("details.names summary")).to_have_text(re.compile(r"^\d+ metrics reported$"))
    expect(page.get_by_text("1 of 4 runs report it.")).to_be_visible()
    expect(page.get_by_text("Left out as not finite: 9 values.")).to_be_visible()
    expect(page.locator("#panels text", has_text="-0.000888")).to_be_visible()
    assert (
        page.locator("#panels text").evaluate_all(
            "all => all.filter((one) => one.getBBox().x < 0).map((one) => one.textContent)"
        )
        == []
    )
    look(page, "compare-metrics-runs")

    page.locator("#panels svg").first.hover()
    expect(page.locator(".readout").first).to_contain_text(re.compile("seed .*: "))
    expect(page.locator("#panels .cursor[visibility=visible]")).to_have_count(7)

    page.locator("#panels-legend button").first.click()
    expect(page).to_have_url(re.compile("hide="))
    expect(page.locator("#panels path:not(.range)")).to_have_count(12)
    page.locator("#smooth").fill("0.6")
    page.locator("#smooth").dispatch_event("change")
    expect(page).to_have_url(re.compile("smooth=0.6"))
    expect(page.locator("#smooth-words")).to_contain_text("averaged with those before")

    page.get_by_role("button", name="Save layout").click()
    page.get_by_label("Name", exact=True).fill("Smooth")
    page.get_by_role("dialog").get_by_role("button", name="Save layout").click()
    saved = page.get_by_role("link", name="Smooth", exact=True)
    expect(saved).to_have_attribute("aria-current", "true")
    expect(saved).to_have_attribute("href", re.compile("smooth=0.6"))
    expect(page.locator("#choice [name=hide]")).to_have_count(1)

    page.locator("#panels-legend button").first.click()
    expect(page.locator("#choice [name=hide]")).to_have_count(0)
    page.get_by_role("link", name="Recipes", exact=True).last.click()
    expect(page.locator("#panels path.range").first).to_be_attached()
    expect(page).to_have_url(re.compile("smooth=0.6"))
    look(page, "compare-metrics-recipes")

    # They go while they are drawn: an error in the browser fails the test.
    page.locator("#panels-root").evaluate(
        "async (root) => { root.querySelector('#panels-legend button').click(); root.remove();"
        " await new Promise((done) => setTimeout(done, 50)); }"
    )


def test_a_part_of_the_axis_is_brushed_and_panels_have_a_table(page, chosen):
    page.goto(f"/compare?{'&'.join(f'run={pk}' for pk in chosen)}&tab=metrics&m=train/entropy+train/kl")
    expect(page.locator("#panels .panel")).to_have_count(2)
    svg = page.locator("#panels svg").first.bounding_box()
    page.mouse.move(svg["x"] + svg["width"] / 2, svg["y"] + 40)
    page.mouse.down()
    page.mouse.move(svg["x"] + 0.75 * svg["width"], svg["y"] + 60, steps=3)
    expect(page.locator("#panels .brush[visibility=visible]")).to_have_count(2)
    page.mouse.up()

    expect(page).to_have_url(re.compile(r"lo=\d+(\.\d+)?&hi=\d+(\.\d+)?"))
    lo, hi = (float(page.locator(f"#axis-{end}").input_value()) for end in ("lo", "hi"))
    assert 80 < lo < hi < 180
    expect(page.locator("#panels svg").first.locator("text").nth(2)).to_have_text(re.compile(f"^{lo:.0f}"))
    expect(page.get_by_role("link", name="Curves", exact=True)).not_to_have_attribute(
        "href", re.compile("lo=")
    )
    page.locator("#panels-table summary").click()
    rows = page.get_by_role("region", name="Values at the ends of the lines").get_by_role("row")
    expect(rows).to_have_count(5)
    look(page, "compare-metrics-part")

    newest = rows.nth(1).text_content() or ""
    page.get_by_role("button", name="Whole axis").click()
    expect(page).not_to_have_url(re.compile("lo="))
    expect(page.locator("#axis-lo")).to_have_value("")
    expect(rows.nth(1)).not_to_have_text(newest)
    page.get_by_label("Axis from").fill("150")
    page.keyboard.press("Tab")
    expect(page).to_have_url(re.compile("lo=150"))


def test_over_any_other_metric_steps_are_dots(page, chosen):
    page.goto(f"/compare?{'&'.join(f'run={pk}' for pk in chosen)}&tab=metrics&m=train/entropy+train/kl&lo=9")
    expect(page.locator("#panels .panel")).to_have_count(2)

    page.locator("#panels-x").select_option("train/response_length")

    expect(page).to_have_url(re.compile("x=train%2Fresponse_length(?!.*lo=)"))
    expect(page.locator("#panels .panel").first.locator("path.dots")).to_have_count(4)
    expect(page.locator("#panels .panel").nth(1)).to_contain_text("3 of 4 runs have no step with both.")
    expect(page.locator("#panels svg").first).to_have_attribute(
        "aria-label", re.compile("over train/response_length")
    )
    look(page, "compare-metrics-over-a-metric")
    page.get_by_role("button", name="train/kl").first.click()
    expect(page.locator("#panels .panel")).to_have_count(1)
    page.reload()
    expect(page.locator("#panels-x")).to_have_value("train/response_length")
    page.locator("#panels-x").select_option("Wall clock")
    expect(page.locator("#panels svg text").last).to_have_text(re.compile(r"\d h$"))
    page.goto(f"/compare?run={chosen[0]}&tab=metrics&x=train/entropi")
    expect(page.locator("#panels-words")).to_contain_text(
        '“train/entropi”; did you mean "train/entropy"? These are over'
    )


def test_a_part_of_a_thinned_line_is_read_anew(page, make_run):
    run = make_run(0)
    store(run, [{"train/entropy": 1 / (1 + i % 50)} for i in range(4000)], first=0)
    page.goto(f"/compare?run={run.pk}&tab=metrics&m=train/entropy")
    line = page.locator("#panels path[data-group]")
    points = lambda: len(re.findall("[ML]", line.get_attribute("d")))
    expect(page.locator("#panels svg")).to_have_attribute("aria-label", re.compile("1 line between"))
    whole = points()

    svg = page.locator("#panels svg").bounding_box()
    page.mouse.move(svg["x"] + 100, svg["y"] + 40)
    page.mouse.down()
    page.mouse.move(svg["x"] + 150, svg["y"] + 60, steps=3)
    with page.expect_response(re.compile(r"panels.*lo=\d+(\.\d+)?&hi=")):
        page.mouse.up()
    expect(page.get_by_role("button", name="Whole axis")).to_be_visible()
    lo, hi = (float(page.locator(f"#axis-{end}").input_value()) for end in ("lo", "hi"))
    page.wait_for_function("document.querySelectorAll('#panels path[data-group]').length === 1")
    assert whole < 1000 and hi - lo < points() <= hi - lo + 4  # every step of it

    with page.expect_response(lambda answer: "/panels" in answer.url and "lo=" not in answer.url):
        page.locator("#panels svg").dblclick()
    expect(page.locator("#axis-lo")).to_have_value("")
    expect(page.get_by_role("button", name="Whole axis")).to_be_hidden()


def test_metrics_that_no_run_reports_are_one_sentence(page, chosen):
    page.goto(f"/compare?run={chosen[0]}&tab=metrics&m=nothing")

    expect(page.locator("#panels-words")).to_have_text("These runs report no such metric.")
    look(page, "compare-metrics-none")


def drag(axis: Locator, share: float) -> None:
    """From its top down, over a share of it."""
    box = axis.bounding_box()
    middle = box["x"] + box["width"] / 2
    mouse = axis.page.mouse
    mouse.move(middle, box["y"] + 1)
    mouse.down()
    mouse.move(middle, box["y"] + share * box["height"], steps=4)
    mouse.up()


@pytest.mark.deep
def test_settings_against_what_came(page, chosen):
    query = "&".join(f"run={pk}" for pk in chosen)
    page.goto(f"/compare?{query}&tab=settings")
    expect(page.locator("#scatter-words")).to_contain_text("4 runs: forecast ceiling over")
    page.wait_for_function("document.getElementById('scatter').data?.[0].x.length === 4")
    expect(page.locator("#parallel path")).to_have_count(4)
    look(page, "compare-settings")

    page.locator("select[name=sy]").select_option("pass_rate")
    expect(page).to_have_url(re.compile("sy=pass_rate"))
    expect(page.locator("#scatter-words")).to_contain_text("pass rate now over")
    expect(page.locator(".tabs a").first).to_have_attribute("href", re.compile("sy=pass_rate"))

    drag(page.locator("#parallel g.axis").last.locator("rect").first, 1 / 3)
    expect(page.locator("#parallel-words")).to_contain_text("2 of 4 runs pass there.")
    expect(page.locator("#settings-table tbody tr:visible")).to_have_count(2)
    look(page, "compare-settings-kept")

    page.locator("select[name=sy]").select_option("ceiling")  # what was kept on the other axis is over
    expect(page.locator("#parallel-words")).to_contain_text("Drag along an axis")
    expect(page.locator("#settings-table tbody tr:visible")).to_have_count(4)

    drag(page.locator("#parallel g.axis").last.locator("rect").first, 0.3)
    expect(page.locator("#parallel-words")).to_contain_text("runs pass there.")
    page.get_by_role("button", name="Show all runs").click()
    expect(page.locator("#settings-table tbody tr:visible")).to_have_count(4)

    page.locator("select[name=sy]").select_option("train/kl")
    expect(page.locator("#scatter-words")).to_contain_text("1 run: train/kl, newest over")
    expect(page.get_by_role("columnheader", name="train/kl, newest")).to_be_visible()
    expect(page.locator("#parallel g.axis").last.locator(".tick")).to_have_text(re.compile(r"^1\.\d+e-5$"))


def test_an_axis_is_dragged_by_a_finger(page, chosen):
    page.set_viewport_size(NARROW)
    page.goto(f"/compare?{'&'.join(f'run={pk}' for pk in chosen)}&tab=settings&sy=pass_rate")
    expect(page.locator("#parallel path")).to_have_count(4)
    axis = page.locator("#parallel g.axis").last.locator("rect").first
    axis.evaluate("axis => axis.scrollIntoView({ block: 'center' })")
    box, before = axis.bounding_box(), page.evaluate("scrollY")
    x, top = box["x"] + box["width"] / 2, box["y"] + 1
    finger = page.context.new_cdp_session(page)
    finger.send("Emulation.setTouchEmulationEnabled", {"enabled": True})

    finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": top}]})
    for part in range(1, 5):
        at = {"x": x, "y": top + part * box["height"] / 12}
        finger.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [at]})
    assert page.evaluate("scrollY") == before
    expect(page.locator("#settings-table tbody tr:visible")).to_have_count(4)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    expect(page.locator("#parallel-words")).to_have_text("2 of 4 runs pass there.")
    expect(page.locator("#settings-table tbody tr:visible")).to_have_count(2)
    finger.detach()


def test_machines_by_node_and_part(page, make_run):
    run = make_run(30)
    gpus = lambda i, part: {
        f"system/node-a/{part}/gpu{i}/busy_fraction": random.random(),
        f"system/node-a/{part}/gpu{i}/memory_fraction": 0.9,
        f"system/node-a/{part}/gpu{i}/power_watts": 300 + 100 * random.random(),
    }
    host = {
        "cpu_fraction": 0.4, "memory_fraction": 0.96, "memory_bytes": 9e10, "disk_fraction": 0.3,
        "network_sent_bytes_per_second": 2e6, "gpu_busy_fraction": 0.5,
    }  # fmt: skip
    hosts = [(node, name) for node in ("node-a", "node-b") for name in host]
    rows = [
        {f"system/{node}/host/{name}": host[name] * random.uniform(0.99, 1) for node, name in hosts}
        | gpus(0, "generator-0")
        | gpus(1, "trainer-rank-0")
        for _ in range(200)
    ]
    store(run, rows, seconds=15, step=30)
    judge_run(run.pk)

    page.goto(f"/runs/{run.pk}?tab=machines")
    expect(page.get_by_role("heading", name="Generator 0")).to_be_visible()
    expect(page.get_by_text("Memory of the host on node-a is at or above 95 %")).to_be_visible()
    look(page, "run-machines")

    page.get_by_label("Machine", exact=True).select_option("node-b")
    expect(page.get_by_role("heading", name="The machine node-b")).to_be_visible()
    expect(page).to_have_url(re.compile("node=node-b"))


def test_a_timeline_and_earlier_steps(page, make_run):
    run = make_run(30)
    row = lambda i: {
        "perf/step_seconds": 60.0, "perf/trainer_idle": 0.3, "perf/update_seconds": 38.0,
        "perf/update_ago_seconds": 0.1, "perf/generate_seconds": 150.0 + i % 7, "perf/generate_ago_seconds": 50.0,
        "perf/reward_seconds": 20.0,
        "perf/reward_ago_seconds": 42.0, "perf/weights_seconds": 3.0, "perf/weights_ago_seconds": 55.0,
    } | ({"perf/evaluate_seconds": 12.0} if i % 10 == 0 else {})  # fmt: skip
    store(run, [row(i) for i in range(60)])

    page.goto(f"/runs/{run.pk}?tab=timeline")
    expect(page.get_by_role("heading", name="Steps 140 to 159")).to_be_visible()
    look(page, "run-timeline")

    page.get_by_role("link", name="Earlier", exact=True).click()
    expect(page.get_by_role("heading", name="Steps 120 to 139")).to_be_visible()
    with page.expect_download() as found:
        page.get_by_role("link", name="For Perfetto").click()
    assert found.value.suggested_filename == f"{run.pk}-timeline.json"


def test_on_a_phone_the_form_of_the_panels_is_one_line(new_page, user, chosen):
    page = new_page(signed_in=user, viewport=NARROW)
    page.goto(
        f"/compare?{'&'.join(f'run={pk}' for pk in chosen)}&tab=metrics&m=train/entropy+train/kl&lo=150"
    )
    line = page.locator(".fold > summary")
    expect(line).to_have_text("2 panels over steps from 150")
    expect(page.get_by_label("Axis from")).to_be_hidden()
    expect(page.get_by_role("button", name="Show")).to_have_count(0)  # nor read out

    line.press("Enter")
    expect(page.get_by_label("Axis from")).to_have_value("150")
    expect(page.get_by_label("Columns")).to_be_hidden()
    page.locator("#panels-x").select_option("Wall clock")
    expect(page).to_have_url(re.compile("x=wall_clock"))
    expect(line).to_have_text("2 panels over wall clock")
    line.press("Enter")
    expect(page.get_by_label("Axis from")).to_be_hidden()
    look(page, "compare-metrics-folded")
    expect(line).to_be_hidden()  # it is wide now
    expect(page.get_by_label("Columns")).to_be_visible()
