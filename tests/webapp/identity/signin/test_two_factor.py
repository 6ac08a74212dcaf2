"""The second factor: enrolment, the step after the password, recovery codes, turning it off."""

import re
import time

import pytest
from allauth.mfa.models import Authenticator
from django.core.management import CommandError, call_command
from django.test import Client

from tests.authenticator_app import App
from tests.webapp.identity.signin.conftest import NEW, PASSWORD
from tests.webapp.identity.signin.test_second_factor import patient
from webapp.identity.audit.models import Event
from webapp.identity.signin.forms import has_second_factor

CONFIRM, CONFIRM_CODE = "/profile/confirm", "/profile/confirm/code"


def is_in(client):
    return client.get("/profile").status_code == 200


def step_two(client, code):
    return client.post("/sign-in/code", {"code": code})


def confirmed(client):
    """Who is signed in has given the password, as is asked before the second factor is changed."""
    assert client.post(CONFIRM, {"password": PASSWORD}).status_code == 302


def shown_codes(client):
    return re.findall(r"<li><code>([^<]+)</code>", client.get("/profile/two-factor/codes").content.decode())


def begun(client):
    """The page of turning it on, and the app that was given its key."""
    page = client.get("/profile/two-factor").content.decode()
    return page, App(re.search(r'<div class="copy"><code tabindex="0">(\w+)<', page)[1])


def test_enrolling_on_the_page(client, bob):
    client.force_login(bob)
    assert client.get("/profile/two-factor").url == f"{CONFIRM}?next=%2Fprofile%2Ftwo-factor"
    wrong = client.post(CONFIRM, {"password": "wrong"})
    assert "not your password" in wrong.content.decode()
    assert client.get("/profile/two-factor").status_code == 302
    confirmed(client)
    page, app = begun(client)
    assert 'src="data:image/svg+xml' in page and not Authenticator.objects.exists()

    wrong = client.post("/profile/two-factor", {"code": "000000"})
    assert 'id="id_code_error"' in wrong.content.decode() and not Authenticator.objects.exists()

    done = client.post("/profile/two-factor", {"code": app.code()})
    assert done.url == "/profile/two-factor/codes"
    shown = shown_codes(client)
    assert len(set(shown)) == 10
    assert shown_codes(client) == []  # they are shown once
    page = client.get("/profile").content.decode()
    assert "10 recovery codes left" in page and not any(one in page for one in shown)
    assert Event.objects.filter(verb="two_factor.enabled", actor=bob).count() == 1
    assert client.get("/profile/two-factor").url == "/profile/two-factor/off"  # once


@pytest.mark.parametrize("code", ["", "12345", "１２３４５６", "abcdef"])
def test_what_is_no_code_turns_nothing_on(client, bob, code):
    client.force_login(bob)
    confirmed(client)
    begun(client)
    assert client.post("/profile/two-factor", {"code": code}).status_code == 200
    assert not Authenticator.objects.exists()


def test_a_confirmation_is_for_five_minutes(client, bob, monkeypatch):
    client.force_login(bob)
    confirmed(client)
    assert client.get("/profile/two-factor").status_code == 200
    later = time.time() + 301
    monkeypatch.setattr("allauth.account.internal.flows.reauthentication.time.time", lambda: later)
    assert client.get("/profile/two-factor").url.startswith(CONFIRM)


def test_signing_in_is_no_confirmation(client, sign_in):
    sign_in(client)
    assert client.get("/profile/two-factor").url.startswith(CONFIRM)


def test_enrolling_signs_out_elsewhere(bob, client):
    elsewhere = Client()
    elsewhere.force_login(bob)
    client.force_login(bob)
    confirmed(client)
    _, app = begun(client)
    client.post("/profile/two-factor", {"code": app.code()})
    assert is_in(client) and not is_in(elsewhere)


def test_password_then_code(client, sign_in, app):
    answer = sign_in(client, next="/leaderboard")
    assert answer.url == "/sign-in/code"
    assert not is_in(client)

    assert step_two(client, app.next()).url == "/leaderboard"

    assert is_in(client)


def test_half_signed_in_opens_nothing(client, sign_in, app):
    sign_in(client)
    for path in ("/", "/runs", "/profile", "/tokens", "/profile/two-factor", "/profile/password"):
        assert client.get(path)["Location"].startswith("/sign-in?")
    assert client.post("/profile/sessions/end").status_code == 302
    assert "_auth_user_id" not in client.session


def test_the_code_alone_opens_nothing(client, app):
    assert step_two(client, app.next()).url == "/sign-in"
    assert not is_in(client)


def test_half_way_ends_after_five_minutes(client, sign_in, app):
    sign_in(client)
    session = client.session
    session["account_login"] |= {"initiated_at": time.time() - 301}
    session.save()

    assert step_two(client, app.next()).url == "/sign-in"
    assert not is_in(client)


def test_half_way_ends_when_the_password_changes_or_the_account_closes(client, sign_in, app, bob):
    sign_in(client)
    bob.set_password(NEW)
    bob.save()
    assert step_two(client, app.next()).url == "/sign-in"
    sign_in(client, NEW)
    bob.is_active = False
    bob.save()
    assert step_two(client, app.recovery[0]).url == "/sign-in"


def test_the_session_key_changes_at_each_step(client, sign_in, app):
    client.get("/sign-in")
    session = client.session
    session["planted"] = 1
    session.save()
    client.cookies["sessionid"] = session.session_key
    keys = [session.session_key]
    sign_in(client)
    keys.append(client.session.session_key)
    step_two(client, app.next())
    keys.append(client.session.session_key)

    assert len(set(keys)) == 3
    assert "planted" not in client.session and "account_login" not in client.session
    stale = Client()
    for key in keys[:2]:
        stale.cookies["sessionid"] = key
        assert not is_in(stale)


def test_a_code_works_once(client, sign_in, app, bob):
    code = app.next()
    sign_in(client)
    step_two(client, code)
    client.post("/sign-out")
    sign_in(client)

    replayed = step_two(client, code)

    assert replayed.status_code == 200 and "used already" in replayed.content.decode()
    assert not is_in(client)


def test_the_page_says_how_long_to_wait(client, sign_in, app):
    sign_in(client)
    assert step_two(client, "000000").status_code == 200
    answer = step_two(client, app.next())
    assert "Try again in 1 s" in answer.content.decode() and not is_in(client)


def test_wrong_codes_count_as_wrong_passwords(client, sign_in, app, bob, settings):
    settings.AXES_FAILURE_LIMIT = 3
    sign_in(client)
    for _ in range(2):
        assert step_two(client, "000000").status_code == 200
        patient(bob)
    locked = step_two(client, "000000")
    patient(bob)

    assert locked.status_code == 429 and "Try again in 15 minutes" in locked.content.decode()
    assert step_two(client, app.next()).status_code == 429
    assert sign_in(Client()).status_code == 429
    assert not is_in(client)


def test_a_recovery_code_works_once(client, sign_in, app, bob):
    code = app.recovery[3]
    sign_in(client)
    step_two(client, f" {code[:4]}-{code[4:8]} {code[8:]} ")
    assert "9 are left" in client.get("/profile").content.decode()
    client.post("/sign-out")
    sign_in(client)
    assert step_two(client, code).status_code == 200
    patient(bob)
    assert step_two(client, app.recovery[4]).status_code == 302


def test_turning_it_off_takes_both_factors(client, bob, app):
    client.force_login(bob)
    assert client.get("/profile/two-factor/off").url.startswith(CONFIRM_CODE)
    assert client.get(CONFIRM).url.startswith(CONFIRM_CODE)  # the password alone is not enough
    for form in (
        {"password": "wrong", "code": app.next()},
        {"password": PASSWORD, "code": "000000"},
        {"password": PASSWORD},
    ):
        assert client.post(CONFIRM_CODE, form).status_code == 200
        patient(bob)
        assert client.post("/profile/two-factor/off").url.startswith(CONFIRM_CODE)
    assert has_second_factor(bob)

    assert client.post(CONFIRM_CODE, {"password": PASSWORD, "code": app.code()}).status_code == 302
    assert client.post("/profile/two-factor/off").url == "/profile"

    assert not Authenticator.objects.exists()
    assert Event.objects.filter(verb="two_factor.disabled", actor=bob).count() == 1
    assert client.get("/profile/two-factor/off").status_code == 404


def test_what_was_sent_before_the_confirmation_is_done_after_it(client, bob, app):
    client.force_login(bob)
    client.post("/profile/two-factor/off")
    form = {"password": PASSWORD, "code": app.next(), "next": "/profile/two-factor/off"}
    assert client.post(CONFIRM_CODE, form).url == "/profile" and not has_second_factor(bob)


def test_a_stolen_session_cannot_guess_its_way_to_the_second_factor(client, bob, settings):
    settings.AXES_FAILURE_LIMIT = 3
    client.force_login(bob)
    answers = [client.post(CONFIRM, {"password": "wrong"}).status_code for _ in range(3)]
    assert answers == [200, 200, 429]
    assert client.post(CONFIRM, {"password": PASSWORD}).status_code == 429


def test_new_recovery_codes_replace_the_old(client, bob, app, django_capture_on_commit_callbacks):
    client.force_login(bob)
    client.post(CONFIRM_CODE, {"password": PASSWORD, "code": app.next()})
    with django_capture_on_commit_callbacks(execute=True):
        assert client.post("/profile/two-factor/codes/new").url == "/profile/two-factor/codes"
    shown = shown_codes(client)
    assert len(shown) == 10 and not set(shown) & set(app.recovery)
    assert Event.objects.filter(verb="two_factor.codes_renewed", actor=bob).count() == 1
    other = Client()
    other.post("/sign-in", {"username": "bob", "password": PASSWORD})
    step_two(other, app.recovery[0])
    assert not is_in(other)
    patient(bob)
    step_two(other, shown[0])
    assert is_in(other)


def test_an_administrator_turns_it_off(client, bob, app, capsys):
    client.force_login(bob)
    call_command("reset_two_factor", "bob")
    assert not has_second_factor(bob) and not is_in(client)
    assert "1 sessions ended" in capsys.readouterr().out
    assert Event.objects.get(verb="two_factor.disabled").actor is None
    for name in ("bob", "nobody"):
        with pytest.raises(CommandError):
            call_command("reset_two_factor", name)


def test_where_it_is_required_everything_else_waits(client, sign_in, bob, settings):
    settings.REQUIRE_TWO_FACTOR = True
    sign_in(client)
    for path in ("/runs", "/profile", "/tokens", "/profile/password"):
        assert client.get(path)["Location"] == "/profile/two-factor"
    assert client.post("/tokens", {"scope": "read"})["Location"] == "/profile/two-factor"
    assert client.get("/runs", headers={"HX-Request": "true"}).status_code == 403
    assert client.get("/sign-in").status_code == 302 and client.get("/alive").status_code in (200, 204)

    confirmed(client)
    _, app = begun(client)
    client.post("/profile/two-factor", {"code": app.code()})

    assert client.get("/runs").status_code == 200
    assert client.get("/profile").status_code == 200

    client.post(CONFIRM_CODE, {"password": PASSWORD, "code": app.next()})
    client.post("/profile/two-factor/off")
    assert client.get("/runs")["Location"] == "/profile/two-factor"


def test_where_it_is_required_signing_out_and_shared_links_stay_open(client, sign_in, settings):
    settings.REQUIRE_TWO_FACTOR = True
    assert client.get("/s/unknown").status_code in (404, 410)
    sign_in(client)
    assert client.post("/sign-out").url == "/sign-in"
