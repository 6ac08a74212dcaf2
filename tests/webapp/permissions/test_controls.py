"""No page shows a control that would be refused: every link and form of every page, for each role, with and without
runs; and what pages say instead."""

import json
import re
from functools import cache
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.test import Client
from django.urls import Resolver404, resolve

from tests.deep import IS_DEEP
from tests.webapp.interfaces.pages.addresses import PAGES, WITHOUT_ACCOUNT, Things
from tests.webapp.permissions.tables import IN_PROJECT
from tests.webapp.permissions.world import ROLES, make_world
from webapp.identity.accounts.models import Role
from webapp.identity.accounts.permissions import Permission, grants
from webapp.identity.accounts.services import set_role
from webapp.record.runs import lifecycle
from webapp.record.runs.models import Run, State

ACTIONS = ("stop", "resume", "extend", "launch", "delete", "priority")
FIELDS = ("input", "select", "textarea", "button")
TABS = ("log", "forms", "window", "history", "plan", "configuration", "attempts", "diagnostics", "benchmarks")


class Controls(HTMLParser):
    """(method, address, {name: value}) of every link, form, button and htmx request of a page: of a form and what
    stands in it its fields, of anything else what the address asks."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str, dict[str, str]]] = []
        self._fields: dict[str, str] | None = None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        asks = {"hx-get": "GET", "hx-post": "POST", "data-url": "GET", "formaction": "POST"}
        if tag == "form":
            self._fields = {}
            asks["action"] = (given.get("method") or "get").upper()
        if tag == "a":
            asks["href"] = "GET"
        if tag in FIELDS and self._fields is not None and given.get("name"):
            self._fields[given["name"]] = given.get("value") or ""
        for name, method in asks.items():
            if address := given.get(name):
                is_field = tag != "a" and self._fields is not None
                fields = self._fields if is_field else dict(parse_qsl(urlsplit(address).query))
                self.found.append((method, address, fields))

    def handle_endtag(self, tag):
        if tag == "form":
            self._fields = None


@cache
def name_of(path):
    """Of the address at this path; None: there is none."""
    try:
        return resolve(path).url_name
    except Resolver404:
        return None


def refused_controls(page, role):
    """Controls of a page whose address the role does not open."""
    refused = []
    for method, address, _ in Controls(page).found:
        parts = urlsplit(address)
        if parts.netloc or not parts.path.startswith("/"):
            continue
        name = name_of(parts.path)
        if name in IN_PROJECT and not grants(role, IN_PROJECT[name].of(method)):
            refused.append(f"{method} {address}")
    return refused


def things_of(world):
    other = world.queued_run(seed=5)
    return Things(
        run=world.run.pk,
        other_run=other.pk,
        recipe="tiny-scalerl",
        study=world.study.pk,
        share=world.share_token,
        prediction=world.prediction.pk,
        decision=world.decision.pk,
        report=world.report.pk,
        report_link=world.report_token,
        source=world.source.pk,
    )


def pages_of(world, client, things):
    """Name -> HTML of every page that the role may open."""
    shown = {}
    for name in set(PAGES) - WITHOUT_ACCOUNT:
        need = IN_PROJECT.get(name)
        if need is None or grants(Role(world.role), need.read):
            answer = client.get(PAGES[name](things))
            assert answer.status_code == 200, name
            shown[name] = answer.content.decode()
    return shown


@pytest.fixture
def ended_run(model_folder):
    """ended_run(world): a run that failed before it trained: the overview offers to launch it again."""

    def make(world):
        run = world.queued_run(seed=7)
        Run.objects.filter(pk=run.pk).update(state=State.STARTING)
        run.attempts.update(state=State.STARTING)
        run.refresh_from_db()
        lifecycle.report_finished(run, attempt=1, state="failed", message="no")
        return run

    return make


def signed_in(world):
    client = Client()
    client.force_login(world.user)
    return client


@pytest.mark.django_db
@pytest.mark.long_form
def test_no_page_shows_a_control_that_would_be_refused(model_folder, ended_run):
    world = make_world(ROLES[0])
    client, things, failed = signed_in(world), things_of(world), ended_run(world)
    assert world.share and world.view
    regions = {f"tab {tab}": f"/runs/{things.run}?tab={tab}" for tab in TABS} | {"the live overview": "/"}

    wrong = {}
    for role in Role if IS_DEEP else (Role.VIEWER, Role.LAUNCHER):
        world.who = role.value
        set_role(world.project, world.user, role)
        pages = pages_of(world, client, things)
        pages["the failed run"] = client.get(f"/runs/{failed.pk}").content.decode()
        pages["the shared view"] = client.get(f"/runs?view={world.view.pk}").content.decode()
        for name, address in regions.items():
            pages[name] = client.get(address, headers={"HX-Request": "true"}).content.decode()
        for name, page in pages.items():
            if refused := refused_controls(page, role):
                wrong[role, name] = refused
    assert wrong == {}


@pytest.mark.django_db
@pytest.mark.parametrize("who", ROLES)
def test_no_empty_page_invites_to_what_would_be_refused(model_folder, who):
    world = make_world(who)
    client = signed_in(world)
    names = (
        "overview",
        "runs",
        "compare",
        "leaderboard",
        "studies",
        "planner",
        "recipes",
        "shares",
        "tokens",
    )

    for name in names:
        page = client.get(PAGES[name](None) if name != "compare" else "/compare").content.decode()
        assert refused_controls(page, Role(who)) == [], name


def test_the_search_for_controls_finds_them():
    page = '<a href="/runs/new">x</a><form method="post" action="/runs/abc/stop"></form><a href="/runs">y</a>'

    assert sorted(refused_controls(page, Role.VIEWER)) == ["GET /runs/new", "POST /runs/abc/stop"]
    assert refused_controls(page, Role.LAUNCHER) == []


@pytest.mark.django_db
@pytest.mark.parametrize(("who", "may"), [("viewer", False), ("contributor", False), ("launcher", True)])
def test_a_run_says_what_can_be_done_only_to_who_may(model_folder, ended_run, who, may):
    world = make_world(who)
    client, failed = signed_in(world), ended_run(world)

    for run, allowed in ((world.run, {"stop", "extend"}), (failed, {"resume", "extend"})):
        actions = {name: may and name in allowed for name in ACTIONS}
        assert client.get(f"/runs/{run.pk}/figure").json()["actions"] == actions
        page = client.get(f"/runs/{run.pk}").content.decode()
        figure = json.loads(re.search(r'id="figure" type="application/json">(.*?)</script>', page)[1])
        assert figure["actions"] == actions
        assert ('id="stop-dialog"' in page) == may


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("who", "offered"),
    [
        ("viewer", ["compare"]),
        ("contributor", ["compare", "tag", "untag", "change"]),
        (
            "launcher",
            [
                "compare",
                "stop",
                "resume",
                "priority",
                "tag",
                "untag",
                "change",
                "archive",
                "unarchive",
                "delete",
            ],
        ),
    ],
)
def test_the_bulk_bar_offers_what_the_role_may_do_and_the_address_refuses_the_rest(
    model_folder, who, offered
):
    world = make_world(who)
    client, run = signed_in(world), world.run

    page = client.get("/runs").content.decode()
    assert re.findall(r'<button name="action" value="(\w+)"', page) == offered

    for action in ("stop", "resume", "priority", "tag", "untag", "change", "archive", "unarchive", "delete"):
        asked = client.get(f"/runs/bulk?action={action}&runs={run.pk}")
        sent = client.post(
            "/runs/bulk",
            {"action": action, "runs": run.pk, "key": action, "tag": "a", "notes": "odd", "priority": 1},
        )
        assert (asked.status_code, sent.status_code) == ((200, 302) if action in offered else (403, 403)), (
            action
        )
    run.refresh_from_db()
    assert (run.state == State.RUNNING) == ("stop" not in offered)


@pytest.mark.django_db
def test_who_is_viewer_of_one_project_and_admin_of_another_stops_nothing_in_the_first(model_folder):
    from tests.webapp.permissions.world import BOTH

    world = make_world(BOTH)  # the chosen project is by default the oldest: that of the run
    client, run = signed_in(world), world.run
    assert client.post("/project", {"project": world.other.slug}).status_code == 302

    assert client.post(f"/runs/{run.pk}/stop").status_code == 403
    assert client.get(f"/runs/{run.pk}/figure").json()["actions"] == dict.fromkeys(ACTIONS, False)
    assert client.get(f"/runs/new?clone={run.pk}").status_code == 403
    bulk = client.post("/runs/bulk", {"action": "stop", "runs": run.pk, "key": "k"}, follow=True)
    assert "1 not found." in bulk.content.decode()
    run.refresh_from_db()
    assert run.state == State.RUNNING


@pytest.mark.django_db
def test_a_view_is_shared_by_contributors_only(model_folder):
    world = make_world("viewer")
    client = signed_in(world)

    assert client.post("/runs/views", {"name": "Mine"}).status_code == 302
    shared = client.post("/runs/views", {"name": "Ours", "shared": "on"})
    assert shared.status_code == 403 or "needs the role contributor" in shared.content.decode()
    from webapp.record.savedviews.models import SavedView

    mine = SavedView.objects.get(owner=world.user)
    refused = client.post(f"/runs/views/{mine.pk}", {"do": "share", "version": mine.version})
    assert refused.status_code == 403
    assert "needs the role contributor" in refused.content.decode()
    mine.refresh_from_db()
    assert (mine.name, mine.shared) == ("Mine", False)


@pytest.mark.django_db
def test_the_refusal_names_the_role_that_is_needed(model_folder):
    world = make_world("viewer")

    page = signed_in(world).get("/runs/new")

    assert page.status_code == 403
    said = page.content.decode()
    assert "This needs the role launcher in this project; yours is viewer." in said
    assert "<title>Not allowed · Headroom</title>" in said


@pytest.mark.django_db
def test_roles_are_read_anew_with_each_request(model_folder):
    world = make_world("launcher")
    client = signed_in(world)
    assert client.get("/runs/new").status_code == 200

    set_role(world.project, world.user, Role.VIEWER)
    assert client.get("/runs/new").status_code == 403


def test_every_permission_belongs_to_a_role():
    assert {permission for permission in Permission if not grants(Role.ADMIN, permission)} == set()
