"""Every page there is answers, with its policy; and every page there is, is in the table."""

from functools import partial

import pytest
from django.conf import settings

from tests.fake_model import make_model
from tests.launching import launched
from tests.members import member
from tests.shared_rows import kept
from tests.webapp.interfaces.pages.addresses import (
    FRAMEABLE,
    NOT_PAGES,
    PAGES,
    WITHOUT_ACCOUNT,
    Things,
    make_things,
)
from tests.webapp.permissions.world import MODEL, trained
from webapp.interfaces.pages.urls import urlpatterns
from webapp.interfaces.routes import needs_of


def test_every_address_is_a_page_of_the_table_or_said_to_be_none():
    names = {name for name, need in needs_of(urlpatterns).items() if need.read}

    assert names - set(PAGES) - NOT_PAGES == set(), "add it to PAGES (or NOT_PAGES) in addresses.py"
    assert (set(PAGES) | NOT_PAGES) - names == set(), "no longer an address: take it out of addresses.py"
    assert set(PAGES) & NOT_PAGES == set()


@pytest.fixture(scope="module")
def shared(django_db_setup, django_db_blocker):
    """(a person, what they made), once for all of these tests."""
    make_model(settings.HEADROOM_HOME, MODEL, 4096)
    with kept(django_db_blocker):
        user = member()
        yield user, make_things(user, partial(make_run, user))


def make_run(user, n, *, seed=0, name="", **curve):
    run = launched(
        user=user, project=user.projects.get(), recipe="tiny-scalerl", task="arithmetic", model=MODEL, seed=seed,
        budget_hours=16.0, name=name,
    )  # fmt: skip
    return trained(run, n, seed=seed, **curve)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_answers_with_its_policy(shared, client, db, name):
    user, things = shared
    if name != "sign-in":  # who is signed in is sent on
        client.force_login(user)

    answer = client.get(PAGES[name](things), follow=True)

    assert answer.status_code == 200
    policy = answer["Content-Security-Policy"]
    assert "unsafe" not in policy.replace("style-src-attr 'unsafe-inline'", "")
    assert "script-src 'self'" in policy
    assert ("frame-ancestors 'none'" in policy) == (name not in FRAMEABLE)
    assert "<title>" in answer.content.decode()


@pytest.mark.parametrize("name", sorted(set(PAGES) - WITHOUT_ACCOUNT))
def test_every_page_needs_an_account(client, db, name):
    answer = client.get(PAGES[name](Things(*"abcdefghij")), follow=True)

    assert answer.request["PATH_INFO"] == "/sign-in"
