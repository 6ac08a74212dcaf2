"""The decision log, and its entries on the pages of runs, predictions and studies."""

import html
import re

import pytest

from tests.members import member
from tests.webapp.interfaces.pages.addresses import make_prediction
from webapp.identity.accounts.models import Role
from webapp.science.decisions.models import Entry
from webapp.science.decisions.services import decide


@pytest.fixture
def send(ada):
    """send(run, ...): what a browser sends from the form."""
    typed = {"kind": "stop", "reason": "It has bent.", "key": "k", "to": "", "about": "run"}
    return lambda found, **form: ada.post("/decisions/new", typed | {"object_id": found.pk} | form)


def words(answer):
    return html.unescape(re.sub(r"<[^>]+>", " ", answer.content.decode()))


def test_from_the_runs_tab_into_the_log(ada, make_run, send):
    run = make_run(10)
    tab = ada.get(f"/runs/{run.pk}?tab=decisions").content.decode()
    assert "Nothing was decided yet" in tab
    assert f'name="object_id" value="{run.pk}"' in tab

    page = send(run)

    assert page.url == f"/runs/{run.pk}?tab=decisions#tabs"
    assert "It has bent." in words(ada.get(page.url))
    assert "It has bent." in words(ada.get("/decisions"))
    send(run)
    entry = Entry.objects.get()
    assert ada.get(f"/decisions/{entry.pk}").url == f"/decisions?object_id={run.pk}#decision-{entry.pk}"


def test_a_prediction_shows_its_own(ada, make_run, send, user):
    prediction = make_prediction(user, make_run(10))

    page = send(prediction, about="prediction", kind="note", reason="We build on it.")

    assert page.url == f"/predictions/{prediction.pk}#decisions"
    assert "We build on it." in words(ada.get(page.url))
    assert "We build on it." in words(ada.get("/decisions?about=prediction"))
    assert "We build on it." not in words(ada.get(f"/runs/{prediction.run_id}?tab=decisions"))


def test_what_is_wrong_stands_beside_its_field(send, make_run):
    run = make_run(0)

    assert 'id="id_reason_error"' in send(run, reason="").content.decode()
    answer = send(run, kind="switch")
    assert answer.status_code == 422
    assert "Say of a switch, and of nothing else, what it goes to" in words(answer)
    assert send(run, about="recipe").status_code == 404
    assert not Entry.objects.exists()
    assert send(run, to="was typed before another kind was chosen").status_code == 302


def test_the_log_is_filtered_by_person_kind_and_object(ada, user, project, make_run):
    bob, runs = member("bob", project=project), [make_run(0), make_run(0, seed=1)]
    decide(runs[0], user=user, kind="stop", reason="first reason")
    decide(runs[1], user=bob, kind="continue", reason="second reason")

    for query, first, second in (
        ("person=bob", False, True), (f"object_id={runs[0].pk}", True, False), ("kind=continue", False, True),
        ("person=nobody", False, False), ("kind=pause", True, True), ("about=study", False, False),
        ("about=run", True, True), ("object_id=%00", True, True),
    ):  # fmt: skip
        said = words(ada.get(f"/decisions?{query}"))
        assert ("first reason" in said, "second reason" in said) == (first, second), query


def test_a_viewer_is_offered_nothing(client, user, project, make_run):
    run = make_run(0)
    decide(run, user=user, kind="stop", reason="why")
    client.force_login(member("vera", project=project, role=Role.VIEWER))

    page = words(client.get(f"/runs/{run.pk}?tab=decisions"))

    assert "why" in page
    assert "Store the decision" not in page
    sent = {"about": "run", "object_id": run.pk, "kind": "stop", "reason": "x", "key": "k"}
    assert client.post("/decisions/new", sent).status_code == 403


def test_one_of_another_project_is_not_there(ada, foreign_run, db):
    mallory = member("mallory", project=foreign_run.project)
    entry = decide(foreign_run, user=mallory, kind="stop", reason="secret")

    assert ada.get(f"/decisions/{entry.pk}").status_code == 404
    assert "secret" not in words(ada.get("/decisions"))
    sent = {"about": "run", "object_id": foreign_run.pk, "kind": "stop", "reason": "x", "key": "k"}
    assert ada.post("/decisions/new", sent).status_code == 404
