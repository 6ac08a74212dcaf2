"""Studies and the planner in a real browser: made from one form, watched while runs report, asked for a plan."""

import csv
import io
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.charts import live
from tests.browser.look import look
from tests.webapp.interfaces.pages.data import curve_records
from webapp.record.runs import ingest, lifecycle
from webapp.record.runs.models import Run
from webapp.science.curves.services import refit
from webapp.science.studies import services
from webapp.science.studies.models import Study
from webapp.science.studies.planning import StudyRequest


def report(run, n=24, *, ended=None, **curve):
    lifecycle.report_started(run, attempt=1, resumed_from_step=None, device="cpu")
    ingest.store_records(run, curve_records(n, seed=run.seed + 7 * len(run.name), **curve))
    refit(run.pk)
    if ended:
        lifecycle.report_finished(run, attempt=1, state=ended)


def make_study(
    user, project, *, seeds=(0,), kind="leave_one_out", changes=("loss=dapo",), name="What matters"
):
    asked = StudyRequest(
        name=name, kind=kind, recipe="tiny-scalerl", changes=tuple(changes), seeds=tuple(seeds), task="arithmetic",
        model="tiny-arithmetic", budget_hours=16.0,
    )  # fmt: skip
    return services.create_study(asked, user=user, project=project).study


@pytest.mark.deep
def test_a_leave_one_out_study_from_the_form_to_its_verdicts(page, user, project, model_folder):
    page.watch.expect("422")  # the browser's console notes the refused form
    page.goto("/studies")
    look(page, "studies-empty")
    page.get_by_role("link", name="Take one choice back at a time").click()
    expect(page.locator("#preview .big")).to_have_text("27 runs")
    look(page, "study-new")
    cut = "nodes => nodes.filter(node => node.scrollWidth > node.clientWidth + 1).map(node => node.innerText)"
    assert page.locator("#preview ol.preview, #preview ol.preview *").evaluate_all(cut) == []

    page.get_by_label("Seeds").fill("0")
    page.get_by_label("Any other setting").fill("optimizer.lr = -1")
    expect(page.locator("#preview [role=alert]")).to_contain_text("optimizer.lr")
    page.get_by_label("Name").fill("Which choices matter?")
    page.get_by_role("button", name="Launch the study").click()
    expect(page.locator("#id_settings_error")).to_contain_text("cannot run")
    page.get_by_label("Any other setting").fill("")
    expect(page.locator("#preview .big")).to_have_text("9 runs")
    page.get_by_role("button", name="Launch the study").click()

    expect(page.get_by_role("heading", name="Which choices matter?")).to_be_visible()
    expect(page.locator("#progress")).to_contain_text("0 of 9 runs done, 9 waiting.")
    study = Study.objects.get()
    for place in study.members.select_related("run", "arm"):
        report(place.run, a=0.5 if place.arm.label == "DAPO loss" else 0.6)
    expect(page.locator(".study-headline")).to_contain_text("1 is worse", timeout=20_000)
    expect(page.locator("#progress")).to_contain_text("9 running")
    live(page, "#overlay-chart")
    names = page.evaluate("document.getElementById('slopes-chart').data.map(t => t.name)")
    assert any(name.startswith("Base, B ") for name in names)
    assert not any(name.startswith("DAPO") for name in names)


def test_a_study_is_looked_at_and_changed(page, user, project, model_folder, make_run):
    changes = ("loss=dapo", "off-policy=ppo-8", "head=bfloat16", "average=sample", "curriculum=uniform")
    study = make_study(user, project, seeds=(0, 1), changes=changes)
    tops = [0.6, 0.52, 0.6, 0.55, 0.605, 0.598]
    for place in study.members.select_related("run", "arm"):
        position, seed = place.arm.position, place.run.seed
        if position == 5 and seed == 1:
            continue
        early = {"n": 8, "to": 0.5} if position == 5 else {}
        report(place.run, **({"a": tops[position]} | early), ended="succeeded" if position < 2 else None)
    other = make_run(24, recipe="tiny-minimax", a=0.62, seed=3, name="other")
    page.goto(f"/studies/{study.pk}")
    live(page, "#slopes-chart")
    look(page, "study")
    page.goto("/studies")
    look(page, "studies")
    page.goto(f"/studies/{study.pk}")

    page.locator("summary", has_text="Add runs").click()
    page.get_by_label("Run of this project").fill(other.pk)
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".matrix")).to_contain_text("added by hand")
    page.get_by_role("button", name="Further seeds").click()
    expect(page.get_by_label("Seeds", exact=True)).to_have_value("2")
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_text("Launched 6 further runs")).to_be_visible()
    page.get_by_role("button", name="Stop all").click()
    expect(page.get_by_role("dialog")).to_contain_text("have not ended")
    page.get_by_role("dialog").get_by_role("button", name="Stop all").click()
    expect(page.get_by_text("Stopping 15 runs.")).to_be_visible()


def test_a_base_chosen_before_the_scripts_are_there_brings_its_alternatives(
    page, user, project, model_folder
):
    held = []
    page.route("**/htmx-2.min*.js", lambda route: held.append(route))
    page.goto("/studies/new", wait_until="commit")
    page.locator("#id_recipe").select_option("tiny-minimax")
    while not held:  # the form may be there before the browser has asked for the script
        page.wait_for_timeout(20)

    with page.expect_response(
        lambda found: "/studies/new?" in found.url and "recipe=tiny-minimax" in found.url
    ):
        held[0].continue_()

    expect(page.locator("#id_recipe")).to_have_value("tiny-minimax")


@pytest.mark.deep
def test_an_axis_is_drawn_against_its_values(page, user, project, model_folder):
    study = make_study(
        user, project, kind="axis", changes=("batch=64", "batch=128", "batch=512"), name="Batch"
    )
    for place, a in zip(study.members.select_related("run"), (0.6, 0.52, 0.57, 0.63), strict=True):
        report(place.run, a=a)
    page.goto("/studies/new?kind=axis")
    page.get_by_label("Axis").select_option("batch")
    page.get_by_label("Values besides").fill("64, 128, 512")
    expect(page.locator("#preview .big")).to_have_text("12 runs")
    look(page, "study-new-axis")

    page.goto(f"/studies/{study.pk}")
    live(page, "#axis-chart")
    drawn = page.evaluate("document.getElementById('axis-chart').data.map(t => [t.name, t.x])")
    assert dict(drawn)["forecast ceiling"] == [64, 128, 256, 512]
    assert (min(dict(drawn)["law"]), max(dict(drawn)["law"])) == (pytest.approx(32), pytest.approx(1024))
    expect(page.locator("#axis-sentence")).to_contain_text("highest at 512")
    page.get_by_label("Forecast a run at batch").fill("1024")
    page.get_by_role("button", name="Forecast", exact=True).click()
    expect(page.locator("#axis-said")).to_contain_text("Batch 1,024: forecast ceiling ")
    live(page, "#axis-chart")
    look(page, "study-axis")
    page.locator("[data-chart=axis-chart]").get_by_text("Save or share").click()
    with page.expect_download() as download:
        page.locator("[data-chart=axis-chart]").get_by_role("button", name="CSV", exact=True).click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    shown = page.evaluate("JSON.parse(document.getElementById('figures').textContent).axis.points")
    written = [
        [float(row[end]) for end in ("y", "lo", "hi")] for row in rows if row["series"] == "forecast ceiling"
    ]
    assert written == [
        pytest.approx([point["forecast"][end] for end in ("value", "lo", "hi")]) for point in shown
    ]


@pytest.mark.deep
def test_the_planner_answers_what_is_asked(page, make_run):
    page.watch.expect("422")
    page.set_default_timeout(30_000)  # the first answer draws curves of every run
    page.goto("/planner")
    look(page, "planner-empty")
    for seed in range(2):
        make_run(24, a=0.7 + 0.01 * seed, seed=seed, name="good")
    make_run(24, a=0.5, recipe="tiny-minimax", seed=3, name="poor")
    make_run(14, a=0.65, to=2.0, recipe="tiny-magistral", seed=4, name="young")
    make_run(8, to=0.5, recipe="tiny-qwen25-dapo", seed=5, name="early")
    page.goto("/planner")
    live(page, "#plan-chart")
    look(page, "planner")

    page.get_by_label("Held-out pass rate").fill("0.6")
    page.keyboard.press("Enter")
    expect(page.get_by_text("MiniMax (tiny) rev 1 is not expected to reach 0.6")).to_be_visible(
        timeout=30_000
    )
    assert "target=0.6" in page.url
    page.get_by_label("Keep", exact=True).fill("99")
    page.keyboard.press("Enter")
    expect(page.locator("#keep-error")).to_contain_text("whole number", timeout=30_000)
    page.get_by_label("Keep", exact=True).fill("1")
    page.keyboard.press("Enter")
    expect(page.locator("tr.kept")).to_have_count(1, timeout=30_000)
    page.locator("tr.kept a").first.click()
    page.wait_for_url("**/runs/*")


def test_several_other_runs_are_chosen_before_the_planner_is_asked(page, make_run):
    page.set_default_timeout(30_000)
    make_run(14, a=0.6, name="at work")
    for seed in (1, 2):
        make_run(14, a=0.6, seed=seed, name=f"over {seed}", ended="succeeded")
    page.goto("/planner")

    page.get_by_text("Other runs to look at, 2").click()
    for seed in (1, 2):
        page.get_by_label(f"over {seed}").check()
    page.get_by_role("button", name="Look at these too").click()

    expect(page.get_by_role("checkbox", name="is among them")).to_have_count(3)


@pytest.mark.deep
def test_on_the_planners_chart_a_series_has_the_shape_that_its_key_shows(page, make_run):
    for number in range(8):  # more than there are colours
        run = make_run(8, a=0.5 + 0.03 * number, seed=number, name=f"tracked {number}")
        Run.objects.filter(pk=run.pk).update(revision=None)
    page.goto("/planner")
    live(page, "#plan-chart")

    marks = page.locator("#plan-chart").evaluate(
        "node => node.data.filter(t => t.showlegend).map(t => [t.marker.color, t.marker.symbol])"
    )
    paths = page.locator(".legend .key path").evaluate_all(
        "nodes => nodes.map(node => node.getAttribute('d'))"
    )
    assert len(marks) == len(paths) == len({tuple(mark) for mark in marks}) == 8
    pairs = {(symbol, path) for (_, symbol), path in zip(marks, paths, strict=True)}
    assert len(pairs) == len({symbol for symbol, _ in pairs}) == len({path for _, path in pairs})


@pytest.mark.deep
def test_a_study_is_renamed_and_archived_from_its_page(page, user, project, model_folder):
    study = make_study(user, project)
    page.goto(f"/studies/{study.pk}")

    live(page, "#axis-chart")
    nothing, title = (
        page.locator(f"#axis-chart {text}").bounding_box() for text in (".annotation-text", ".xtitle")
    )
    assert nothing["y"] + nothing["height"] < title["y"]  # one below the other, not on top of each other
    page.get_by_role("button", name="Rename", exact=True).click()
    page.get_by_label("Name", exact=True).fill("Which loss")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Which loss", level=1)).to_be_visible()
    page.get_by_role("button", name="Archive", exact=True).click()
    look(page, "study-archive")
    page.get_by_role("dialog").get_by_role("button", name="Archive").click()
    expect(page.get_by_role("heading", name="Every study is archived")).to_be_visible()
    page.get_by_role("link", name="1 archived study").click()
    page.get_by_role("link", name="Which loss").click()
    expect(page.get_by_text("This study is archived")).to_be_visible()
    look(page, "study-archived")
    page.get_by_role("button", name="Take out of the archive").click()

    expect(page.get_by_text("This study is archived")).to_have_count(0)
