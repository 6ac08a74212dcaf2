"""The page of the audit log, and its files."""

import csv
import io
import json

import pytest

from tests.members import member
from webapp.identity.accounts.models import Role
from webapp.identity.accounts.services import create_project
from webapp.identity.audit.models import Event
from webapp.identity.audit.services import record, record_each
from webapp.reporting.shares.services import create_share


def text_of(answer):
    if answer.streaming:
        return b"".join(answer.streaming_content).decode()
    return answer.content.decode()


@pytest.fixture
def owner(client, user, project):
    project.organisation.owners.add(user)
    client.force_login(user)
    return client


def test_what_happened_is_told_with_links(ada, make_run):
    run = make_run(0, name="A <run>")
    page = text_of(ada.get("/audit"))

    assert "launched run" in page and f'href="/runs/{run.pk}"' in page
    assert "A &lt;run&gt;" in page and "A <run>" not in page


def test_a_request_leaves_its_address(ada, make_run):
    run = make_run(0)
    ada.post(f"/runs/{run.pk}/stop", REMOTE_ADDR="192.0.2.44")

    event = Event.objects.get(verb="run.stopped")
    assert (event.address, event.actor_name) == ("192.0.2.44", "ada")
    assert "192.0.2.44" in text_of(ada.get("/audit"))
    assert Event.objects.get(verb="run.launched").address is None  # by no request


def test_it_is_narrowed(ada, user, project):
    for key, verb in (("r1", "run.launched"), ("r2", "run.stopped")):
        record(verb, actor=user, project=project, kind="run", key=key, name=f"Run {key}")

    page = text_of(ada.get("/audit?verb=run.stopped"))
    assert "Run r2" in page and "Run r1" not in page
    assert "Nothing was found" in text_of(ada.get("/audit?person=nobody"))
    answer = ada.get("/audit?since=yesterday")
    assert answer.status_code == 422 and "a day is written like" in text_of(answer)
    for odd in (
        "before=-1",
        "before=x",
        "before=99999999999999999999",
        "since=0001-01-01",
        "until=9999-12-31",
    ):
        assert ada.get(f"/audit?{odd}").status_code == 200


def test_older_pages(ada, project):
    record_each(
        "run.tagged",
        actor=None,
        project=project,
        kind="run",
        things=[(f"r{i}", f"Run no. {i}.") for i in range(60)],
    )
    page = text_of(ada.get("/audit"))
    assert "Run no. 59." in page and "Run no. 9." not in page
    before = page.split("before=")[1].split('"')[0]

    page = text_of(ada.get(f"/audit?before={before}"))
    assert "Run no. 9." in page and "Run no. 59." not in page and "Older" not in page


def test_projects_do_not_see_each_other(ada, project):
    other = create_project(slug="other", name="Other")
    record("run.launched", actor=None, project=other, kind="run", key="x", name="A foreign run")

    for address in ("/audit", "/audit.csv", "/audit.jsonl"):
        assert "A foreign run" not in text_of(ada.get(address))
    assert ada.get("/audit?of=organisation").status_code == 403
    assert ada.get("/audit.csv?of=organisation").status_code == 403


def test_owners_see_their_organisation(owner, project):
    other = create_project(slug="other", name="The other one", organisation=project.organisation)
    record("run.launched", actor=None, project=other, kind="run", key="x", name="A run elsewhere")

    page = text_of(owner.get("/audit?of=organisation"))
    assert "A run elsewhere" in page and "in The other one" in page
    assert "A run elsewhere" not in text_of(owner.get("/audit"))
    assert "A run elsewhere" in text_of(owner.get("/audit.jsonl?of=organisation"))


def test_it_is_exported_as_it_is_narrowed_and_that_is_told(ada, user, project):
    create_share(
        user=user, project=project, kind="run", title='=HYPERLINK("x")', question={"run": "r"}, days=None
    )
    record("run.stopped", actor=user, project=project, kind="run", key="r2", name="A run")

    answer = ada.get("/audit.csv?verb=share")
    assert answer.streaming and answer["Content-Disposition"].startswith(
        'attachment; filename="audit-default-'
    )
    (row,) = csv.DictReader(io.StringIO(text_of(answer)))
    assert row["name"] == '\'=HYPERLINK("x")' and row["actor"] == "ada"
    lines = [json.loads(line) for line in text_of(ada.get("/audit.jsonl?verb=audit")).splitlines()]
    assert [(line["verb"], line["detail"]) for line in lines][-1] == (
        "audit.exported", {"format": "csv", "of": "project"},
    )  # fmt: skip
    assert ada.get("/audit.csv?since=x").status_code == 422


def test_the_page_takes_few_queries(ada, user, project, django_assert_max_num_queries):
    record_each(
        "run.tagged", actor=user, project=project, kind="run", things=[(f"r{i}", "") for i in range(60)]
    )
    with django_assert_max_num_queries(14):
        ada.get("/audit")


def test_admins_only(client, user):
    client.force_login(member("eve", role=Role.REVIEWER))

    assert client.get("/audit").status_code == 403
    assert "/audit" not in text_of(client.get("/runs"))
