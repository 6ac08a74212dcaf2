"""What is said of a run is put right on its page and, of many, on the list; and deleted runs come back."""

import re

import pytest

from tests.launching import tracked_run
from tests.members import member
from tests.webapp.interfaces.pages.reading import page_of, text_of
from tests.webapp.interfaces.pages.run.test_meaning import elsewhere  # noqa: F401 (fixture)
from webapp.record.runs import lifecycle
from webapp.record.runs.models import Run

SENT = {
    "name": "again",
    "tags": "paper, Sweep-3",
    "notes": "Node 3\n<b>slow</b>",
    "task": "code",
    "model": "8b",
    "seed": "7",
}


def form_in(page):
    return dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))


def test_a_run_that_trains_elsewhere(ada, elsewhere):  # noqa: F811
    run = elsewhere("val/accuracy")

    page = ada.post(f"/runs/{run.pk}/change", SENT, follow=True).content.decode()

    assert "Changed what is said of again." in page or "Changed what is said of elsewhere." in page
    assert "<h1>again</h1>" in page and "on code, 8b, seed 7" in page
    assert "&lt;b&gt;slow&lt;/b&gt;" in page and "filter=tag:sweep-3" in page
    assert Run.objects.get(pk=run.pk).tags == ["paper", "sweep-3"]


def test_of_a_launched_run_only_what_people_say(ada, make_run):
    run = make_run(3)
    page = page_of(ada, run)
    assert 'id="change-name"' in page and 'id="change-seed"' not in page

    ada.post(f"/runs/{run.pk}/change", {"name": "again", "tags": "", "notes": ""})
    assert Run.objects.get(pk=run.pk).name == "again"
    said = ada.post(f"/runs/{run.pk}/change", SENT, follow=True).content.decode()
    assert "its task is what it trains with" in said


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"seed": "x"}, "Seed: a whole number"),
        ({"name": ""}, "name must not be empty"),
        ({"tags": "!"}, "tags: a tag is"),
    ],
)
def test_what_is_wrong_is_said(ada, elsewhere, sent, words):  # noqa: F811
    run = elsewhere("val/accuracy")

    assert words in ada.post(f"/runs/{run.pk}/change", SENT | sent, follow=True).content.decode()
    assert Run.objects.get(pk=run.pk).name == "elsewhere"


def test_a_viewer_changes_nothing(client, elsewhere, project):  # noqa: F811
    client.force_login(member("guest", project=project, role="viewer"))
    run = elsewhere("val/accuracy")

    page = page_of(client, run)
    assert "change-dialog" not in page and "action=delete" not in page
    assert client.post(f"/runs/{run.pk}/change", SENT).status_code == 403
    assert client.post(f"/runs/{run.pk}/meaning/preview", {}).status_code == 403


def test_the_curve_is_shown_before_it_is_saved(ada, elsewhere):  # noqa: F811
    run = elsewhere("val/accuracy")
    see = lambda **sent: text_of(ada.post(f"/runs/{run.pk}/meaning/preview", sent))

    page = see(pass_rate="val/accuracy", n_prompts="200", devices="16")
    assert "8 evaluations: <strong>0.200</strong> ± 0.028 at 0" in page and "at 112 device-hours." in page
    assert "<svg" in page
    assert "at 0.00350 device-hours." in see(pass_rate="val/accuracy", devices="0.0005")
    assert "standard errors are not known" in see(pass_rate="val/accuracy")
    assert "train/loss is to be" not in see(pass_rate="no/such") and "no metric no/such" in see(
        pass_rate="no/such"
    )
    assert "would have no evaluation" in see()
    assert Run.objects.get(pk=run.pk).meaning == {}


def test_many_are_changed_where_something_is_filled_in(ada, elsewhere, make_run, user, project):  # noqa: F811
    first, second, launched = (
        elsewhere("val/accuracy"),
        tracked_run(user=user, project=project),
        make_run(3),
    )
    ids = ",".join(run.pk for run in (first, second, launched))
    page = ada.get("/runs/bulk", {"action": "change", "runs": ids}).content.decode()
    assert "1 run was launched here" in page

    form = form_in(page) | {"task": "code", "devices": "8", "model": "", "percent": ""}
    assert ada.post("/runs/bulk", form | {"seed": "x"}).status_code == 422
    told = ada.get(ada.post("/runs/bulk", form).url).content.decode()

    assert "2 changed, 1 not changed." in told
    first.refresh_from_db()
    assert (first.task, first.model, first.meaning) == ("code", "unspecified", {"devices": 8.0})
    assert Run.objects.get(pk=launched.pk).task != "code"


def test_curves_of_many_are_shown_before_they_are_saved(client, ada, elsewhere, make_run, user, project):  # noqa: F811
    first, launched = elsewhere("val/accuracy"), make_run(3)
    others = [tracked_run(user=user, project=project, name=f"without {i}") for i in range(4)]
    ids = ",".join(run.pk for run in (first, launched, *others))
    see = lambda **sent: text_of(ada.post("/runs/bulk/preview", {"runs": ids} | sent))

    page = see(pass_rate="val/accuracy", devices="16")
    assert "8 evaluations: <strong>0.200</strong> at 0" in page and "at 112 device-hours." in page
    assert page.count("<svg") == 1 and page.count("no metric val/accuracy") == 3 and "And 1 more." in page
    assert f'id="meaning-values-{first.pk}"' in page
    assert "Devices:" in see(devices="x")
    assert "would have no evaluation" in see()  # nothing is filled in: as it is
    assert Run.objects.get(pk=first.pk).meaning == {}

    client.force_login(member("guest", project=project, role="viewer"))
    assert client.post("/runs/bulk/preview", {"runs": ids}).status_code == 403


def test_a_deleted_run_is_brought_back(ada, elsewhere):  # noqa: F811
    run = elsewhere("val/accuracy")
    assert "action=delete" not in page_of(ada, run)
    lifecycle.report_finished(run, attempt=1, state="succeeded")
    assert f"action=delete&amp;run={run.pk}" in page_of(ada, run)

    form = form_in(ada.get("/runs/bulk", {"action": "delete", "run": run.pk}).content.decode())
    told = ada.get(ada.post("/runs/bulk", form).url).content.decode()
    assert "1 deleted." in told and "Undo" in told
    assert ada.get(f"/runs/{run.pk}/figure").status_code == 404

    listed = ada.get(ada.get(f"/runs/{run.pk}").url).content.decode()
    assert '<span class="pill">deleted</span>' in listed and 'value="restore"' in listed
    assert 'name="action" value="restore"' not in ada.get("/runs").content.decode()

    undo = told[told.index('name="action" value="restore"') - 10 :]
    ada.post("/runs/bulk", form_in(undo[: undo.index("</form>")]))
    assert page_of(ada, run).count("<h1>elsewhere</h1>") == 1


def test_a_run_of_others_stays_unknown(ada, foreign_run):
    Run.objects.filter(pk=foreign_run.pk).update(deleted_at="2026-11-25T00:00:00Z")

    assert ada.get(f"/runs/{foreign_run.pk}").status_code == 404
