"""The runs list: filter, order, columns, saved views, actions on many, and what changed since."""

import json
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.launching import tracked_run
from webapp.identity.accounts.services import set_role
from webapp.interfaces.pages.run_list import columns
from webapp.record.recipes.models import Recipe
from webapp.record.runs.models import BulkAction, Run, State, Summary
from webapp.record.savedviews import services
from webapp.record.savedviews.models import SavedView

HTMX = {"HX-Request": "true"}


def names(response):
    return re.findall(r'<td class="name"><a href="[^"]+">([^<]+)</a>', response.content.decode())


def table_of(page):
    return page.split('<table class="rows runs">')[1].split("</table>")[0]


def cursor_of(response):
    return re.search(r'data-cursor="([^"]+)"', response.content.decode())[1]


@pytest.fixture
def many(project, user):
    """many(200): that many ended runs with summaries, past the services."""
    recipe = Recipe.objects.get(project=project, slug="scalerl")

    def make(count):
        made = Run.objects.bulk_create(
            Run(project=project, name=f"run {i:03}", task="t", model="m", seed=i, state=State.SUCCEEDED,
                created_by=user, revision=recipe.revisions.get(), tags=["t"], config={"lr": i / 1000})
            for i in range(count)
        )  # fmt: skip
        Summary.objects.bulk_create(
            Summary(run=run, pass_rate=0.3, spark=[0.1, 0.3], used_hours=1.0, fit_status="ok", level=0.9,
                    tail=0.4 + i / 1000, ceiling=0.4 + i / 1000, ceiling_lo=0.3, ceiling_hi=0.5 + i / 1000)
            for i, run in enumerate(made)
        )  # fmt: skip
        return made

    return make


@pytest.mark.parametrize(
    "address",
    ["/runs", "/runs?filter=ceiling>0.1+recipe:scalerl+by:ada&sort=-config.lr&columns=name,tags,config.lr"],
)
def test_three_runs_cost_as_many_queries_as_two_hundred(ada, many, address):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            assert ada.get(address).status_code == 200
        assert not any("runs_point" in q["sql"] or "runs_record" in q["sql"] for q in captured)
        return len(captured)

    many(3)
    few = queries()
    many(197)

    assert queries() == few
    assert few <= 14


def test_nothing_new_costs_little_and_says_nothing(ada, many):
    many(3)
    cursor = cursor_of(ada.get("/runs"))

    with CaptureQueriesContext(connection) as captured:
        response = ada.get("/runs?view=all", headers=HTMX | {"X-Cursor": cursor})

    assert (response.status_code, response.content) == (204, b"")
    assert len(captured) <= 8


def test_only_rows_that_changed_come_again(ada, many):
    first, second, _ = many(3)
    cursor = cursor_of(ada.get("/runs"))
    Run.objects.filter(pk=second.pk).update(name="renamed", version=2)

    response = ada.get("/runs", headers=HTMX | {"X-Cursor": cursor})

    page = response.content.decode()
    assert f'data-run="{second.pk}"' in page and "renamed" in page
    assert first.pk not in page
    assert ada.get("/runs", headers=HTMX | {"X-Cursor": response["X-Cursor"]}).status_code == 204


@pytest.mark.parametrize("cursor", ["", "nonsense", "a.b.c", "." * 500])
def test_another_layout_asks_for_all_of_it(ada, many, cursor):
    many(3)

    response = ada.get("/runs", headers=HTMX | {"X-Cursor": cursor})

    assert (response.status_code, response["X-Reload"]) == (200, "yes")


def test_a_new_run_is_another_layout(ada, many):
    many(2)
    cursor = cursor_of(ada.get("/runs"))
    many(1)

    assert ada.get("/runs", headers=HTMX | {"X-Cursor": cursor})["X-Reload"] == "yes"


def test_order_by_ceiling_is_stable_and_said(ada, many):
    many(60)
    page = ada.get("/runs", {"sort": "-ceiling"})
    following = ada.get("/runs", {"sort": "-ceiling", "page": 2})

    listed = names(page) + names(following)
    assert listed == sorted(listed, reverse=True)
    assert len(listed) == 60
    heads = re.findall(r'<th[^>]*aria-sort="(\w+)"[^>]*>', page.content.decode())
    assert heads == ["descending"]
    assert "?sort=ceiling" in page.content.decode()  # the next click turns it around


@pytest.mark.parametrize("sort", ["nothing", "config.", "-", "config.a\0b", "x" * 999])
def test_an_unknown_order_is_the_default_one(ada, many, sort):
    many(2)

    assert len(names(ada.get("/runs", {"sort": sort}))) == 2


def test_no_nul_reaches_the_list(ada, many):
    many(2)

    for state, shown in (("succeeded", 2), ("failed", 0)):
        assert len(names(ada.get(f"/runs?fil%00ter=sta%00te:{state}%00"))) == shown
    assert ada.get("/runs/a%00b").status_code == 404
    assert ada.post("/runs/a%00b/stop").status_code == 404


@pytest.mark.parametrize("page", ["0", "-1", "99999999999", "x"])
def test_any_page_is_a_page(ada, many, page):
    many(2)

    assert len(names(ada.get("/runs", {"page": page}))) == 2


def test_chosen_columns_and_settings(ada, many):
    many(2)

    page = ada.get("/runs", {"columns": "seed,id,config.lr,nothing,config..x"}).content.decode()

    table = table_of(page)
    heads = [re.sub(r"<[^>]+>", "", head).strip() for head in re.findall(r"<th\b.*?</th>", table, re.DOTALL)]
    assert heads == ["", "Run", "Seed", "Id", "lr"]
    assert "0.001" in table


def test_every_column_shows_every_kind_of_run(ada, make_run):
    make_run(30)
    make_run(8, to=0.5, seed=1)
    make_run(0, seed=2)
    asked = ",".join(columns.BY_KEY)

    page = ada.get("/runs", {"columns": asked})

    assert page.status_code == 200
    assert table_of(page.content.decode()).count("<td") == 3 * (1 + len(columns.COLUMNS))


def test_chosen_keys():
    assert columns.chosen_keys(["x", ""]) == columns.DEFAULTS
    assert columns.chosen_keys(["seed,state", "id"]) == ("name", "seed", "state", "id")
    assert columns.chosen_keys(["state,seed"]) == ("state", "name", "seed")
    assert columns.chosen_keys(["id", "name", "state"]) == ("id", "name", "state")
    assert columns.chosen_keys(["config.a.b"]) == ("name", "config.a.b")
    assert len(columns.chosen_keys([f"config.k{i}" for i in range(20)])) == 1 + columns.MAX_SETTINGS


def test_a_wrong_filter_keeps_the_table_and_points_at_the_place(ada, many):
    many(2)

    whole = ada.get("/runs", {"filter": "state:runing x"})
    part = ada.get("/runs", {"filter": "state:runing x"}, headers=HTMX)

    assert whole.status_code == 422
    assert "did you mean &quot;running&quot;?" in whole.content.decode()
    assert "state:runing x\n      ^" in whole.content.decode()
    assert len(names(whole)) == 2 and "You see all runs." in whole.content.decode()
    assert (part.status_code, part["HX-Reswap"], part["HX-Push-Url"]) == (200, "none", "false")
    assert 'id="filter-note"' in part.content.decode() and "<table" not in part.content.decode()


def test_hostile_filters_are_shown_as_text(ada, many):
    many(1)

    page = ada.get("/runs", {"filter": '"<script>alert(1)</script>"'}).content.decode()

    assert "<script>alert" not in page


def test_older_parameters_are_shorthands(ada, make_run):
    make_run(0, name="waiting")
    make_run(6, name="broken", ended="failed")

    page = ada.get(
        "/runs", {"state": "failed", "recipe": "tiny-scalerl", "q": "brok en", "filter": "seed:0 OR seed:1"}
    )

    assert (
        'value="state:failed recipe:tiny-scalerl &quot;brok en&quot; (seed:0 OR seed:1)"'
        in page.content.decode()
    )
    assert names(ada.get("/runs", {"state": "failed", "q": "brok"})) == ["broken"]


def test_no_match_shows_the_filter_and_what_is_archived(ada, many):
    many(2)
    Run.objects.update(archived_at="2026-01-01T00:00Z")

    page = ada.get("/runs", {"filter": "run"}).content.decode()

    assert "No run fits this filter" in page and "<code>run</code>" in page
    assert "2 archived runs would fit" in page
    assert len(names(ada.get("/runs", {"filter": "archived:yes (run)"}))) == 2


def test_names_that_do_not_exist_are_told(ada, many):
    many(1)

    page = ada.get("/runs", {"filter": "recipe:scaler OR by:bob OR ceiling"}).content.decode()

    assert "This filter names the recipe “scaler”, which this project does not have (any more)." in page
    assert "Did you mean &quot;scalerl&quot;?" in page
    assert "the member “bob”" in page
    assert "“ceiling” is searched for as a word." in page


def test_a_setting_that_no_run_has_is_told(ada, many):
    many(2)

    def page(text):
        return ada.get("/runs", {"filter": text}).content.decode()

    wrong = page("NOT config.lrate:0.1")
    assert "No run of this project has the setting “config.lrate”." in wrong
    assert "Did you mean &quot;config.lr&quot;?" in wrong
    assert "has the setting" not in page("config.lr < 1")
    Run.objects.filter(seed=1).update(config={"my": {"own": 3}})
    assert "has the setting" not in page("config.my.own > 2")


def save(ada, back="filter=seed:1&sort=-ceiling", **fields):
    return ada.post("/runs/views", {"name": "One", "back": back} | fields)


def test_a_view_is_saved_opened_and_noticed_when_changed(ada, many):
    many(3)

    response = save(ada, shared="on")

    view = SavedView.objects.get()
    assert response.url == f"/runs?view={view.pk}"
    assert (view.filter, view.sort, view.columns, view.shared) == ("seed:1", "-ceiling", [], True)
    opened = ada.get(response.url)
    assert names(opened) == ["run 001"]
    assert "Save changes" not in opened.content.decode()
    changed = ada.get(f"/runs?view={view.pk}&filter=")
    assert len(names(changed)) == 3 and "Save changes" in changed.content.decode()


def test_a_default_view_opens_the_list(ada, many):
    many(2)
    save(ada, default="on")
    view = SavedView.objects.get()

    assert ada.get("/runs").url == f"/runs?view={view.pk}"
    assert len(names(ada.get("/runs?view=all"))) == 2
    ada.post(f"/runs/views/{view.pk}", {"do": "no-default"})
    assert ada.get("/runs").status_code == 200


def test_a_view_of_a_deleted_recipe_says_so(ada, many, project):
    many(1)
    Recipe.objects.create(project=project, slug="short-lived", name="Short-lived")
    save(ada, back="filter=recipe:short-lived", name="Gone")
    Recipe.objects.filter(slug="short-lived").delete()

    page = ada.get(f"/runs?view={SavedView.objects.get().pk}").content.decode()

    assert (
        "The view “Gone” names the recipe “short-lived”, which this project does not have (any more)." in page
    )


def test_a_view_that_is_gone_says_so_and_shows_all(ada, many, user, project):
    many(1)

    page = ada.get("/runs?view=12345")

    assert (
        "This view does not exist any more, or is not shared with you. You see all" in page.content.decode()
    )
    assert len(names(page)) == 1
    assert "You see all" not in ada.get("/runs?view=12345&filter=seed:7").content.decode()


def test_changes_of_a_view(ada, many):
    many(1)
    save(ada)
    view = SavedView.objects.get()
    send = lambda do, **more: ada.post(
        f"/runs/views/{view.pk}", {"do": do, "version": SavedView.objects.get().version} | more
    )

    assert send("rename", name="Two").status_code == 302
    assert send("overwrite", back=f"view={view.pk}&filter=seed:2&columns=name,seed").status_code == 302
    assert send("share").status_code == send("unshare").status_code == send("default").status_code == 302
    view.refresh_from_db()
    assert (view.name, view.filter, view.columns, view.version) == ("Two", "seed:2", ["name", "seed"], 5)
    late = ada.post(f"/runs/views/{view.pk}", {"do": "rename", "name": "Late", "version": 1})
    assert late.status_code == 409 and "changed meanwhile" in late.content.decode()
    assert send("dance").status_code == 422
    assert send("delete").status_code == 302
    assert ada.post(f"/runs/views/{view.pk}", {"do": "delete", "version": 1}).status_code == 302


@pytest.mark.parametrize(
    ("fields", "status"), [({"name": ""}, 422), ({"back": "filter=state:"}, 422), ({"name": "x" * 99}, 422)]
)
def test_a_view_that_cannot_be_saved(ada, many, fields, status):
    many(1)

    response = save(ada, **fields)

    assert response.status_code == status
    assert "The view was not saved." in response.content.decode()
    assert not SavedView.objects.exists()


def test_an_action_asks_then_does_once_and_tells(ada, make_run):
    queued, ended = make_run(0, name="queued one"), make_run(6, seed=1, ended="failed")
    asked = ada.get(
        "/runs/bulk", {"action": "stop", "runs": f"{queued.pk},{ended.pk}", "back": "filter=x"}, headers=HTMX
    )
    page = asked.content.decode()
    assert "1 has not started and never will" in page and "1 has ended already and stays as it is." in page
    assert "queued one, seed 0" in page  # runs of one recipe have one name
    assert "<html" not in page

    form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))
    sent = ada.post("/runs/bulk", form)
    again = ada.post("/runs/bulk", form)

    assert sent.url == again.url == f"/runs?filter=x&report={BulkAction.objects.get().pk}"
    assert "1 stopped, 1 had already ended." in ada.get(sent.url.replace("filter=x&", "")).content.decode()


def test_waiting_runs_are_put_before_others_at_once(ada, make_run):
    queued, ended = make_run(0), make_run(6, seed=1, ended="failed")
    asked = {"action": "priority", "runs": f"{queued.pk},{ended.pk}"}
    page = ada.get("/runs/bulk", asked, headers=HTMX).content.decode()
    assert "1 run does not wait and stays as it is." in page and 'value="1" selected>normal' in page

    form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))
    wrong = ada.post("/runs/bulk", form | {"priority": "9"})
    sent = ada.post("/runs/bulk", form | {"priority": "0"}, follow=True)

    assert (wrong.status_code, 'id="bulk-priority"' in wrong.content.decode()) == (422, True)
    assert "1 changed, 1 not changed. Priority: low." in sent.content.decode()


def test_resuming_says_what_will_not_go_on_and_what_begins_anew(ada, make_run, user, project):
    stopped, done = make_run(6, ended="cancelled"), make_run(6, seed=1, ended="succeeded")
    elsewhere = tracked_run(user=user, project=project, name="elsewhere", task="math")
    ids = ",".join(run.pk for run in (stopped, done, elsewhere))

    page = ada.get("/runs/bulk", {"action": "resume", "runs": ids, "back": ""}, headers=HTMX).content.decode()

    assert "One without a checkpoint begins anew from step 0." in page
    assert "1 has succeeded: such a run goes on only where its budget was extended since." in page
    assert "1 run trains elsewhere and cannot be resumed here." in page


def test_all_that_match(ada, many):
    many(60)

    page = ada.get("/runs/bulk", {"action": "archive", "all": "1", "filter": "seed < 55"}).content.decode()

    assert "Archive 55 runs" in page and "and 43 more" in page
    form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page)) | {"action": "archive"}
    ada.post("/runs/bulk", form)
    assert Run.objects.exclude(archived_at=None).count() == 55


def test_comparing_goes_to_the_comparison(ada, many):
    first, second = many(2)

    response = ada.get(
        "/runs/bulk", {"action": "compare", "run": [first.pk], "runs": second.pk, "back": "x=1"}
    )

    assert response.url == f"/compare?run={first.pk}&run={second.pk}"


def test_comparing_more_than_can_be_compared_says_so(ada, many):
    many(101)

    response = ada.get("/runs/bulk", {"action": "compare", "all": "1"}, follow=True)

    assert response.redirect_chain[0][0].count("run=") == 100
    assert "More runs were chosen than can be compared: these are the first 100" in response.content.decode()


@pytest.mark.parametrize(
    ("request_", "status", "said"),
    [
        ({"action": "stop"}, 422, "Tick at least one run first."),
        ({"action": "stop", "runs": "\0,"}, 422, "Tick at least one run first."),
        ({"action": "stop", "runs": "no such\0run"}, 200, "Stop 0 runs"),
        ({"action": "explode", "runs": "a"}, 422, "action must be"),
        ({"action": "stop", "all": "1", "filter": "state:"}, 422, "character 7"),
        ({"action": "stop", "all": "1", "filter": ""}, 422, "More than 200 runs fit"),
    ],
)
def test_what_an_action_refuses(ada, many, request_, status, said):
    many(201)

    response = ada.get("/runs/bulk", request_)

    assert response.status_code == status
    assert said in response.content.decode()


def test_a_wrong_tag_is_asked_for_again(ada, many):
    (run,) = many(1)

    response = ada.post("/runs/bulk", {"action": "tag", "runs": run.pk, "tag": "two words", "key": "k"})

    assert response.status_code == 422
    assert "a tag is one word" in response.content.decode()
    assert 'value="two words"' in response.content.decode()


def test_others_runs_cannot_be_touched(ada, foreign_run):
    ada.post("/runs/bulk", {"action": "stop", "runs": foreign_run.pk, "key": "k"})

    foreign_run.refresh_from_db()
    assert foreign_run.state not in (State.STOPPING, State.CANCELLED)
    assert BulkAction.objects.get().outcomes[0]["phrase"] == "not found"


def test_completions_as_json(ada, many):
    many(1)

    body = json.loads(ada.get("/runs/complete", {"text": "state:ru", "at": "8"}).content)

    assert (body["from"], body["to"], body["items"][0]["text"]) == (6, 8, "running")
    for at in ("x", "-1", "999999999"):
        assert ada.get("/runs/complete", {"text": "st", "at": at}).status_code == 200


def test_a_stranger_sees_no_view_of_mine(ada, many, client, django_user_model, project):
    many(1)
    save(ada)
    bob = django_user_model.objects.create_user("bob")
    set_role(project, bob, "admin")
    client.force_login(bob)

    view = SavedView.objects.get()
    assert f"view={view.pk}" not in client.get("/runs").content.decode()
    assert (
        client.post(f"/runs/views/{view.pk}", {"do": "rename", "name": "Mine", "version": 1}).status_code
        == 404
    )
    services.share_view(view.pk, user=view.owner, project=project, version=1, shared=True)
    assert "by ada" in client.get("/runs").content.decode()
