"""Runs that train elsewhere and do not say what compute they used: no page calls that nothing, or says it is known."""

import re

import pytest
from django.http import QueryDict

from tests.launching import tracked_run
from tests.webapp.interfaces.pages.data import rate_at
from tests.webapp.interfaces.pages.reading import text_of
from tests.webapp.interfaces.pages.test_run import figure_in
from tests.webapp.science.studies.conftest import make_study  # noqa: F401 (fixture)
from training.records import Record
from webapp.interfaces.pages.run_list.bulk_words import consequences
from webapp.record.runs import ingest, lifecycle
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import listed
from webapp.reporting.reports.document import parse
from webapp.reporting.reports.resolve import NUMBERS, shown
from webapp.reporting.shares.drawing import Drawing
from webapp.reporting.shares.models import Share
from webapp.reporting.shares.selectors import drawing_of
from webapp.reporting.shares.services import create_share, question_of
from webapp.science.curves.services import refit
from webapp.science.decisions.services import said, standing
from webapp.science.studies.results import results
from webapp.science.studies.selectors import groups_of
from webapp.science.studies.services import add_run


def evaluation(i, *, known=(), a=0.6):
    """The i-th evaluation, ten steps after the one before; nothing was used before the first."""
    compute = {
        name: (0.5 * i if name in known else None) if i else 0.0
        for name in ("device_hours", "flops", "tokens")
    }
    metrics = {"eval/pass_rate": rate_at(0.5 * i, a=a) + 0.003 * (-1) ** i}
    return Record.model_validate(
        {
            "attempt": 1, "seq": i, "step": 10 * i, "time": "2026-01-01T00:00:00+00:00", "compute": compute,
            "metrics": metrics,
        }
    )  # fmt: skip


@pytest.fixture
def elsewhere(user, project):
    """elsewhere("name", n, known=axes, to=m): a tracked run of n evaluations, whose compute is known up to the m-th."""

    def make(name, n=20, *, known=(), to=None, ended=None, **curve):
        run = tracked_run(user=user, project=project, name=name, task="math", model="8b")
        last = n if to is None else to
        records = [evaluation(i, known=known if i <= last else (), **curve) for i in range(n + 1)]
        ingest.store_records(run, records)
        refit(run.pk)
        if ended:
            lifecycle.report_finished(run, attempt=1, state=ended, message="out of memory")
        return Run.objects.get(pk=run.pk)

    return make


def test_the_list_does_not_say_that_nothing_was_used(ada, elsewhere, make_run):
    elsewhere("silent")
    make_run(0, name="in the queue")

    page = ada.get("/runs").content.decode()

    silent, queued = (page[page.index(f">{name}") :].split("</tr>")[0] for name in ("silent", "in the queue"))
    assert "not known" in silent and "0 <span" not in silent
    assert '<span class="small">0 <span class="muted">/ 16.0</span>' in queued
    assert "needs device-hours" in silent and "no forecast yet" in queued


def test_the_overview_does_not_either(ada, elsewhere):
    elsewhere("at work")
    elsewhere("crashed", ended="failed")
    elsewhere("done", ended="succeeded")

    page = ada.get("/").content.decode()

    assert '<span class="small muted">not known</span>' in page
    assert "Look at its trainer." in page
    assert "Nothing was trained" not in page
    assert "its device-hours are not known." in page
    assert "no curve could be fitted" not in page


def test_stopping_says_of_how_many_it_is_not_known(elsewhere, make_run, project):
    silent = elsewhere("silent")
    make_run(16, name="known")
    words = lambda **which: consequences("stop", list(listed(project).filter(**which)))[-1]

    assert words() == "Spent so far: 8.00 of 16.0 device-hours; of 1 run it is not known."
    assert words(pk=silent.pk) == "What was spent so far is not known."


def test_decisions_and_reports_do_not_call_it_nothing(elsewhere):
    run = elsewhere("silent")
    state = standing(run)

    assert NUMBERS["compute"](state) == ("Compute used", "–", "its device-hours are not known")
    assert "device-hours" not in said(state)


def figure_of(ada, run, query=""):
    return figure_in(ada.get(f"/runs/{run.pk}{query}").content.decode())


def test_a_start_alone_is_no_curve_over_hours_that_nobody_knows(ada, elsewhere):
    figure = figure_of(ada, elsewhere("silent"), "?x=device_hours")

    assert figure["start"] is not None
    assert figure["empty"]["title"] == "Its device-hours are not known"
    assert figure["now"]["sentence"] == "of no evaluation the device-hours are known"
    assert "which are not known of enough evaluations" in figure["verdict"]
    assert figure["progress"]["text"] == "device-hours not known"
    flops = figure_of(ada, elsewhere("silent"), "?x=flops")["empty"]
    assert flops["title"] == "Its FLOPs are not known"


def test_evaluations_that_an_axis_cannot_show_are_counted(ada, elsewhere):
    run = elsewhere("until half way", 20, known=("device_hours",), to=12)

    hours, steps = figure_of(ada, run), figure_of(ada, run, "?x=step")

    assert len(hours["points"]["x"]) == 12
    assert hours["empty"] is None
    assert hours["unknown"] == (
        "The device-hours of 8 of 21 evaluations are not known: they are not drawn here and not in the fit. "
        "Steps are known of all."
    )
    assert hours["now"]["sentence"].endswith("; 8 evaluations since, device-hours not known")
    assert len(steps["points"]["x"]) == 20
    assert steps["unknown"] == ""
    assert hours["progress"]["text"] == steps["progress"]["text"] == "at least 6.00 device-hours"


def test_a_launched_run_knows_all_of_its_compute(ada, make_run):
    figure = figure_of(ada, make_run(12))

    assert figure["unknown"] == ""
    assert figure["progress"]["text"] == "8.00 of 16.0 device-hours"


def test_a_comparison_says_whose_compute_is_not_known(ada, elsewhere):
    hours = ("device_hours",)
    runs = [elsewhere("silent"), elsewhere("told", known=hours), elsewhere("half", known=hours, to=9)]
    nothing = elsewhere("nothing", 0)
    ask = lambda **query: ada.get("/compare", query).content.decode()

    page = ask(run=[run.pk for run in [*runs, nothing]])
    assert "Not drawn, because their device-hours are not known; steps are: silent, seed 0." in page
    assert "without the evaluations whose device-hours are not known: half, seed 0." in page
    assert "No evaluation on this axis yet: nothing, seed 0." in page
    steps = ask(run=[run.pk for run in runs], x="step")
    assert "not known" not in steps

    alone = ask(run=[runs[0].pk, elsewhere("silent too", a=0.5).pk])
    assert "Nothing to draw on this axis" in alone
    assert "Nothing can be said of their order" in alone


def test_more_than_a_few_are_not_said_to_lack_evaluations(ada, make_run):
    ids = [make_run(8, seed=seed).pk for seed in range(13)]

    page = ada.get("/compare", {"run": ids, "x": "step", "by": "run"}).content.decode()

    assert "choose at most 12 series to have them fitted" in page
    assert "cannot be told apart at 8 steps" in page
    assert "a fit needs at least five evaluations" not in page
    assert "ceilings is identified yet" not in page


@pytest.mark.parametrize("address", ["/leaderboard", "/planner", "/planner?group=math:8b"])
def test_rankings_and_plans_say_whom_they_leave_out(ada, elsewhere, address):
    elsewhere("silent")
    elsewhere("half", known=("device_hours",), to=9)  # stands there with what is known of it
    page = text_of(ada.get(address))
    assert ">1 run</a> with a pass rate is not here: its device-hours are not known." in page
    listed_there = ada.get(re.search(r'href="(/runs\?filter=used[^"]*)"', page)[1].replace("&amp;", "&"))
    assert ">silent" in listed_there.content.decode() and ">half" not in listed_there.content.decode()

    elsewhere("told", known=("device_hours",))
    elsewhere("silent too")
    elsewhere("nothing", 0)

    assert ">2 runs</a> with a pass rate are not here" in text_of(ada.get(address))


def test_a_study_shows_the_pass_rate_and_no_hours(elsewhere, make_study):  # noqa: F811
    study, silent = make_study(changes=("loss=dapo",), seeds=(0,)), elsewhere("silent")
    add_run(study, silent)

    groups = groups_of(study)
    members = [one for group in groups for one in group.members]

    found = next(one for one in members if one.run == silent)
    assert (found.used, found.newest[0]) == (None, silent.summary.pass_rate)
    assert [one.used for one in members if one.run != silent] == [0.0, 0.0]
    assert results(study, groups)["spent"]["text"] == "0 of 32.0 device-hours; of 1 run not known"


@pytest.fixture
def shared(user, project):
    """shared(kind, "query", **fields): (the drawing of a link, its page, its frame)."""

    def make(client, kind, **fields):
        query = QueryDict(mutable=True)
        for name, value in fields.items():
            query.setlist(name, value if isinstance(value, list) else [value])
        question = question_of(project, kind, query)
        token = create_share(user=user, project=project, kind=kind, question=question, title="Shown", days=7)
        share = Share.objects.get(title="Shown")
        pages = [client.get(f"/{place}/{token}").content.decode() for place in ("s", "embed")]
        return drawing_of(share), *pages

    return make


def test_a_shared_run_says_what_it_cannot_draw(client, elsewhere, shared):
    run = elsewhere("until half way", 20, known=("device_hours",), to=12)

    drawing, page, frame = shared(client, "run", run=run.pk)

    said = (
        "The device-hours of 8 of 21 evaluations are not known: they are not drawn here and not in the fit."
    )
    assert drawing.missing[0].startswith(said)
    assert f'<p class="small muted">{said}' in page and f'<p class="small muted">{said}' in frame
    assert said in re.search(r'property="og:description" content="([^"]*)"', page)[1]


def test_a_shared_run_without_any_known_compute_is_not_called_without_evaluations(client, elsewhere, shared):
    run = elsewhere("silent")

    drawing, page, _ = shared(client, "run", run=run.pk, x="device_hours")

    assert drawing.is_empty and "No evaluation yet" not in page
    assert "Nothing to draw on this axis" in page and "of 21 evaluations are not known" in page


def test_a_shared_comparison_says_what_it_cannot_draw(client, elsewhere, shared):
    runs = [elsewhere("half", known=("device_hours",), to=12), elsewhere("whole", known=("device_hours",))]

    drawing, page, _ = shared(client, "comparison", run=[run.pk for run in runs])

    said = "Drawn and fitted without the evaluations whose device-hours are not known: half"
    assert len(drawing.missing) == 1 and drawing.missing[0].startswith(said)
    assert said in page


def test_a_chart_in_a_report_says_what_it_cannot_draw(ada, project, elsewhere):
    run = elsewhere("until half way", 20, known=("device_hours",), to=12)
    ask = parse(f"chart: run\nrun: {run.pk}", 1)

    block = shown(project, ask)
    again = Drawing.from_json(block["drawing"])

    assert again.missing == tuple(block["drawing"]["missing"])
    assert again.missing[0].startswith("The device-hours of 8 of 21 evaluations")


def test_a_fit_that_failed_is_no_fit_anywhere(client, ada, user, project, shared):
    """As where all evaluations share one compute."""
    run = tracked_run(user=user, project=project, name="one compute", task="math", model="8b")
    one = evaluation(6, known=("device_hours",)).compute
    same = [evaluation(0)] + [evaluation(i).model_copy(update={"compute": one}) for i in range(1, 9)]
    ingest.store_records(run, same)
    refit(run.pk)
    assert Run.objects.get(pk=run.pk).summary.fit_status == "failed"

    page = ada.get("/runs").content.decode()

    row = page[page.index(">one compute") :].split("</tr>")[0]
    assert row.count("no forecast yet") == 1 and "whisker" not in row
    drawing, link, _ = shared(client, "run", run=run.pk)
    assert drawing.is_unfitted and "</svg>evaluations</span>" in link and "extrapolation" not in link
    assert 'class="legend grow unfitted"' in ada.get(f"/runs/{run.pk}").content.decode()
