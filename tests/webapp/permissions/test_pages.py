"""Each URL of the pages x each relation to its project x reading and writing, against the table of needs.

How to add a page stands in tables.py.
"""

import re
from unittest.mock import Mock

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import get_resolver, include, path, reverse

from tests.webapp.permissions import open_urls, tables
from tests.webapp.permissions.tables import ACCOUNT, IN_PROJECT, PUBLIC, ROUTES
from tests.webapp.permissions.world import BOTH, ELSEWHERE, NOBODY, SIGNED_OUT, WHO, is_asked
from webapp.identity.accounts.models import Role
from webapp.identity.accounts.permissions import NEEDED_ROLE, Permission, grants
from webapp.interfaces.pages.access import SESSION_KEY
from webapp.interfaces.pages.urls import urlpatterns
from webapp.interfaces.routes import EVERYBODY, SIGNED_IN, Need, check_declared, declare, needs_of

LET_IN, REFUSED, NOT_THERE, TO_SIGN_IN, NO_METHOD = "let in", "403", "404", "to the sign-in", "405"
WHOLE = "admin"  # for whom the walk makes its pages, too; for the others these say nothing:
SHOWN = {
    "django.template.backends.django.Template.render": "",
    "webapp.interfaces.pages.views.predictions.tab_context": {},
}
PATTERNS = {pattern.name: pattern for pattern in urlpatterns}


def test_every_address_has_a_name_of_its_own():
    assert len(PATTERNS) == len(urlpatterns)


def test_every_route_needs_what_its_kind_must():
    """Said independently of the routes: a route that gives too much away shows here."""

    def least(name):
        for pattern, permission in (
            (tables.FOR_VIEWERS, Permission.VIEW),
            (tables.SPENDS, Permission.LAUNCH),
            (tables.ADMINS, Permission.ADMIN),
            ("prediction-review", Permission.REVIEW),
        ):
            if re.fullmatch(pattern, name):
                return permission
        return Permission.CONTRIBUTE

    writes = {name: need.write for name, need in IN_PROJECT.items() if need.write}
    assert writes == {name: least(name) for name in writes}
    more = {name: need.read for name, need in IN_PROJECT.items() if need.read not in (None, Permission.VIEW)}
    assert {name for name, read in more.items() if read == Permission.ADMIN} == {
        "project-settings", "audit", "audit-csv", "audit-jsonl",
    }  # fmt: skip
    assert {name for name, read in more.items() if read == Permission.LAUNCH} == {
        "launch", "new-study",
    }  # fmt: skip
    assert {
        "sign-in", "account_login", "mfa_authenticate", "mfa_login_webauthn", "openid-begin", "openid-callback",
        "forgot-password", "set-password",
        "invitation", "shared", "shared-picture", "embed", "shared-report", "api-docs",
    } == PUBLIC  # fmt: skip
    assert {name for name, need in ROUTES.items() if need.takes_files} == {"new-import", "import-resume"}


def test_a_route_that_does_not_say_what_it_needs_stops_the_start():
    with pytest.raises(ImproperlyConfigured, match=r"do not say what they need .*'unlisted'"):
        check_declared(open_urls.urlpatterns)


def test_every_route_of_the_installation_says_what_it_needs():
    check_declared(get_resolver().url_patterns)


def test_included_routes_have_the_need_they_are_declared_with():
    def signs_in(request):
        return HttpResponse()

    signs_in.login_required = False
    theirs = [path("theirs", lambda request: HttpResponse(), name="theirs"), path("in", signs_in, name="in")]

    found = needs_of(declare([path("", include(theirs))], Need(SIGNED_IN, SIGNED_IN)))

    assert found == {"theirs": Need(SIGNED_IN, SIGNED_IN), "in": Need(EVERYBODY, EVERYBODY)}


def test_every_argument_of_a_path_has_a_maker():
    missing = {
        f"{name}:{argument}"
        for name, pattern in PATTERNS.items()
        for argument in pattern.pattern.converters
        if f"{name}:{argument}" not in tables.OBJECTS and argument not in tables.OBJECTS
    }

    assert missing == set(), "add what stands there to OBJECTS in tests/webapp/permissions/tables.py"


def address(name, world):
    """The address of this page about a thing of the world's project."""
    arguments = {
        argument: (tables.OBJECTS.get(f"{name}:{argument}") or tables.OBJECTS[argument])(world)
        for argument in PATTERNS[name].pattern.converters
    }
    query = tables.QUERIES[name](world) if name in tables.QUERIES else ""
    return reverse(name, kwargs=arguments) + query


def expected(name, method, world):
    """What the table says of this request."""
    special = tables.OTHERWISE.get((name, method), {}).get(world.who)
    if special:
        return {special}
    if world.who == SIGNED_OUT:
        return {TO_SIGN_IN}
    permission = ROUTES[name].of(method)
    if permission is None:
        return {NO_METHOD}
    about_a_thing = bool(PATTERNS[name].pattern.converters) or name in tables.FOREIGN
    if world.who == NOBODY:
        return {NOT_THERE}
    if world.who == ELSEWHERE:
        return {NOT_THERE} if about_a_thing and not _by_a_name_of_all(name) else {LET_IN}
    if world.who == BOTH:
        if not about_a_thing or _by_a_name_of_all(name):
            return {LET_IN}  # it acts in the chosen project, of which this reader is an admin
        return {LET_IN, NOT_THERE} if grants(Role.VIEWER, permission) else {REFUSED, NOT_THERE}
    return {LET_IN} if grants(Role(world.role), permission) else {REFUSED}


def _by_a_name_of_all(name):
    """Recipes have the same names in all projects: the address means that of the reader's own project."""
    return set(PATTERNS[name].pattern.converters) == {"slug"}


def outcome(client, name, method, world):
    """In one word what became of a request. Nothing that it changes stays."""
    with transaction.atomic():
        url = address(name, world)
        form = tables.FORMS[name](world) if name in tables.FORMS else {}
        answer = client.get(url) if method == "GET" else client.post(url, form)
        transaction.set_rollback(True)
    status = answer.status_code
    if status == 302 and re.match(r"/sign-in\?next=", answer.url):
        return TO_SIGN_IN
    known = {401: TO_SIGN_IN, 403: REFUSED, 404: NOT_THERE, 405: NO_METHOD}
    return known.get(status, LET_IN if status < 500 else f"error {status}")


def browser(world):
    client = Client()
    if world.user is not None:
        client.force_login(world.user)
    if world.who == BOTH:
        session = client.session
        session[SESSION_KEY] = world.other.slug
        session.save()
    return client


def only_decide(monkeypatch):
    """Views look things up, decide and act as ever; but what they then show is not made."""
    for name, answer in SHOWN.items():
        monkeypatch.setattr(name, Mock(return_value=answer))


def asked(name, method, world):
    """Whether the short form asks this, too. What the table says otherwise of a role is always asked."""
    permission = ROUTES[name].of(method)
    is_special = (name, method) in tables.OTHERWISE
    return is_special or permission is None or is_asked(world.who, NEEDED_ROLE[permission].value)


@pytest.mark.long_form
@pytest.mark.parametrize("who", WHO)
def test_every_address_opens_to_whom_the_table_says(monkeypatch, towards, who):
    if who != WHOLE:
        only_decide(monkeypatch)
    world = towards(who)
    client, wrong = browser(world), []

    for name in IN_PROJECT:
        for method in ("GET", "POST"):
            if not asked(name, method, world):
                continue
            found, wanted = outcome(client, name, method, world), expected(name, method, world)
            if found not in wanted:
                wrong.append(f"{method} {name}: {found}, not {' or '.join(sorted(wanted))}")

    assert wrong == []


@pytest.mark.parametrize("name", sorted(ACCOUNT))
def test_what_is_of_no_project_needs_an_account(towards, name):
    world = towards(SIGNED_OUT)

    assert {outcome(Client(), name, method, world) for method in ("GET", "POST")} == {TO_SIGN_IN}


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_signed_out_no_method_gets_past_the_rules(towards, method):
    """No view asks for the sign-in itself."""
    world, client = towards(SIGNED_OUT), Client()
    answers = {name: client.generic(method, address(name, world)) for name in {*IN_PROJECT, *ACCOUNT}}

    away = {
        name
        for name, one in answers.items()
        if one.status_code == 302 and one.url.startswith("/sign-in?next=")
    }
    assert set(answers) - away == set()


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_what_is_public_asks_for_no_account(towards, name):
    world = towards(SIGNED_OUT)

    assert outcome(Client(), name, "GET", world) == (NOT_THERE if name in tables.ABSENT else LET_IN)


def test_a_route_that_says_nothing_is_refused_to_everybody(settings, towards):
    settings.ROOT_URLCONF = "tests.webapp.permissions.open_urls"
    world = towards("admin")
    client = browser(world)

    assert client.get("/unlisted").status_code == 403
    assert client.post("/unlisted").status_code == 403


def test_a_page_that_forgets_to_ask_is_an_error(settings, towards):
    from webapp.interfaces.pages.middleware import NeverAsked

    settings.ROOT_URLCONF = "tests.webapp.permissions.open_urls"
    client = browser(towards("admin"))

    with pytest.raises(NeverAsked, match="forgetful answered 200"):
        client.get("/forgetful")
    client.raise_request_exception = False
    assert client.get("/forgetful").status_code == 500
    assert b"secret" not in client.get("/forgetful").content


def test_what_a_service_refuses_is_answered_as_the_rules_would(settings, towards):
    settings.ROOT_URLCONF = "tests.webapp.permissions.open_urls"
    client = browser(towards("viewer"))

    refused = client.get("/refusing")

    assert refused.status_code == 403
    assert "This needs the role launcher in this project; yours is viewer." in refused.content.decode()
    assert client.get("/hiding").status_code == 404
