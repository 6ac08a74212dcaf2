"""Charts before anybody points at one: sketches of the same look, for which Plotly is not asked for."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.charts import live
from tests.browser.conftest import WIDE
from tests.browser.test_studies import make_study, report
from tests.webapp.interfaces.pages.addresses import make_prediction
from tests.webapp.interfaces.pages.data import record
from webapp.record.runs import ingest
from webapp.science.predictions.discussion import comment

NEAR = 1.5  # pixels between the two drawings of anything
# What a chart shows by its kind, each as [words and look, x, y] from the chart's corner: marks, lines and bars by where
# they begin, all else by its middle.
PLACES = """(id) => {
    const node = document.querySelector(id);
    const home = node.getBoundingClientRect();
    const isLive = Boolean(node.querySelector(".main-svg"));
    const all = (sketched, live) =>
        [...node.querySelectorAll(isLive ? live : sketched)].filter((each) => each.checkVisibility());
    const at = (each, x, y) => {
        const look = getComputedStyle(each);
        const [isLine, isText] = [".line, .js-line", "text"].map((chosen) => each.matches(chosen));
        const ink = look.stroke.replace(/rgba\\((.*), [\\d.]+\\)/, "rgb($1)"); // Plotly has the opacity elsewhere
        const line = isLine ? [ink, look.strokeWidth, look.strokeDasharray] : [];
        const text = isText ? [each.textContent.trim(), look.fontSize, look.fill] : [];
        return [[...line, ...text].join(" "), x - home.left, y - home.top];
    };
    const middle = (each) => {
        const { left, right, top, bottom } = each.getBoundingClientRect();
        return at(each, (left + right) / 2, (top + bottom) / 2);
    };
    const stands = (each) => { const { e, f } = each.getScreenCTM(); return [at(each, e, f)]; };
    const starts = (each) => {
        const { e, f } = each.getScreenCTM();
        const moves = [...each.getAttribute("d").matchAll(/M([-\\d.]+),([-\\d.]+)/g)];
        return moves.map(([, x, y]) => at(each, e + Number(x), f + Number(y)));
    };
    const [ticks, titles] = [".xtick text, .ytick text, .y2tick text", ".xtitle, .ytitle, .y2title"];
    return {
        ticks: all(ticks, ticks).map(middle),
        titles: all(titles, titles).map(middle),
        notes: all(".annotation text", ".annotation-text").map(middle),
        grid: all(".grid", ".gridlayer path, .zl").map(middle),
        shapes: all(".shape", ".shapelayer path").map(middle),
        marks: all(".mark", ".points path").flatMap(isLive ? stands : starts),
        lines: all(".line", ".js-line:not([style*='stroke-width: 0px'])").flatMap((each) => starts(each).slice(0, 1)),
        bands: all(".fill", ".js-fill[d]").map((each) => at(each, home.left, home.top)),
        bars: all(".error", ".errorbar path").flatMap((each) => starts(each).filter((one, i) => !(i % 3))),
    };
}"""


@pytest.fixture
def asked(page) -> list[str]:
    """The addresses that the page asks for."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url))
    return found


def places(page: Page, chart: str) -> dict:
    return page.evaluate(PLACES, chart)


def half_fitted_run(page, user, project, make_run) -> str:
    run = make_run(30)
    page.goto(f"/runs/{run.pk}?cutoff=4")  # with residuals
    return "#chart"


def linear_run(page, user, project, make_run) -> str:
    run = make_run(30)
    page.goto(f"/runs/{run.pk}?scale=linear&x=tokens")
    return "#chart"


def slope(page, user, project, make_run) -> str:
    run = make_run(30)
    page.goto(f"/runs/{run.pk}?view=slope")
    return "#chart"


def comparison(page, user, project, make_run) -> str:
    runs = [make_run(30, seed=0), make_run(30, a=0.5, seed=1, recipe="tiny-minimax"), make_run(30, seed=2)]
    page.goto("/compare?by=recipe&" + "&".join(f"run={run.pk}" for run in runs))
    page.wait_for_selector("#crossing script, #crossing p:not(.muted)", state="attached")
    return "#chart"


def settings(page, user, project, make_run) -> str:
    runs = [make_run(30, seed=0), make_run(30, a=0.5, seed=1, recipe="tiny-minimax"), make_run(30, seed=2)]
    page.goto("/compare?tab=settings&" + "&".join(f"run={run.pk}" for run in runs))
    return "#scatter"


def study_axis(page, user, project, make_run) -> str:
    study = make_study(
        user, project, kind="axis", changes=("batch=64", "batch=128", "batch=512"), name="Batch"
    )
    for place, a in zip(study.members.select_related("run"), (0.6, 0.52, 0.57, 0.63), strict=True):
        report(place.run, a=a)
    page.goto(f"/studies/{study.pk}")
    return "#axis-chart"


def prediction(page, user, project, make_run) -> str:
    run = make_run(30)
    claim = make_prediction(user, run)
    comment(claim, user=user, text="This one?", anchor=(4.0, 0.5))
    page.goto(f"/predictions/{claim.pk}")
    return "#chart"


def planner(page, user, project, make_run) -> str:
    for seed in range(2):
        make_run(24, a=0.7, seed=seed, name="good")
    page.goto("/planner")
    return "#plan-chart"


# One of each kind of mark always; the others in the long form.
OPENERS = [linear_run, comparison, study_axis, prediction]
OPENERS += [
    pytest.param(opener, marks=pytest.mark.deep) for opener in (half_fitted_run, slope, settings, planner)
]


@pytest.mark.parametrize("open_chart", OPENERS, ids=lambda opener: opener.__name__)
def test_everything_stands_where_plotly_draws_it(
    page, asked, user, project, make_run, model_folder, open_chart
):
    chart = open_chart(page, user, project, make_run)
    page.wait_for_selector(f"{chart} .sketch")
    assert not [url for url in asked if "plotly" in url]
    sketched = places(page, chart)

    live(page, chart)
    drawn = places(page, chart)

    assert sketched["marks"] and sketched["ticks"] and sketched["titles"]
    for kind, found in drawn.items():
        far = [each for each in sketched[kind] if not any(is_near(each, other) for other in found)]
        assert (kind, far, len(sketched[kind])) == (kind, [], len(found))


def is_near(one, other) -> bool:
    return one[0] == other[0] and all(abs(a - b) <= NEAR for a, b in zip(one[1:], other[1:], strict=True))


def test_the_first_pointer_finds_its_point_and_all_charts_are_plotlys(
    page, user, project, make_run, model_folder
):
    study_axis(page, user, project, make_run)
    page.wait_for_selector("#axis-chart .sketch")
    x, y = next((x, y) for _, x, y in places(page, "#axis-chart")["marks"])
    page.locator("#axis-chart").scroll_into_view_if_needed()
    box = page.locator("#axis-chart").bounding_box()

    page.mouse.move(box["x"] + x, box["y"] + y)

    expect(page.locator("#axis-chart .hovertext")).to_be_visible()
    expect(page.locator("#overlay-chart .main-svg").first).to_be_attached()
    expect(page.locator(".sketch")).to_have_count(0)


def test_a_keyboard_wakes_a_chart(page, make_run):
    page.goto(f"/runs/{make_run(30).pk}")
    page.wait_for_selector("#chart .sketch")
    page.locator(".handle[data-end=cutoff]").focus()
    page.wait_for_selector("#chart .main-svg")


def test_a_sketch_follows_what_arrives_the_theme_and_the_window(page, asked, make_run):
    run = make_run(30)
    page.goto(f"/runs/{run.pk}")
    chart = page.get_by_role("img", name=re.compile("against device-hours"))
    expect(chart.locator(".sketch")).to_be_visible()
    assert len(places(page, "#chart")["marks"]) == 30
    line = page.locator("#chart .line").first
    light = line.get_attribute("stroke")
    handle = page.locator(".handle[data-end=cutoff]")
    edge = handle.bounding_box()["x"]

    ingest.store_records(run, [record(31, 8.5, {"eval/pass_rate": 0.59})])
    page.wait_for_function(
        "document.getElementById('chart').data.find(t => t.name === 'waiting')?.x.length === 1"
    )
    assert len(places(page, "#chart")["marks"]) == 31
    page.emulate_media(color_scheme="dark")
    expect(line).not_to_have_attribute("stroke", light)
    page.set_viewport_size({**WIDE, "width": 1300})
    page.wait_for_function(
        f"document.querySelector('.handle[data-end=cutoff]').getBoundingClientRect().x < {edge} - 50"
    )

    assert not [url for url in asked if "plotly" in url]


def test_what_a_sketch_cannot_draw_is_plotlys_at_once(page, make_run):
    page.goto(f"/runs/{make_run(30).pk}?view=gain")
    page.wait_for_selector("#chart .main-svg")


def test_where_plotly_does_not_come_the_sketch_stays_and_is_woken_again(page, make_run):
    page.watch.expect("ERR_FAILED")
    page.route("**/plotly-*", lambda route: route.abort())
    page.goto(f"/runs/{make_run(30).pk}")
    with page.expect_event("requestfailed"):
        page.locator("#chart").hover()
    expect(page.locator("#chart .sketch")).to_be_visible()
    page.unroute("**/plotly-*")
    live(page)
