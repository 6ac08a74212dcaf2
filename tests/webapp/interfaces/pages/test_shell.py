"""What every page has: the policy for its content, word of a session that ended, the search of the palette."""

import re

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver
from django.utils import timezone

from tests.webapp.interfaces.pages.reading import text_of
from webapp.identity.accounts.services import create_project, set_role
from webapp.interfaces.pages.middleware import PAGES, SETTINGS
from webapp.interfaces.pages.views.home import search
from webapp.interfaces.tracking.client_runs import ensure_group, make_client_run
from webapp.interfaces.tracking.models import ClientRun
from webapp.record.runs.models import Run

STRICT = {
    "default-src 'none'", "script-src 'self'", "style-src 'self'",
    "style-src-attr 'unsafe-inline'", "connect-src 'self'", "frame-ancestors 'none'",
    "img-src 'self' data: blob:", "form-action 'self'", "base-uri 'none'", "font-src 'self'",
}  # fmt: skip


def policy_of(response) -> set[str]:
    return {part.strip() for part in response["Content-Security-Policy"].split(";")}


@pytest.mark.parametrize(
    "path", ["/runs", "/recipes", "/tokens", "/no/such/page", "/alive", "/api/v1/openapi.json"]
)
def test_every_answer_carries_the_strict_policy(ada, path):
    assert policy_of(ada.get(path)) == STRICT


@pytest.mark.parametrize(
    "path",
    ["/sign-in", "/runs", "/runs/new", "/runs/{run}", "/compare?run={run}", "/leaderboard", "/recipes"],
)
def test_what_the_first_paint_waits_for_is_on_the_page(ada, make_run, path):
    """Else a browser waits for the end of the page."""
    reader = Client() if path == "/sign-in" else ada

    page = reader.get(path.format(run=make_run(30).pk)).content.decode()

    awaited = re.search(r'<link rel="expect" href="#([\w-]+)" blocking="render">', page)[1]
    assert page.count(f'id="{awaited}"') == 1


def test_an_error_carries_it_too(client):
    response = client.get("/sign-in", headers={"Host": "elsewhere.invalid"})

    assert response.status_code == 400
    assert policy_of(response) == STRICT


@pytest.mark.parametrize("headers", [{"HX-Request": "true"}, {"Accept": "application/json"}])
@pytest.mark.parametrize("path", ["/runs", "/alive"])
def test_a_script_is_told_that_the_session_ended(client, db, path, headers):
    response = client.get(path, headers=headers)

    assert response.status_code == 401
    assert "signed out" in response.content.decode()


def test_a_person_is_sent_to_the_sign_in_page(client, db):
    assert client.get("/runs", headers={"Accept": "text/html"}).url == "/sign-in?next=/runs"


def test_a_sign_of_life_is_empty(ada):
    assert ada.get("/alive").status_code == 204


def test_the_navigation_counts_what_the_lists_show(ada, make_run, project):
    make_run(0)
    Run.objects.filter(pk=make_run(0).pk).update(archived_at=timezone.now(), state="failed")

    page = text_of(ada.get("/runs"))

    assert re.search(r'href="/runs"[^>]*>Runs<span class="n">1</span>', page)
    assert re.search(r'href="/studies"[^>]*>Studies<span class="n">0</span>', page)
    assert ">1 run<" in page


def found(ada, text=""):
    return ada.get("/palette", {"q": text}).json()["items"]


def test_the_palette_finds_runs_and_recipes_by_words_in_any_order(ada, make_run):
    make_run(0, name="wide batch")
    run = make_run(0, name="narrow batch", seed=1)

    assert [hit["label"] for hit in found(ada, "BATCH narrow")] == ["narrow batch"]
    assert found(ada, run.pk[:6])[0]["url"] == f"/runs/{run.pk}"
    assert {
        "kind": "Recipe",
        "label": "ScaleRL (tiny)",
        "hint": "tiny-scalerl",
        "url": "/recipes/tiny-scalerl",
    } in found(ada, "scalerl tiny")


def test_the_palette_finds_a_run_by_the_id_that_its_client_has_of_it(ada, user, project):
    made = make_client_run(
        ensure_group(project, "grpo"), ClientRun(client="mlflow", name="logged", start_ms=0), user=user
    )
    make_client_run(
        ensure_group(project, "grpo"), ClientRun(client="mlflow", name="another", start_ms=0), user=user
    )

    assert [(hit["label"], hit["url"]) for hit in found(ada, made.key)] == [
        ("logged", f"/runs/{made.run_id}")
    ]
    assert found(ada, "0" * 32) == []


def test_without_words_the_newest_come_first(ada, make_run):
    make_run(0, name="older")
    make_run(0, name="newer", seed=1)

    assert [hit["label"] for hit in found(ada)][:2] == ["newer", "older"]


def test_only_the_current_project_is_searched(ada, foreign_run):
    assert not [hit for hit in found(ada) if hit["kind"] == "Run"]


@pytest.mark.parametrize("text", ["%", "_", "\0", "'; --", "x" * 5000, "\\"])
def test_any_text_is_a_question(ada, make_run, text):
    make_run(0, name="plain")

    assert all(hit["label"] != "plain" for hit in found(ada, text) if hit["kind"] == "Run") or text == "\0"


def test_one_query_a_kind_and_at_most_20_hits(ada, user, project, django_assert_max_num_queries):
    many_runs(project, user, 50)
    found(ada)

    with django_assert_max_num_queries(6):  # session, user, projects; runs, recipes, studies
        hits = found(ada, "a")

    assert len(hits) <= 20


def many_runs(project, user, number):
    runs = [
        Run(
            project=project,
            name=f"sweep {i} of batch {i % 7}",
            task="arithmetic",
            model="tiny",
            created_by=user,
        )
        for i in range(number)
    ]
    Run.objects.bulk_create(runs)


def test_ten_thousand_runs_are_searched_by_the_database_alone(user, project):
    """One query of the runs, that reads of each what is shown and stops at enough hits."""
    many_runs(project, user, 10_000)

    for text in ("sweep", "nothing has this name", "9999 batch"):
        with CaptureQueriesContext(connection) as asked:
            hits = search(project, text)
        of_runs = [query["sql"] for query in asked if 'FROM "runs_run"' in query["sql"]]
        assert len(of_runs) == 1 and len(asked) <= 3
        assert "LIMIT 12" in of_runs[0] and "config" not in of_runs[0]
        assert all(hit["kind"] == "Run" for hit in hits) and len(hits) <= 12


def test_the_palette_needs_somebody_signed_in(client, db):
    assert client.get("/palette", headers={"Accept": "application/json"}).status_code == 401


def test_no_two_pages_have_the_same_key():
    keys = [key for _, _, key, _ in (*PAGES, *SETTINGS) if key]

    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("path", "title"),
    [("/planner", "Studies"), ("/imports", "Runs"), ("/tokens", "API tokens"), ("/runs", "Runs")],
)
def test_one_entry_is_where_the_reader_is(ada, path, title):
    shell = text_of(ada.get(path)).split("<main", 1)[0]

    assert set(re.findall(r'<a [^>]*aria-current="page"[^>]*>([^<]+)<', shell)) == {title}


def test_pages_with_a_key_offer_it(ada):
    assert 'data-hotkey="g r"' in ada.get("/recipes").content.decode()


def test_error_pages_teach_within_the_shell(ada, user):
    set_role(create_project(slug="math", name="Math"), user, "admin")

    page = ada.get("/runs/nothere").content.decode()

    assert 'id="palette-template"' in page
    assert "You look at Default" in page


def test_error_pages_without_an_account_stand_alone(client, db):
    page = client.get("/no/such/page").content.decode()

    assert 'id="palette-template"' not in page
    assert "sign in first" in page


def test_who_has_no_project_is_told_what_to_do(client, db):
    loner = get_user_model().objects.create_user("loner")
    client.force_login(loner)

    assert "send you an invitation" in client.get("/runs").content.decode()


def test_pages_of_runs_unfurl_without_numbers(ada, make_run):
    page = ada.get(f"/runs/{make_run(12, name='a run').pk}").content.decode()

    assert '<meta property="og:title" content="a run · Headroom">' in page
    assert '<meta property="og:description" content="A run on arithmetic' in page


def test_there_is_no_page_of_the_api_that_the_policy_would_break():
    names = {str(pattern.pattern) for pattern in get_resolver().url_patterns}

    assert (
        "docs" not in names
    )  # openapi.json is there for tools; ninja's page would load scripts from elsewhere
