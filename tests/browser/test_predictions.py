"""Predictions in a real browser: the whole story from a frozen fit to its score, and everything around it."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.charts import live
from tests.browser.conftest import NARROW
from tests.browser.look import look
from tests.members import member
from tests.webapp.interfaces.pages.addresses import make_prediction
from tests.webapp.interfaces.pages.data import curve_records
from webapp.identity.accounts.models import Role
from webapp.record.runs import ingest
from webapp.science.curves.services import refit
from webapp.science.predictions import services
from webapp.science.predictions.judging import score_run
from webapp.science.predictions.models import Outcome, Prediction

LIVE = 20_000  # milliseconds for what arrives without a reload: a poll, on a busy machine
FULL = 16.0  # device-hours, the budget; runs begin with half of it


@pytest.fixture
def half_run(make_run):
    """A run at half of its budget: 30 evaluations over 8 of 16 device-hours."""
    return make_run(30, name="ScaleRL, first seed", budget_hours=FULL)


@pytest.fixture
def grace(user, project):
    """A colleague who may review."""
    return member("grace", project=project, role=Role.REVIEWER)


def go_on(run, *, last: int = 62, score: bool = True) -> None:
    """The run's next evaluations, as its trainer would send them, and then what the worker does with them."""
    records = curve_records(60, to=FULL, seed=run.seed + 1, first=31)
    more = [one for one in records if one.seq <= last]
    if last > 60:
        more += curve_records(62, to=FULL * 62 / 60, seed=run.seed + 2, first=61)
    ingest.store_records(run, more)
    refit(run.pk)
    if score:
        score_run(run.pk)


def wait_for_chart(page: Page, chart: str = "chart") -> None:
    live(page, f"#{chart}")


def traces(page: Page, chart: str = "chart") -> dict[str, int]:
    """How many points each named trace has."""
    return page.evaluate(
        "id => Object.fromEntries(document.getElementById(id).data.filter(t => t.name).map(t => [t.name, t.x.length]))",
        chart,
    )


@pytest.mark.deep
def test_the_whole_story(new_page, user, grace, half_run):
    ada, colleague = new_page(signed_in=user), new_page(signed_in=grace)
    colleague.watch.expect("422")  # the browser's console notes the verdict without its reason

    # Ada freezes at half of the compute.
    ada.goto(f"/runs/{half_run.pk}")
    wait_for_chart(ada)
    ada.get_by_role("link", name="Freeze as a prediction").click()
    wait_for_chart(ada, "preview-chart")
    expect(ada.get_by_label("Target compute")).to_have_value("16")
    proposed = float(ada.get_by_label("Value").input_value())
    assert abs(proposed - 0.6) < 0.03
    look(ada, "prediction-new")
    ada.get_by_label("Target compute").fill("4")
    expect(ada.locator("#target-says")).to_contain_text("before the data")
    ada.get_by_label("Target compute").fill("16")
    expect(ada.locator("#target-says")).to_have_text(re.compile(r"^\s*$"))
    ada.get_by_label("From").fill("0.5985")
    ada.get_by_label("To", exact=True).fill("0.6005")
    ada.get_by_label("Value").fill("0.6")
    ada.get_by_label("Reasons").fill("The bend is behind us, and seeds agree.")
    ada.get_by_label("grace").check()
    ada.get_by_role("button", name="Freeze it").click()
    expect(ada.get_by_role("heading", level=1)).to_contain_text("pass rate 0.6")
    first = Prediction.objects.get()
    wait_for_chart(ada)
    assert traces(ada)["fitted"] == 30
    assert traces(ada)["after"] == 0
    expect(ada.locator("#review-refusal")).to_contain_text("your own prediction")

    # Grace is told, looks, asks for changes, and comments on a point.
    colleague.goto("/")
    expect(colleague.locator("#o-reviews")).to_contain_text("Pass rate 0.6")
    expect(
        colleague.get_by_role("navigation", name="Pages").get_by_role("link", name="Predictions 1")
    ).to_be_visible()
    colleague.keyboard.press("g")
    colleague.keyboard.press("f")
    colleague.wait_for_url("**/predictions")
    colleague.get_by_role("link", name=re.compile("Awaiting my review")).click()
    colleague.locator(".claims a").first.click()
    wait_for_chart(colleague)
    colleague.get_by_role("link", name="Window sensitivity").click()
    expect(colleague.locator("#panel table")).to_contain_text("frozen", timeout=30_000)
    colleague.get_by_role("link", name="Forms", exact=True).click()
    expect(colleague.locator("#panel")).to_contain_text("Power law", timeout=30_000)
    colleague.get_by_label("About").select_option(index=3)
    colleague.get_by_label("Comment", exact=True).fill("Is this one an outlier, @a")
    colleague.keyboard.press("Enter")
    expect(colleague.get_by_label("Comment", exact=True)).to_have_value("Is this one an outlier, @ada ")
    colleague.get_by_role("button", name="Comment", exact=True).click()
    expect(colleague.locator(".thread")).to_have_count(1)
    expect(colleague.locator("#chart .annotation", has_text=re.compile("^1$"))).to_be_visible()
    look(colleague, "prediction-review")
    colleague.get_by_role("radio", name=re.compile("^Ask for changes")).check()
    colleague.get_by_role("button", name="Give the verdict").click()
    expect(colleague.locator("#review-error")).to_contain_text("required")
    colleague.get_by_label("Reason", exact=True).fill("Too narrow: one evaluation scatters by 0.004.")
    colleague.get_by_role("button", name="Give the verdict").click()
    expect(colleague.locator("#verdicts")).to_contain_text("changes asked")

    # Ada sees both without a reload, answers, and makes a changed claim.
    expect(ada.locator("#verdicts")).to_contain_text("Too narrow", timeout=LIVE)
    expect(ada.locator(".thread .mention")).to_have_text("@ada")
    ada.locator(".thread summary", has_text="Reply").click()
    ada.get_by_label("Reply to thread 1").fill("No: it is within the noise.")
    ada.get_by_role("button", name="Reply", exact=True).click()
    expect(ada.locator(".reply")).to_contain_text("within the noise")
    ada.get_by_role("button", name="Resolve thread 1").click()
    expect(ada.locator(".thread.resolved")).to_have_count(1)
    ada.reload()
    ada.get_by_role("link", name="Make a changed claim").click()
    wait_for_chart(ada, "preview-chart")
    expect(ada.get_by_label("Value")).to_have_value("0.6")
    ada.get_by_label("From").fill("0.58")
    ada.get_by_label("To", exact=True).fill("0.62")
    ada.get_by_role("button", name="Freeze it").click()
    expect(ada.locator(".diff-claims")).to_contain_text("Interval")
    second = Prediction.objects.get(replaces=first)
    expect(colleague.locator("#status")).to_contain_text("changed claim", timeout=LIVE)

    # Grace approves.
    colleague.goto(f"/predictions/{second.pk}")
    colleague.get_by_role("radio", name=re.compile("^Approve")).check()
    colleague.get_by_role("button", name="Give the verdict").click()
    expect(colleague.locator("#status")).to_contain_text("approved")

    # The run goes on; the actuals appear, and past the target the score.
    go_on(half_run, last=45, score=False)
    ada.wait_for_function(
        "document.getElementById('chart').data.find(t => t.name === 'after').x.length === 15"
    )
    go_on(half_run)
    expect(ada.locator("#status")).to_contain_text("inside the interval", timeout=20_000)
    outcome = Outcome.objects.get()
    assert outcome.inside is True
    assert outcome.prediction_id == second.pk
    wait_for_chart(ada)
    ada.wait_for_function(
        "document.getElementById('chart').data.find(t => t.name === 'outcome')?.x.length === 1"
    )
    look(ada, "prediction-scored")
    ada.get_by_role("button", name="near the target").click()
    ada.wait_for_function("document.getElementById('chart')._fullLayout.yaxis.range[0] > 0.5")
    look(ada, "prediction-near")

    ada.goto("/predictions?part=scored")
    expect(ada.locator(".claims")).to_contain_text("inside the interval")
    look(ada, "predictions-scored")
    ada.goto("/calibration")
    wait_for_chart(ada, "calibration-chart")
    expect(ada.locator(".answer")).to_contain_text("1 of 1 interval held what came")
    expect(ada.locator(".answer")).to_contain_text("too few to say")
    look(ada, "calibration-few")


def test_a_claim_is_made_and_discussed_with_the_keyboard_alone(new_page, user, grace, half_run):
    page = new_page(signed_in=user)
    page.goto(f"/predictions/new?run={half_run.pk}")
    wait_for_chart(page, "preview-chart")
    page.get_by_role("radio", name="Pass rate at the target").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".claim-words")).to_contain_text("Ceiling")
    page.get_by_label("Reasons").focus()
    page.keyboard.type("It has bent.")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # grace
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("ceiling 0.")
    wait_for_chart(page)
    page.get_by_label("About").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.type("What of this point, @gr")
    expect(page.get_by_role("option", name="@grace")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".thread")).to_contain_text("@grace")
    expect(page.locator(".thread")).to_contain_text("about 0.")
    assert Prediction.objects.get().statement == "ceiling"


def test_a_point_of_the_chart_is_clicked_to_speak_of_it(page, user, half_run):
    claim = make_prediction(user, half_run)
    page.goto(f"/predictions/{claim.pk}")
    wait_for_chart(page)

    page.locator("#chart .scatterlayer .trace .points path").nth(5).click(force=True)

    expect(page.get_by_label("Comment", exact=True)).to_be_focused()
    assert page.get_by_label("About").input_value() != ""
    page.keyboard.type("Here.")
    page.get_by_role("button", name="Comment", exact=True).click()
    number = page.locator("#chart .annotation", has_text=re.compile("^1$"))
    expect(number).to_be_visible()
    number.click(force=True)
    expect(page.locator(".thread")).to_be_focused()


def test_what_is_refused_keeps_everything_that_was_typed(page, half_run):
    page.watch.expect("422")
    page.goto(f"/predictions/new?run={half_run.pk}")
    wait_for_chart(page, "preview-chart")
    page.get_by_label("Value").fill("0.6")
    page.get_by_label("From").fill("0.7")
    page.get_by_label("To", exact=True).fill("0.5")
    page.get_by_label("Reasons").fill("Upside down.")
    page.get_by_role("button", name="Freeze it").click()

    expect(page.locator("#id_hi_claim_error")).to_contain_text("upside down")
    expect(page.get_by_label("Reasons")).to_have_value("Upside down.")
    expect(page.get_by_label("From")).to_have_value("0.7")
    assert not Prediction.objects.exists()
    look(page, "prediction-new-refused")


def test_an_answer_from_before_does_not_undo_what_is_typed(page, half_run):
    held = []
    page.clock.install()
    page.goto(f"/predictions/new?run={half_run.pk}")
    wait_for_chart(page, "preview-chart")
    page.route("**/predictions/new/proposal*", lambda route: held.append(route))
    with page.expect_request("**/predictions/new/proposal*"):
        page.get_by_label("Level of the interval").select_option("0.5")
    page.clock.pause_at(page.evaluate("() => Date.now() + 1000"))  # what is typed now is asked about later

    page.get_by_label("Value").fill("0.6")
    with page.expect_response("**/predictions/new/proposal*"):
        held[0].continue_()
    page.clock.run_for(100)
    expect(page.locator("#preview")).to_contain_text("50 % 0.")
    expect(page.get_by_label("Value")).to_have_value("0.6")

    page.unroute_all()
    page.clock.resume()
    page.get_by_label("From").fill("0.55")
    expect(page.locator("#preview")).to_contain_text("50 % 0.550")
    expect(page.get_by_label("Value")).to_have_value("0.6")
    expect(page.get_by_label("From")).to_have_value("0.55")
    page.get_by_role("button", name="Use those of the forecast").click()
    expect(page.get_by_label("Value")).not_to_have_value("0.6")


def test_typing_faster_than_the_answers_come_is_no_error(page, half_run):
    said, held = [], []
    page.clock.install()
    page.on("console", lambda message: said.append(message.text))
    page.goto(f"/predictions/new?run={half_run.pk}")
    page.route("**/predictions/new/proposal?*", lambda route: held.append(route), times=1)
    target = page.get_by_label("Target compute")
    with page.expect_request("**/predictions/new/proposal?*target=12*"):
        target.fill("12")

    target.fill("14")
    page.clock.run_for(400)  # longer than the form waits for more
    with page.expect_response("**/predictions/new/proposal?*target=14*"):
        held[0].continue_()

    expect(target).to_have_value("14")
    assert [text for text in said if "htmx" in text] == []


@pytest.mark.deep
def test_two_tabs(page, new_page, user, half_run):
    page.watch.expect("409")
    claim = make_prediction(user, half_run)
    page.goto(f"/predictions/{claim.pk}")
    wait_for_chart(page)
    page.get_by_role("button", name="Withdraw").click()
    page.get_by_role("dialog").get_by_label("Why").fill("Again.")
    other = new_page(signed_in=user)
    other.goto(f"/predictions/{claim.pk}")
    other.get_by_role("button", name="Withdraw").click()
    other.get_by_role("dialog").get_by_label("Why").fill("The data were wrong.")
    other.get_by_role("dialog").get_by_role("button", name="Withdraw").click()
    expect(other.locator("#status")).to_contain_text("The data were wrong.")

    expect(page.locator("#status")).to_contain_text("The data were wrong.", timeout=LIVE)  # without a reload
    expect(page.locator("#actions")).to_have_text(re.compile(r"^\s*$"))
    page.get_by_role("dialog").get_by_role("button", name="Withdraw").click()

    expect(page.locator("main")).to_contain_text("withdrawn")
    claim.refresh_from_db()
    assert claim.withdrawn_reason == "The data were wrong."
    look(page, "prediction-withdrawn")


@pytest.mark.deep
def test_narrow_and_dark(new_page, user, grace, half_run):
    claim = make_prediction(user, half_run)
    services.comment(claim, user=grace, text="Why so sure?", anchor=(4.0, 0.55))
    page = new_page(signed_in=user, viewport=NARROW, color_scheme="dark")
    page.goto(f"/predictions/{claim.pk}")
    wait_for_chart(page)
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    page.get_by_label("Comment", exact=True).fill("Because.")
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.locator(".thread")).to_have_count(2)


@pytest.mark.deep
def test_lists_teach_and_fill(page, user, grace, half_run, make_run, project):
    page.goto("/predictions")
    look(page, "predictions-empty")
    page.goto("/calibration")
    look(page, "calibration-empty")

    project.ranks_forecasters = True
    project.save(update_fields=["ranks_forecasters"])
    rival = make_run(24, a=0.5, seed=3, recipe="tiny-minimax", name="MiniMax")
    make_prediction(user, half_run)
    make_prediction(user, half_run, target=40.0)
    make_prediction(user, half_run, statement="passes", target=15.0, rival=rival)
    mine = make_prediction(grace, half_run, statement="ceiling", reasons="Seeds agree.")
    services.ask_review(mine, user=grace, reviewers=[user])
    page.goto("/predictions")
    look(page, "predictions")
    page.goto("/predictions?part=projections")
    expect(page.locator("main")).to_contain_text("nobody can check")
    page.goto("/")
    expect(page.locator("#o-reviews")).to_contain_text("Ceiling")
    look(page, "overview-reviews")
    page.goto(f"/runs/{half_run.pk}")
    wait_for_chart(page)
    expect(page.locator(".claims-of-run li")).to_have_count(4)
    look(page, "run-with-predictions")
    passing = Prediction.objects.get(statement="passes")
    page.goto(f"/predictions/{passing.pk}")
    wait_for_chart(page)
    look(page, "prediction-passes")


@pytest.mark.deep
def test_calibration_of_many(page, user, grace, make_run, project):
    project.ranks_forecasters = True
    project.save(update_fields=["ranks_forecasters"])
    run = make_run(30, budget_hours=40.0)
    for place in range(8):
        author = (user, grace)[place % 2]
        level = (0.5, 0.9)[place // 4]
        half = 0.02 if author is user else 0.0001
        target = 9.0 + 0.8 * place
        make_prediction(
            author, run, target=target, level=level, value=0.595, lo=0.595 - half, hi=0.595 + half
        )
    go_on(run)
    page.goto("/calibration")
    wait_for_chart(page, "calibration-chart")
    look(page, "calibration")
    page.locator("#by").select_option("author")
    wait_for_chart(page, "calibration-chart")
    expect(page.locator("table").first).to_contain_text("grace")
    look(page, "calibration-by-author")
