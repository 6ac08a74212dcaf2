"""Pages of the decision log, its form and its CSV."""

import csv
import html
import re

import pytest

from tests.deciding import decided
from tests.members import member
from tests.webapp.interfaces.pages.addresses import make_prediction
from webapp.identity.accounts.models import Role
from webapp.science.decisions.models import Decision
from webapp.science.predictions.services import withdraw


@pytest.fixture
def send(ada):
    """send(run, ...): what a browser sends from the form."""
    typed = {"kind": "stop", "reason": "It has bent.", "key": "k", "to": "", "prediction": ""}
    return lambda run, **form: ada.post("/decisions/new", typed | {"run": run.pk} | form)


def words(answer):
    return html.unescape(re.sub(r"<[^>]+>", " ", answer.content.decode()))


def test_from_the_runs_tab_into_the_log(ada, make_run, send):
    run = make_run(10)
    tab = ada.get(f"/runs/{run.pk}?tab=decisions").content.decode()
    assert "Nothing was decided yet" in tab
    assert f'name="run" value="{run.pk}"' in tab

    page = send(run)

    assert page.url == f"/decisions/{Decision.objects.get().pk}"
    assert "It has bent." in words(ada.get(page.url))
    assert "It has bent." in words(ada.get("/decisions"))
    assert "It has bent." in words(ada.get(f"/runs/{run.pk}?tab=decisions"))
    send(run)
    assert Decision.objects.count() == 1


def test_what_is_wrong_stands_beside_its_field(send, make_run, ada):
    run = make_run(0)

    assert 'id="id_reason_error"' in send(run, reason="").content.decode()
    answer = send(run, kind="switch")
    assert answer.status_code == 422
    assert "A switch goes to one other run or one recipe" in words(answer)
    assert ada.get("/decisions/new?run=nothere").status_code == 404
    assert not Decision.objects.exists()


def test_the_form_offers_the_claims_that_stand(ada, make_run, user):
    run = make_run(10)
    old, withdrawn = make_prediction(user, run), make_prediction(user, run)
    new = make_prediction(user, run, replaces=old)
    withdraw(withdrawn, user=user, reason="The data were wrong.")

    form = ada.get(f"/decisions/new?run={run.pk}").content.decode()

    offered = [one.pk for one in (old, withdrawn, new) if f'<option value="{one.pk}"' in form]
    assert offered == [new.pk]


def test_the_log_is_filtered_by_person_run_and_kind(ada, user, project, make_run):
    bob, runs = member("bob", project=project), [make_run(0), make_run(0, seed=1)]
    decided(user=user, project=project, kind="stop", runs=[runs[0]], reason="first reason")
    decided(user=bob, project=project, kind="continue", runs=[runs[1]], reason="second reason")

    for query, first, second in (
        ("person=bob", False, True), (f"run={runs[0].pk}", True, False), ("kind=continue", False, True),
        ("person=nobody", False, False), ("kind=pause", True, True), ("run=%00", True, True),
    ):  # fmt: skip
        said = words(ada.get(f"/decisions?{query}"))
        assert ("first reason" in said, "second reason" in said) == (first, second), query


def test_the_csv_has_a_row_for_each_run_and_no_formula(ada, user, project, make_run):
    runs = [make_run(10), make_run(0, seed=1)]
    decided(user=user, project=project, kind="stop", runs=runs, reason="=1+1")

    rows = list(csv.DictReader(ada.get("/decisions.csv").content.decode().splitlines()))

    assert [row["run"] for row in rows] == [run.pk for run in runs]
    assert rows[0]["reason"] == "'=1+1"
    assert 0 < float(rows[0]["ceiling_lo"]) < float(rows[0]["ceiling"]) < float(rows[0]["ceiling_hi"])


def test_a_note_is_added_and_a_viewer_is_offered_nothing(ada, client, user, project, make_run):
    run = make_run(0)
    decision = decided(user=user, project=project, kind="stop", runs=[run], reason="why")
    ada.post(f"/decisions/{decision.pk}/notes", {"text": "It came as expected."})
    assert "A note is required" in words(ada.post(f"/decisions/{decision.pk}/notes", {"text": " "}))

    client.force_login(member("vera", project=project, role=Role.VIEWER))
    page = client.get(f"/decisions/{decision.pk}")

    assert "It came as expected." in words(page)
    assert "Add a note" not in words(page)
    assert "Store the decision" not in words(client.get(f"/runs/{run.pk}?tab=decisions"))
    assert client.post(f"/decisions/{decision.pk}/notes", {"text": "x"}).status_code == 403


def test_one_of_another_project_is_not_there(ada, foreign_run, db):
    mallory = member("mallory", project=foreign_run.project)
    decision = decided(
        user=mallory, project=foreign_run.project, kind="stop", runs=[foreign_run], reason="secret"
    )

    assert ada.get(f"/decisions/{decision.pk}").status_code == 404
    assert "secret" not in words(ada.get("/decisions"))
