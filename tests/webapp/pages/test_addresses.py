"""Every page there is answers, with its policy; and every page there is, is in the table."""

import pytest

from tests.webapp.pages.addresses import FRAMEABLE, NOT_PAGES, PAGES, WITHOUT_ACCOUNT, make_things
from webapp.pages.urls import urlpatterns


def test_every_address_is_a_page_of_the_table_or_said_to_be_none():
    names = {pattern.name for pattern in urlpatterns}

    assert names - set(PAGES) - NOT_PAGES == set(), "add it to PAGES (or NOT_PAGES) in addresses.py"
    assert (set(PAGES) | NOT_PAGES) - names == set(), "no longer an address: take it out of addresses.py"
    assert set(PAGES) & NOT_PAGES == set()


@pytest.fixture
def things(user, make_run):
    return make_things(user, make_run)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_answers_with_its_policy(ada, things, name):
    if name == "sign-in":
        ada.logout()  # who is signed in is sent on

    answer = ada.get(PAGES[name](things), follow=True)

    assert answer.status_code == 200
    policy = answer["Content-Security-Policy"]
    assert "unsafe" not in policy.replace("style-src-attr 'unsafe-inline'", "")
    assert "script-src 'self'" in policy
    assert ("frame-ancestors 'none'" in policy) == (name not in FRAMEABLE)
    assert "<title>" in answer.content.decode()


@pytest.mark.parametrize("name", sorted(set(PAGES) - WITHOUT_ACCOUNT))
def test_every_page_needs_an_account(client, db, name):
    from tests.webapp.pages.addresses import Things

    answer = client.get(PAGES[name](Things(*"abcdefghij")), follow=True)

    assert answer.request["PATH_INFO"] == "/sign-in"
