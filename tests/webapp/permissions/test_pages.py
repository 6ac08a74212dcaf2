"""Each URL of the pages x each relation to its project x reading and writing, against the table of needs.

How to add a page stands in tables.py.
"""

import re
from unittest.mock import Mock

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from tests.webapp.permissions import tables
from tests.webapp.permissions.world import BOTH, ELSEWHERE, NOBODY, SIGNED_OUT, WHO
from webapp.identity.accounts.models import Role
from webapp.identity.accounts.permissions import grants
from webapp.interfaces.pages.access import SESSION_KEY
from webapp.interfaces.pages.permissions import ACCOUNT, NEEDS, PUBLIC, needed
from webapp.interfaces.pages.urls import urlpatterns

LET_IN, REFUSED, NOT_THERE, TO_SIGN_IN, NO_METHOD = "let in", "403", "404", "to the sign-in", "405"
WHOLE = "admin"  # for whom the walk makes its pages, too; for the others these say nothing:
SHOWN = {
    "django.template.backends.django.Template.render": "",
    "webapp.interfaces.pages.views.prediction.tab_context": {},
}
PATTERNS = {pattern.name: pattern for pattern in urlpatterns}
NO_PAGES = {
    "healthz",
    "healthz-of",
    "metrics",
    "tracker-blob",
    "tracker-health",
    "tracker-version",
}  # public, and for programs: tests of their own


def test_every_address_is_in_exactly_one_table():
    names = {pattern.name for pattern in urlpatterns}

    assert len(names) == len(urlpatterns), "every address has a name of its own"
    assert names - set(NEEDS) - PUBLIC - ACCOUNT == set(), (
        "add it to NEEDS in webapp/interfaces/pages/permissions.py"
    )
    assert (set(NEEDS) | PUBLIC | ACCOUNT) - names - NO_PAGES == set(), "no longer an address: take it out"
    assert not set(NEEDS) & (PUBLIC | ACCOUNT)
    assert not PUBLIC & ACCOUNT


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
    permission = needed(name, method)
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


@pytest.mark.parametrize("who", WHO)
def test_every_address_opens_to_whom_the_table_says(monkeypatch, towards, who):
    if who != WHOLE:
        only_decide(monkeypatch)
    world = towards(who)
    client, wrong = browser(world), []

    for name in NEEDS:
        for method in ("GET", "POST"):
            found, wanted = outcome(client, name, method, world), expected(name, method, world)
            if found not in wanted:
                wrong.append(f"{method} {name}: {found}, not {' or '.join(sorted(wanted))}")

    assert wrong == []


@pytest.mark.parametrize("name", sorted(ACCOUNT))
def test_what_is_of_no_project_needs_an_account(towards, name):
    world = towards(SIGNED_OUT)

    assert {outcome(Client(), name, method, world) for method in ("GET", "POST")} == {TO_SIGN_IN}


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_signed_out_no_method_gets_past_the_doors(towards, method):
    """No view asks for the sign-in itself."""
    world, client = towards(SIGNED_OUT), Client()
    answers = {name: client.generic(method, address(name, world)) for name in {*NEEDS, *ACCOUNT}}

    away = {
        name
        for name, one in answers.items()
        if one.status_code == 302 and one.url.startswith("/sign-in?next=")
    }
    assert set(answers) - away == set()


@pytest.mark.parametrize("name", sorted(PUBLIC - NO_PAGES))
def test_what_is_public_asks_for_no_account(towards, name):
    world = towards(SIGNED_OUT)

    assert outcome(Client(), name, "GET", world) == (NOT_THERE if name in tables.ABSENT else LET_IN)


def test_the_walk_sees_an_address_that_is_in_no_table(settings, towards):
    settings.ROOT_URLCONF = "tests.webapp.permissions.open_urls"
    world = towards("admin")
    client = browser(world)

    assert client.get("/unlisted").status_code == 403
    assert client.post("/unlisted").status_code == 403


def test_a_page_that_forgets_to_ask_is_an_error(settings, towards):
    from webapp.interfaces.pages.doors import NeverAsked

    settings.ROOT_URLCONF = "tests.webapp.permissions.open_urls"
    client = browser(towards("admin"))

    with pytest.raises(NeverAsked, match="overview answered 200"):
        client.get("/forgetful")
    client.raise_request_exception = False
    assert client.get("/forgetful").status_code == 500
    assert b"secret" not in client.get("/forgetful").content


def test_what_a_service_refuses_is_answered_as_the_doors_would(settings, towards):
    settings.ROOT_URLCONF = "tests.webapp.permissions.open_urls"
    client = browser(towards("viewer"))

    refused = client.get("/refusing")

    assert refused.status_code == 403
    assert "This needs the role launcher in this project; yours is viewer." in refused.content.decode()
    assert client.get("/hiding").status_code == 404
