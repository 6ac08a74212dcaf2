"""The run page in a real browser: chart, live points, cutoff, axes, stop, a server that goes away."""

import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.browser.charts import live
from tests.browser.conftest import NARROW, WIDE
from tests.browser.look import AT_THE_END, look
from tests.webapp.interfaces.pages.data import curve_records, record
from webapp.record.runs import ingest, lifecycle
from webapp.record.runs.models import Attempt, Run
from webapp.science.curves.services import refit

POINTS = "#chart .scatterlayer .trace .points path"
LIVE_SECONDS = 2.0


def open_run(page: Page, run, query: str = "") -> None:
    page.goto(f"/runs/{run.pk}{query}")
    live(page)


def roles(page: Page) -> dict[str, int]:
    """How many points each trace of the chart has, by name."""
    return page.evaluate(
        "Object.fromEntries(document.getElementById('chart').data.filter(t => t.name).map(t => [t.name, t.x.length]))"
    )


def test_the_chart_draws_every_evaluation_and_the_fit(page, make_run):
    run = make_run(30)

    open_run(page, run)

    assert page.locator(POINTS).count() == 30
    assert roles(page) == {"excluded": 0, "fitted": 30, "after": 0}
    dashes = page.evaluate("document.getElementById('chart').data.map(t => t.line?.dash).filter(Boolean)")
    assert "solid" in dashes
    assert any("," in dash for dash in dashes)
    expect(
        page.locator("#chart .annotation", has_text=re.compile("ceiling 0\\.\\d+, 90 % 0"))
    ).to_be_visible()


def test_a_new_evaluation_arrives_by_itself_and_then_its_fit(page, make_run):
    run = make_run(30)
    open_run(page, run)
    now = page.locator("[data-text='now.value_text']")
    before = now.inner_text()

    ingest.store_records(run, [record(31, 8.5, {"eval/pass_rate": 0.512, "eval/pass_rate_stderr": 0.01})])
    stored = time.monotonic()
    page.wait_for_function(drawn("waiting", 1))
    assert time.monotonic() - stored < LIVE_SECONDS
    assert before != now.inner_text() == "0.51"
    assert roles(page)["fitted"] == 30
    expect(page.locator("[data-text=fit_sentence]")).to_contain_text("1 newer evaluation is not in it yet")
    expect(page.locator("#waiting-key")).to_be_visible()

    refit(run.pk)
    stored = time.monotonic()
    page.wait_for_function(drawn("fitted", 31))
    assert time.monotonic() - stored < LIVE_SECONDS
    assert "waiting" not in roles(page)
    expect(page.locator("[data-text=fit_sentence]")).not_to_contain_text("not in it yet")
    expect(page.locator("#waiting-key")).to_be_hidden()


def test_without_a_worker_the_fit_comes_all_the_same(page, make_run):
    run = make_run(30)
    open_run(page, run)

    ingest.store_records(run, [record(31, 8.5, {"eval/pass_rate": 0.59})])

    page.wait_for_function(drawn("fitted", 31))
    expect(page.locator("#waiting-key")).to_be_hidden()


def drawn(role: str, n: int) -> str:
    """A condition of the chart: it has so many points of a role."""
    return f"document.getElementById('chart').data.find(t => t.name === '{role}')?.x.length === {n}"


def test_the_first_evaluation_replaces_the_empty_state(page, make_run):
    run = make_run(0)
    page.goto(f"/runs/{run.pk}")
    expect(page.locator("#chart-empty")).to_be_visible()

    ingest.store_records(
        run, [record(0, 0.0, {"eval/pass_rate": 0.2}), record(1, 0.5, {"eval/pass_rate": 0.25})]
    )

    expect(page.locator("#chart-empty")).to_be_hidden()
    expect(page.locator("#chart .mark").first).to_be_visible()
    expect(page.locator("#state")).to_have_text("running, attempt 1")


def test_one_evaluation_before_the_first_update_is_drawn(page, make_run):
    run = make_run(0)
    ingest.store_records(run, [record(0, 0.0, {"eval/pass_rate": 0.31})])

    open_run(page, run)

    expect(page.locator(POINTS)).to_have_count(1)
    assert roles(page) == {"excluded": 0, "fitted": 0, "after": 0, "start": 1}
    assert page.locator("#chart .xtick").all_text_contents() == ["0"]
    look(page, "run-one-evaluation")


def test_the_cutoff_is_moved_by_keyboard_and_the_rest_is_predicted(page, make_run):
    run = make_run(30)
    open_run(page, run)
    expect(page.locator("#after")).to_be_hidden()
    handle = page.locator(".handle[data-end=cutoff]")
    handle.focus()

    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowLeft")

    expect(page.locator("#after")).to_contain_text("6 evaluations")
    assert roles(page) == {"excluded": 0, "fitted": 24, "after": 6, "residuals": 6}
    assert handle.get_attribute("aria-valuenow") == "23"
    assert "cutoff=" in page.url
    page.keyboard.press("End")
    expect(page.locator("#after")).to_be_hidden()
    assert "cutoff=" not in page.url


def test_the_cutoff_is_dragged_on_the_chart(page, make_run):
    run = make_run(30)
    open_run(page, run)
    box = page.locator(".handle[data-end=cutoff]").bounding_box()
    grip = (box["x"] + box["width"] / 2, box["y"] + 16)

    page.mouse.move(*grip)
    page.mouse.down()
    page.mouse.move(grip[0] - 60, grip[1], steps=6)
    page.mouse.up()

    expect(page.locator("#after")).to_be_visible()
    assert roles(page)["after"] > 0
    moved = page.locator(".handle[data-end=cutoff]").bounding_box()
    assert moved["x"] < box["x"] - 30


def test_early_points_are_left_out_by_the_range_input(page, make_run):
    run = make_run(30)
    open_run(page, run)

    page.locator("#lo-range").fill("3")

    expect(page.locator("#lo-words")).to_contain_text("3 of 30 left out")
    page.wait_for_function(
        "document.getElementById('chart').data.find(t => t.name === 'excluded').x.length === 3"
    )
    assert page.url.count("lo=") == 1


def test_a_link_to_a_question_opens_its_answer(page, make_run):
    run = make_run(30)

    open_run(page, run, "?x=tokens&cutoff=4000000&scale=linear")

    assert roles(page)["after"] == 15
    expect(page.locator("button[data-x=tokens]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("button[data-scale=linear]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#chart .xtitle")).to_have_text("Tokens")


def test_another_axis_is_another_question(page, make_run):
    run = make_run(30)
    open_run(page, run, "?cutoff=4")

    page.get_by_role("button", name="Steps").click()

    expect(page.locator("#chart .xtitle")).to_have_text("Steps")
    expect(page.locator("#fit-title")).to_contain_text("steps")
    assert "x=step" in page.url
    assert "cutoff" not in page.url


@pytest.mark.deep
def test_a_server_that_goes_away_is_said_and_comes_back(page, make_run):
    page.watch.expect("Failed to load resource", "net::ERR")
    run = make_run(30)
    open_run(page, run)

    page.route("**/figure?*", lambda route: route.abort())
    expect(page.locator("#banner")).to_contain_text("does not answer")
    page.unroute("**/figure?*")

    expect(page.locator("#banner")).to_be_hidden()


def test_polling_ends_soon_after_the_run(page, make_run):
    run = make_run(30, ended="succeeded")
    asked: list[str] = []
    answered: list[str] = []
    for event, urls in (("request", asked), ("requestfinished", answered)):
        page.on(
            event, lambda request, urls=urls: urls.append(request.url) if "/figure" in request.url else None
        )
    page.clock.install()
    open_run(page, run)
    expect(page.locator("#state")).to_have_text("succeeded, attempt 1")

    for number in range(1, 8):  # a last batch may still be on its way
        for _ in range(2_000):  # an answer sets the next timer only when it has been read
            if len(answered) == number:
                break
            if len(asked) == len(answered):
                page.clock.fast_forward(11_000)
            else:  # a request has a time to be answered in, too
                page.evaluate("() => null")
    for _ in range(20):
        page.clock.fast_forward(600_000)

    assert len(asked) == 7


def test_stopping_asks_first(page, make_run):
    run = make_run(0)
    page.goto(f"/runs/{run.pk}")

    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Lost")
    page.get_by_role("button", name="Keep training").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop the run").click()

    expect(page.locator("#state")).to_have_text("cancelled, attempt 1")


def test_tabs_come_without_leaving_the_chart(page, make_run):
    run = make_run(10)
    Attempt.objects.filter(run=run).update(log_tail="\n".join(f"step {i}" for i in range(500)))
    open_run(page, run)
    page.evaluate("window.stayed = true")

    page.get_by_role("link", name="Log", exact=True).click()

    log = page.locator("#log")
    expect(log).to_contain_text("step 499")
    page.wait_for_function(AT_THE_END)
    assert page.evaluate("window.stayed") is True
    assert "tab=log" in page.url


def test_the_chart_follows_the_theme(page, make_run):
    open_run(page, make_run(10))
    grid = lambda: page.evaluate("document.getElementById('chart').layout.yaxis.gridcolor")
    light = grid()

    page.emulate_media(color_scheme="dark")

    page.wait_for_function(
        "before => document.getElementById('chart').layout.yaxis.gridcolor !== before", arg=light
    )


@pytest.mark.parametrize("query", ["", "?cutoff=4&lo=1"])
def test_at_390_pixels_nothing_scrolls_sideways(new_page, user, make_run, query):
    page = new_page(signed_in=user, viewport=NARROW)

    open_run(page, make_run(30), query)

    assert page.evaluate("document.documentElement.scrollWidth") == 390
    expect(page.locator(".handle[data-end=cutoff]")).to_be_visible()


def test_at_390_pixels_the_ticks_of_small_amounts_stand_upright(new_page, user, make_run):
    page = new_page(signed_in=user, viewport=NARROW)

    open_run(page, make_run(87, to=0.06, budget_hours=0.5))

    ticks = page.locator("#chart .xtick text")
    assert ticks.count() >= 2
    turned = ticks.evaluate_all(
        "texts => texts.filter(text => /rotate[(](?!0[,)])/.test(text.getAttribute('transform')))"
    )
    assert turned == []


WORDS_BELOW_THE_GRIPS = """(() => {
    const said = [...document.querySelectorAll("#chart .annotation")];
    const words = said.find((node) => node.textContent.includes("90 %"));
    return [...document.querySelectorAll(".handle:not([hidden])")].map((handle) => {
        const grip = getComputedStyle(handle, "::after");
        const end = handle.getBoundingClientRect().top + parseFloat(grip.top) + parseFloat(grip.height);
        return words.getBoundingClientRect().top - end;
    });
})()"""


@pytest.mark.parametrize("viewport", [WIDE, NARROW])
def test_the_words_of_the_ceiling_stand_below_the_grips_of_the_window(new_page, user, make_run, viewport):
    page = new_page(signed_in=user, viewport=viewport)

    open_run(page, make_run(30), "?cutoff=4")

    assert roles(page)["residuals"] > 0
    room = page.evaluate(WORDS_BELOW_THE_GRIPS)
    assert len(room) == 2
    assert min(room) >= 0


def grow(run: Run, *, every: int) -> Run:
    """Now it has 41 evaluations, was fitted after each so many, and has a crashed one and a metric of its own."""
    lifecycle.report_started(run, attempt=1, resumed_from_step=None, device="cpu")
    records = curve_records(40)
    for first in range(0, 41, every):
        ingest.store_records(run, records[first : first + every])
        refit(run.pk)
    crashed = {"eval/pass_rate": 0.3, "eval/pass_rate_stderr": 0.01, "my/metric": 1.0}
    ingest.store_records(run, [record(41, 8.1, crashed)])
    Run.objects.filter(pk=run.pk).update(refit_wanted_at=None)  # no worker is waited for
    return run


@pytest.fixture
def grown(make_run):
    return grow(make_run(0), every=41)


def traces(page: Page, chart: str = "chart") -> list[str]:
    return page.evaluate(f"document.getElementById('{chart}').data.map(t => t.name).filter(Boolean)")


def test_views_are_in_the_address_and_keep_axis_window_and_zoom(page, grown):
    open_run(page, grown, "?cutoff=5&robust=1")

    page.get_by_role("button", name="Slope").click()
    expect(page.locator("#view-sentence")).to_contain_text("straight line of slope B = ")
    page.wait_for_function("document.getElementById('chart').data.some(t => t.name === 'slope B')")
    assert "view=slope" in page.url and "cutoff=5" in page.url and "robust=1" in page.url
    expect(page.get_by_role("button", name="lin", exact=True)).to_be_disabled()
    look(page, "run-slope")

    page.get_by_role("button", name="Gain per hour").click()
    expect(page.locator("#view-sentence")).to_contain_text("one more device-hour adds")
    page.get_by_role("button", name="Tokens").click()
    expect(page.locator("button[data-view=gain]")).to_have_text("Gain per token")
    page.get_by_role("button", name="lin", exact=True).click()
    assert {"view=gain", "x=tokens", "scale=linear"} <= set(page.url.split("?")[1].split("&"))
    look(page, "run-gain")

    page.reload()
    live(page)
    assert traces(page) == ["gain", "gain, extrapolated"]


def test_a_view_that_cannot_be_drawn_says_why_and_its_window_can_be_changed(page, make_run):
    open_run(page, make_run(30), "?cutoff=0.7")
    page.get_by_role("button", name="Slope").click()

    expect(page.locator("#view-empty")).to_contain_text("log F is measured from the ceiling")
    expect(page.locator("#chart")).to_be_hidden()
    expect(page.locator(".handle[data-end=cutoff]")).to_be_hidden()
    page.locator("#cutoff-range").fill("29")
    expect(page.locator("#view-empty")).to_be_hidden()
    expect(page.locator("#chart")).to_be_visible()
    expect(page.locator(".handle[data-end=cutoff]")).to_be_visible()


def test_a_crashed_evaluation_is_left_out_at_a_click_and_drawn_as_a_cross(page, grown):
    open_run(page, grown)
    expect(page.locator("#left-out")).to_contain_text("0.300 at 8.10 h (step 41)")

    page.get_by_role("button", name="Fit without").click()

    expect(page.locator("#left-out")).to_contain_text("Left out as crashed")
    expect(page.locator("#outlier-key")).to_be_visible()
    assert roles(page)["outlier"] == 1
    assert "robust=1" in page.url
    expect(page.locator("#summary")).to_contain_text("1 outlier left out")
    assert page.locator("#copy-summary").get_attribute("data-copy") == page.locator("#summary").inner_text()
    look(page, "run")
    page.get_by_role("button", name="Use every evaluation").click()
    page.wait_for_function("!document.getElementById('chart').data.some(t => t.name === 'outlier')")


@pytest.mark.deep
def test_an_open_analysis_follows_the_cutoff_and_keeps_its_chart(page, grown):
    open_run(page, grown, "?tab=forms&robust=1")
    live(page, "#forms-chart")
    page.evaluate("document.getElementById('forms-chart').stayed = true")

    page.locator(".handle[data-end=cutoff]").focus()
    for _ in range(3):
        page.keyboard.press("PageDown")

    expect(page.locator("#panel")).to_contain_text("After the cutoff")
    expect(page.locator("#panel .answer")).to_contain_text("sigmoid forecasts later evaluations best")
    assert page.evaluate("document.getElementById('forms-chart').stayed") is True
    forms = "document.getElementById('forms-chart').data.map(t => t.name)"
    page.wait_for_function(f"['Sigmoid', 'Power law', 'Logistic'].every(name => {forms}.includes(name))")
    look(page, "run-forms")


@pytest.mark.deep
def test_a_window_of_the_table_is_applied_to_the_chart(page, grown):
    open_run(page, grown, "?tab=window&robust=1")
    expect(page.locator("tr.here")).to_be_visible(timeout=30_000)
    look(page, "run-window")

    page.get_by_role("link", name="up to 50 % of the compute").click()

    expect(page.locator("#after")).to_be_visible()
    assert "cutoff=4" in page.url and "robust=1" in page.url
    expect(page.locator("tr.here")).to_contain_text("shown")
    expect(page.locator("tr.here")).to_contain_text("4.00 h")


@pytest.mark.deep
def test_the_history_shows_what_was_said_when_and_leads_back(page, make_run):
    open_run(page, grow(make_run(0), every=4), "?robust=1")
    page.get_by_role("link", name="Forecast history").click()
    live(page, "#history-chart")

    expect(page.locator("#panel .answer")).to_contain_text("The ceiling was first known at ")
    assert traces(page, "history-chart") == ["ceiling", "not known yet"]
    look(page, "run-history")
    page.get_by_role("link", name="Show the fit up to 4.00 h").click()
    expect(page.locator("#after")).to_be_visible()


@pytest.mark.deep
def test_the_plan_answers_a_target_and_refuses_a_bad_one_in_place(page, grown):
    page.watch.expect("status of 400")
    open_run(page, grown, "?robust=1")
    page.get_by_role("link", name="Ask for another target").click()
    expect(page.locator("#plan-target")).to_be_visible()

    page.locator("#plan-target").fill("0.59")
    page.locator("select[name=of]").select_option("rate")
    page.locator("#plan-target").press("Enter")
    expect(page.locator("#panel")).to_contain_text("To reach 0.59: ")
    expect(page.locator("[data-text='target.title']")).to_have_text("To reach 0.59")
    assert "target=0.59" in page.url and "robust=1" in page.url
    look(page, "run-plan")

    page.locator("#plan-target").fill("7")
    page.locator("#plan-answer").click()
    expect(page.locator("#plan-target-error")).to_contain_text("a pass rate is between 0 and 1")
    expect(page.locator("[data-text='target.title']")).to_have_text("To reach 0.59")
    ingest.store_records(grown, [record(42, 8.2, {"eval/pass_rate": 0.6})])
    page.wait_for_function(
        "document.getElementById('chart').data.find(t => t.name === 'fitted').x.length === 41"
    )
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator("#plan-target")).to_have_value("7")


def test_the_diagnostics_are_panels_that_grow_with_the_run(page, grown):
    open_run(page, grown)
    page.get_by_role("button", name="Slope").click()
    expect(page.locator("#view-sentence")).to_be_visible()
    panel = page.locator("#metric-train-truncation_rate")
    expect(panel.locator("path[data-group]")).to_be_attached()
    expect(panel.locator("g.limit")).to_have_count(1)

    page.get_by_role("button", name="Truncation rate", exact=True).click()

    expect(page.locator("#panels .panel")).to_have_count(1)
    assert "panels-m=train%2Ftruncation_rate" in page.url and "view=slope" in page.url
    look(page, "run-panel")
    ingest.store_records(grown, [record(42, 8.2, {"train/truncation_rate": 0.05})])
    expect(panel.locator(".latest")).to_have_text("5 %")
    page.locator("#panels-x").select_option("Wall clock")
    expect(page).to_have_url(re.compile("panels-x=wall_clock"))
    ingest.store_records(grown, [record(43, 8.3, {"train/truncation_rate": 0.06})])
    expect(panel.locator(".latest")).to_have_text("6 %")
    page.get_by_role("button", name="Truncation rate", exact=True).click()
    expect(page.locator("#panels .panel").nth(1)).to_be_visible()
    look(page, "run-diagnostics")
    page.get_by_role("link", name="Files", exact=True).click()
    page.get_by_role("link", name="Diagnostics").click()
    expect(page.locator("#panels-x")).to_have_value("wall_clock")
    expect(panel.locator("path[data-group]")).to_be_attached()


def test_the_log_is_filtered_while_it_grows(page, make_run):
    run = make_run(10)
    lines = [f"step {i}" for i in range(50)]
    Attempt.objects.filter(run=run).update(log_tail="\n".join(lines))
    open_run(page, run, "?tab=log")
    look(page, "run-log")

    page.locator("#log-filter").press_sequentially("step 4")
    expect(page.locator("#panel-live")).to_contain_text("11 of 50 lines")
    Attempt.objects.filter(run=run).update(log_tail="\n".join([*lines, "step 400"]))

    expect(page.locator("#log")).to_contain_text("step 400")
    expect(page.locator("#log-filter")).to_be_focused()
    expect(page.locator("#log-filter")).to_have_value("step 4")
    assert "q=step+4" in page.url


@pytest.mark.deep
def test_the_configuration_is_compared_with_another_run(page, make_run):
    run, other = make_run(6, seed=1), make_run(0, seed=2)
    open_run(page, run, "?tab=configuration")

    page.select_option("#other", other.pk)

    expect(page.locator(".diffs")).to_contain_text("seed")
    assert f"other={other.pk}" in page.url
    look(page, "run-configuration")
    page.get_by_role("link", name="Attempts").click()
    expect(page.locator("#panel")).to_contain_text("the start")
    look(page, "run-attempts")


def test_a_zoom_survives_what_arrives(page, make_run):
    run = make_run(30)
    open_run(page, run)
    box = page.locator("#chart .nsewdrag").first.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.3 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=5)
    page.mouse.up()
    span = "(([a, b]) => b - a)(document.getElementById('chart')._fullLayout.xaxis.range)"
    page.wait_for_function(f"{span} < 1")
    zoomed = page.evaluate(span)

    ingest.store_records(run, [record(31, 8.5, {"eval/pass_rate": 0.59})])

    page.wait_for_function(
        "document.getElementById('chart').data.find(t => t.name === 'fitted').x.length === 31"
    )
    assert page.evaluate(span) == pytest.approx(zoomed)
    page.get_by_role("button", name="Steps").click()  # another question starts from its own range
    expect(page.locator("#chart .xtitle")).to_have_text("Steps")
    assert page.evaluate(span) > 1


@pytest.mark.deep
def test_two_tabs_of_one_run_agree_after_a_stop_in_one(page, make_run):
    run = make_run(10)
    open_run(page, run)
    second = page.context.new_page()
    open_run(second, run, "?cutoff=2")

    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop the run").click()

    for each in (page, second):
        expect(each.locator("#state")).to_contain_text("stopping")
        expect(each.locator("[data-show='actions.stop']")).to_be_hidden()
    assert "cutoff=2" in second.url


@pytest.mark.deep
def test_nonsense_in_the_address_is_said_and_the_page_lives(page, make_run):
    run = make_run(10)
    open_run(page, run, "?lo=soon&cutoff=-3&view=pie&target=high")

    expect(page.get_by_role("alert")).to_contain_text("lo in a way that cannot be read: not a number")
    ingest.store_records(run, [record(11, 8.5, {"eval/pass_rate": 0.59})])
    page.wait_for_function(
        "document.getElementById('chart').data.find(t => t.name === 'fitted').x.length === 11"
    )
    expect(page.locator("#banner")).to_be_hidden()


@pytest.mark.parametrize(
    ("query", "words", "way_out"),
    [
        ("?cutoff=0.01", "before the first, then predict 30 of 30", "End"),
        ("?lo=99", "past the newest, 30 of 30 left out", "Home"),
    ],
)
def test_a_window_that_holds_no_evaluation_is_said_and_can_be_left(page, make_run, query, words, way_out):
    run = make_run(30)
    page.goto(f"/runs/{run.pk}{query}")
    live(page)

    end = "cutoff" if "cutoff" in query else "lo"
    expect(page.locator(f"#{end}-words")).to_have_text(words)
    look(page, f"run-nothing-fitted-{end}")
    handle = page.locator(f".handle[data-end={end}]")
    expect(handle).to_be_visible()
    handle.focus()
    page.keyboard.press(way_out)

    page.wait_for_function(
        "document.getElementById('chart').data.find(t => t.name === 'fitted').x.length === 30"
    )
    assert f"{end}=" not in page.url


def test_a_fresh_run_says_what_will_come(page, make_run):
    page.goto(f"/runs/{make_run(0).pk}")

    expect(page.locator("#chart-empty")).to_be_visible()
    look(page, "run-fresh")
    for tab in ("forms", "window", "history", "plan"):
        page.locator(f"a[data-tab={tab}]").click()
        expect(page.locator(f"#panel[data-tab={tab}]")).to_be_visible()
    look(page, "run-fresh-plan")
