"""Passkeys, with an authenticator in software: registering, signing in, as second factor, and what is refused.

The same by a real browser: tests/browser/test_passkeys.py.
"""

import json
import time

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client

from tests.authenticator_app import enrolled
from tests.members import member
from tests.software_authenticator import SoftwareAuthenticator
from tests.webapp.identity.signin.conftest import PASSWORD
from webapp.identity.audit.models import Event

ORIGIN = "http://localhost"


@pytest.fixture
def browser():
    return Client(headers={"host": "localhost"})


def data_of(page):
    """What the page hands to the script."""
    return json.loads(
        page.content.decode()
        .partition('<script id="js_data" type="application/json">')[2]
        .partition("</script>")[0]
    )


def is_in(client):
    return client.get("/profile").status_code == 200


def register(client, key, name="laptop"):
    client.post("/profile/confirm", {"password": PASSWORD})
    options = data_of(client.get("/profile/passkeys/new"))["creation_options"]["publicKey"]
    credential = key.create(options)
    return client.post("/profile/passkeys/new", {"name": name, "credential": json.dumps(credential)})


def sign_in(client, key, next_url="", **how):
    options = client.get("/sign-in/passkey", headers={"Accept": "application/json"}).json()
    credential = key.get(options["request_options"]["publicKey"], **how)
    return client.post("/sign-in/passkey", {"credential": json.dumps(credential), "next": next_url})


@pytest.fixture
def key(bob, browser):
    """Bob's passkey."""
    key = SoftwareAuthenticator(ORIGIN)
    browser.force_login(bob)
    assert register(browser, key).url == "/profile/two-factor/codes"
    browser.post("/sign-out")
    return key


@pytest.fixture
def eve(db):
    """Somebody else with a passkey of her own."""
    eve, client = member("eve", password=PASSWORD), Client(headers={"host": "localhost"})
    client.force_login(eve)
    register(client, SoftwareAuthenticator(ORIGIN))
    return eve


def test_registering_takes_the_password(bob, browser):
    browser.force_login(bob)
    assert browser.get("/profile/passkeys/new").url.startswith("/profile/confirm")
    assert not Authenticator.objects.exists()


def test_registering(bob, browser, key):
    assert Event.objects.filter(verb="passkey.added", actor=bob).count() == 1
    browser.force_login(bob)
    page = browser.get("/profile").content.decode()
    assert "laptop" in page and "10 recovery codes left" in page


def test_a_passkey_signs_in_alone(bob, browser, key):
    before = browser.session.session_key
    assert sign_in(browser, key, "/leaderboard").url == "/leaderboard"
    assert is_in(browser) and browser.session.session_key != before
    assert Event.objects.filter(verb="sign_in.succeeded", object_name="bob").exists()


def test_it_never_leads_elsewhere(browser, key):
    assert sign_in(browser, key, "https://evil.example.com/").url == "/"


def test_one_that_did_not_check_who_holds_it_is_a_second_factor_only(bob, browser, key):
    answer = sign_in(browser, key, verified=False)
    assert answer.url == "/sign-in" and not is_in(browser)
    assert "This was not accepted" in browser.get("/sign-in").content.decode()

    browser.post("/sign-in", {"username": "bob", "password": PASSWORD})
    options = data_of(browser.get("/sign-in/code"))["request_options"]["publicKey"]
    credential = key.get(options, verified=False)
    assert browser.post("/sign-in/code", {"credential": json.dumps(credential)}).url == "/"
    assert is_in(browser)


def test_a_question_for_the_second_step_is_none_for_the_whole_way(bob, browser, key, eve):
    """Eve, half way in as herself until that lapses, has Bob's key without its PIN."""
    browser.post("/sign-in", {"username": "eve", "password": PASSWORD})
    options = data_of(browser.get("/sign-in/code"))["request_options"]["publicKey"]
    form = {"credential": json.dumps(key.get(options, verified=False))}
    assert browser.post("/sign-in/passkey", form).url == "/sign-in/code"
    session = browser.session
    session["account_login"] |= {"initiated_at": time.time() - 301}
    session.save()
    assert browser.post("/sign-in/passkey", form).url == "/sign-in"
    assert not is_in(browser)
    assert "Use your password first" in browser.get("/sign-in").content.decode()


def test_who_is_half_way_in_can_begin_anew_by_passkey(bob, browser, key, eve):
    browser.post("/sign-in", {"username": "eve", "password": PASSWORD})
    browser.get("/sign-in")
    sign_in(browser, key)
    assert "bob" in browser.get("/profile").content.decode()


def test_after_the_password_it_is_asked_for(bob, browser, key):
    assert browser.post("/sign-in", {"username": "bob", "password": PASSWORD}).url == "/sign-in/code"
    assert not is_in(browser)
    assert "Use a passkey" in browser.get("/sign-in/code").content.decode()


def test_a_recovery_code_does_in_its_place(bob, browser, key):
    code = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()[0]
    browser.post("/sign-in", {"username": "bob", "password": PASSWORD})
    browser.post("/sign-in/code", {"code": code})
    assert is_in(browser)


@pytest.mark.parametrize(
    "how",
    [
        {"origin": "https://headr00m.example.com"},
        {"origin": "http://localhost.example.com"},
        {"rp_id": "example.com"},
        {"challenge": "AAAA"},
        {"kind": "webauthn.create"},
        {"signature": b"\0" * 64},
        {"user_handle": b"999999"},
    ],
)
def test_what_is_no_proof(bob, browser, key, how):
    assert sign_in(browser, key, **how).url == "/sign-in"
    assert not is_in(browser)


def test_a_proof_is_taken_once(bob, browser, key):
    options = browser.get("/sign-in/passkey", headers={"Accept": "application/json"}).json()[
        "request_options"
    ]
    form = {"credential": json.dumps(key.get(options["publicKey"]))}
    assert browser.post("/sign-in/passkey", form).url == "/"
    browser.post("/sign-out")
    assert browser.post("/sign-in/passkey", form).url == "/sign-in" and not is_in(browser)


@pytest.mark.parametrize(
    "sent",
    ["", "x", "[]", "null", "7", "{}", '{"id": 1}', '{"response": []}', '{"response": {"userHandle": 7}}'],
)
def test_what_cannot_be_read_is_refused_in_words(browser, key, sent):
    browser.get("/sign-in/passkey", headers={"Accept": "application/json"})
    answer = browser.post("/sign-in/passkey", {"credential": sent})
    assert answer.status_code == 302 and answer.url == "/sign-in"
    browser.post("/sign-in", {"username": "bob", "password": PASSWORD})
    assert browser.post("/sign-in/code", {"credential": sent}).status_code == 200


@pytest.mark.parametrize("sent", ["", "x", "[]", "{}", '{"id": 1}', '{"response": []}'])
def test_what_cannot_be_read_registers_nothing(bob, browser, sent):
    browser.force_login(bob)
    browser.post("/profile/confirm", {"password": PASSWORD})
    browser.get("/profile/passkeys/new")
    assert browser.post("/profile/passkeys/new", {"name": "x", "credential": sent}).status_code == 200
    assert not Authenticator.objects.exists()


def test_nobody_signs_in_with_somebody_elses(bob, browser, key, eve):
    browser.post("/sign-in", {"username": "eve", "password": PASSWORD})
    options = data_of(browser.get("/sign-in/code"))["request_options"]["publicKey"]
    browser.post("/sign-in/code", {"credential": json.dumps(key.get(options))})
    assert not is_in(browser)


def test_a_closed_account_stays_closed_and_leaves_nothing_behind(bob, browser, key):
    """What one passkey proved must not spare another account's second factor."""
    eve = member("eve", password=PASSWORD)
    enrolled(eve)
    bob.is_active = False
    bob.save()
    assert sign_in(browser, key).url == "/sign-in" and not is_in(browser)
    assert browser.post("/sign-in", {"username": "eve", "password": PASSWORD}).url == "/sign-in/code"
    assert not is_in(browser)


def test_it_is_enough_where_a_second_factor_is_required(bob, browser, key, settings):
    settings.REQUIRE_TWO_FACTOR = True
    sign_in(browser, key)
    assert is_in(browser)


def test_removing_it_takes_a_proof_and_ends_the_recovery_codes(bob, browser, key):
    sign_in(browser, key)
    mine = Authenticator.objects.get(type="webauthn")
    assert browser.post(f"/profile/passkeys/{mine.pk}/remove").url.startswith("/profile/confirm/")
    options = data_of(browser.get("/profile/confirm/passkey"))["request_options"]["publicKey"]
    browser.post("/profile/confirm/passkey", {"credential": json.dumps(key.get(options))})
    assert browser.post(f"/profile/passkeys/{mine.pk}/remove").url == "/profile"
    assert not Authenticator.objects.exists()
    assert Event.objects.filter(verb="passkey.removed", actor=bob).count() == 1


def test_others_passkeys_are_not_there(bob, browser, key):
    mine = Authenticator.objects.get(type="webauthn")
    browser.force_login(member("eve", password=PASSWORD))
    browser.post("/profile/confirm", {"password": PASSWORD})
    assert browser.post(f"/profile/passkeys/{mine.pk}/remove").status_code == 404
    assert Authenticator.objects.filter(pk=mine.pk).exists()


def test_a_locked_out_person_comes_in_by_passkey(bob, browser, key, settings):
    """Wrong passwords of others lock the password, which a passkey does without."""
    settings.AXES_FAILURE_LIMIT = 1
    assert browser.post("/sign-in", {"username": "bob", "password": "wrong"}).status_code == 429
    sign_in(browser, key)
    assert is_in(browser)
