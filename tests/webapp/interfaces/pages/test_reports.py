"""Pages of reports: who sees which, saving by a script, the picker, links and files."""

import html
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.members import member
from webapp.identity.accounts.models import Role
from webapp.identity.accounts.services import create_project
from webapp.reporting.reports.models import Report
from webapp.reporting.reports.services import create_report, publish, save_draft, unpublish
from webapp.reporting.shares.models import Share

LINK = re.compile(r'data-copy="http://testserver(/r/[\w-]+)"')
JSON = {"headers": {"Accept": "application/json"}}


@pytest.fixture
def report(user, project):
    return create_report(user=user, project=project, title="Bent at last", text="Draft words.")


@pytest.fixture
def vera(client, project):
    """A viewer's browser, beside Ada's."""
    browser = type(client)()
    browser.force_login(member("vera", project=project, role=Role.VIEWER))
    return browser


def words(answer):
    return html.unescape(answer.content.decode())


def test_an_empty_list_teaches_and_begins_with_an_example(ada, make_run):
    run = make_run(16)
    assert "Begin with an example" in words(ada.get("/reports"))

    answer = ada.post("/reports/new", {"example": "1", "key": "k"}, follow=True)
    again = ada.post("/reports/new", {"example": "1", "key": "k"})

    assert "Where this recipe tops out" in words(answer)
    assert f"run: {run.pk}" in words(answer)
    assert "to put right" not in words(answer)
    assert "<svg" in words(answer)
    assert again.url == f"/reports/{Report.objects.get().pk}/edit"


def test_what_no_form_has_words_for_is_refused_in_a_sentence(ada):
    answer = ada.post("/reports/new", {"title": "t" * 1000})
    assert answer.status_code == 422 and "characters" in answer.content.decode()

    answer = ada.post("/reports/new", {"title": "t" * 1000}, HTTP_HX_REQUEST="true")
    assert answer["Content-Type"].startswith("text/plain") and "<" not in answer.content.decode()


def test_readers_see_what_is_published_and_never_a_draft(ada, vera, user, report):
    assert vera.get(f"/reports/{report.pk}").status_code == 404
    assert vera.get(f"/reports/{report.pk}/edit").status_code == 403
    assert "Bent at last" not in words(vera.get("/reports"))
    publish(report, user=user, base=1)
    save_draft(report, user=user, base=1, title="Later title", text="Later words.")

    page = words(vera.get(f"/reports/{report.pk}"))

    assert "Draft words." in page
    assert "Later" not in page + words(vera.get("/reports"))
    assert "Edit" not in page
    assert vera.get(f"/reports/{report.pk}/report.html?draft=1").status_code == 404
    assert "Later title" in words(ada.get("/reports"))
    assert vera.post(f"/reports/{report.pk}/publish", {"base": "2"}).status_code == 403


def test_a_script_saves_and_is_told_of_a_conflict(ada, report, project):
    saved = ada.post(f"/reports/{report.pk}/save", {"title": "T", "text": "two", "base": "1"}, **JSON)
    late = ada.post(f"/reports/{report.pk}/save", {"title": "T", "text": "three", "base": "1"}, **JSON)
    wrong = ada.post(f"/reports/{report.pk}/save", {"title": "", "text": "x", "base": "2"}, **JSON)

    assert saved.json()["draft"] == 2
    assert late.status_code == 409
    assert late.json()["theirs"] == {"title": "T", "text": "two", "draft": 2, "who": "ada"}
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "title")
    assert "three" in words(ada.get(f"/reports/{report.pk}/history"))


def test_a_plain_form_keeps_both_texts_too(ada, report):
    ada.post(f"/reports/{report.pk}/save", {"title": "T", "text": "first text", "base": "1"})

    page = ada.post(f"/reports/{report.pk}/save", {"title": "T", "text": "second text", "base": "1"})

    assert page.status_code == 409
    assert "first text" in words(page)
    assert "second text" in words(page)


def test_the_preview_names_the_lines_at_fault(ada, report):
    page = words(
        ada.post(f"/reports/{report.pk}/preview", {"title": "T", "text": "a\n\n```headroom\nchart: pie\n```"})
    )

    assert "Line 4: chart must be one of run, compare." in page
    assert "<p>a</p>" in page
    assert Report.objects.get().text == "Draft words."


def test_the_picker_writes_blocks_that_can_be_shown(ada, make_run, foreign_run):
    run, other = make_run(10, to=5.0), make_run(10, to=5.0, seed=1)

    chart = ada.get("/reports/block", {"what": "chart run", "run": run.pk, "cutoff": "3", "caption": "a\nb"})
    both = ada.get("/reports/block", {"what": "chart compare", "runs": [run.pk, other.pk]})
    foreign = ada.get("/reports/block", {"what": "number ceiling", "run": foreign_run.pk})

    assert chart.json()["text"] == f"```headroom\nchart: run\nrun: {run.pk}\ncutoff: 3\ncaption: a b\n```"
    assert f"runs: {run.pk}, {other.pk}" in both.json()["text"]
    assert (foreign.status_code, "There is no run" in foreign.json()["error"]["message"]) == (422, True)
    for what in ("", "chart pie", "prediction", "chart run"):
        assert ada.get("/reports/block", {"what": what}).status_code == 422


@pytest.fixture
def link(ada, user, report):
    """The path of a link to the published report, as its maker is shown it once."""
    publish(report, user=user, base=1)
    return LINK.search(ada.post(f"/reports/{report.pk}/links", {"days": "7"}).content.decode())[1]


def test_a_link_shows_the_published_version_to_a_stranger(client, link):
    page = type(client)().get(link)

    assert page.status_code == 200
    assert "Draft words." in words(page)
    assert page["X-Robots-Tag"] == "noindex"
    assert not page.cookies
    assert "csrf" not in words(page)


@pytest.mark.parametrize("why", ["revoked", "expired", "withdrawn", "archived"])
def test_a_link_that_is_closed_shows_nothing(ada, client, link, user, report, why):
    if why == "revoked":
        ada.post(f"/reports/{report.pk}/links/{Share.objects.get().pk}/revoke")
    elif why == "expired":
        Share.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    elif why == "withdrawn":
        unpublish(report, user=user)
    else:
        ada.post(f"/reports/{report.pk}/archive")

    page = type(client)().get(link)

    assert page.status_code == 410
    assert "Draft words." not in words(page)
    assert type(client)().get("/r/no-such-token").status_code == 404


def test_a_file_is_a_download_with_a_safe_name(ada, user, project):
    report = create_report(user=user, project=project, title='"Ünsafe"; ../x', text="Words.")
    publish(report, user=user, base=1)

    page = ada.get(f"/reports/{report.pk}/report.html")

    assert page["Content-Disposition"] == 'attachment; filename="nsafe-x.html"'
    assert "Version 1, published" in words(page)


@pytest.mark.parametrize("address", ["", "/edit", "/history", "/links", "/report.html"])
def test_one_of_another_project_is_not_there(ada, db, address):
    other = create_project(slug="other", name="Other")
    mallory = member("mallory", project=other)
    report = create_report(user=mallory, project=other, title="Secret", text="x")
    publish(report, user=mallory, base=1)

    assert ada.get(f"/reports/{report.pk}{address}").status_code == 404


def test_the_list_asks_the_same_number_of_queries_for_many(ada, user, project, report):
    def queries():
        with CaptureQueriesContext(connection) as seen:
            ada.get("/reports")
        return len(seen)

    publish(report, user=user, base=1)
    create_report(user=user, project=project, title="A draft")
    few = queries()
    for number in range(5):
        publish(create_report(user=user, project=project, title=f"R{number}", text="x"), user=user, base=1)
        create_report(user=user, project=project, title=f"D{number}")
    assert queries() == few
