"""The second factor: enrolment, the step after the password, recovery codes, turning it off."""

import re
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from tests.webapp.identity.signin.conftest import NEW, PASSWORD, App
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.audit.models import Event
from webapp.identity.signin import codes, entry, two_factor
from webapp.identity.signin.models import RecoveryCode, TwoFactor


def is_in(client):
    return client.get("/profile").status_code == 200


def step_two(client, code):
    return client.post("/sign-in/code", {"code": code})


def patient(bob):
    """The wait after wrong codes is over."""
    TwoFactor.objects.filter(user=bob).update(failed_at=timezone.now() - timedelta(hours=1))


def test_enrolling_on_the_page(client, bob):
    client.force_login(bob)
    page = client.get("/profile/two-factor").content.decode()
    key = bytes.fromhex(client.session["two_factor_key"])
    assert codes.key_text(key) in page and 'src="data:image/svg+xml' in page
    assert not TwoFactor.objects.exists()
    app = App(key)

    wrong = client.post("/profile/two-factor", {"code": app.code(), "password": "wrong"})
    assert wrong.status_code == 422 and "not your password" in wrong.content.decode()
    wrong = client.post("/profile/two-factor", {"code": "000000", "password": PASSWORD})
    assert wrong.status_code == 422 and not TwoFactor.objects.exists()

    done = client.post("/profile/two-factor", {"code": app.code(), "password": PASSWORD})
    shown = re.findall(r"<li><code>([^<]+)</code>", done.content.decode())
    assert len(shown) == 10
    stored = TwoFactor.objects.get()
    assert key.hex() not in stored.sealed_key and key not in stored.sealed_key.encode()
    digests = set(RecoveryCode.objects.values_list("digest", flat=True))
    assert len(digests) == 10 and not digests & {codes.normal(one) for one in shown}
    assert "two_factor_key" not in client.session
    page = client.get("/profile").content.decode()
    assert not any(one in page for one in shown)
    assert Event.objects.filter(verb="two_factor.enabled", actor=bob).count() == 1
    assert client.get("/profile/two-factor").url == "/profile"  # once


def test_enrolling_signs_out_elsewhere(bob, client):
    elsewhere = Client()
    elsewhere.force_login(bob)
    client.force_login(bob)
    client.get("/profile/two-factor")
    app = App(bytes.fromhex(client.session["two_factor_key"]))
    client.post("/profile/two-factor", {"code": app.code(), "password": PASSWORD})
    assert is_in(client) and not is_in(elsewhere)


def test_enrolling_twice_changes_nothing(bob, app):
    other = codes.new_key()
    with pytest.raises(Conflict):
        two_factor.enrol(bob, key=other, code=codes.code_at(other))
    assert two_factor.check(bob, app.next())


def test_a_key_that_the_app_has_not_is_refused(bob):
    with pytest.raises(InvalidInput):
        two_factor.enrol(bob, key=codes.new_key(), code=codes.code_at(codes.new_key()))


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
    session[entry.HALF_WAY] |= {"since": (timezone.now() - timedelta(minutes=5, seconds=1)).isoformat()}
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
    assert step_two(client, app.code()).url == "/sign-in"


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
    assert "planted" not in client.session and entry.HALF_WAY not in client.session
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

    assert replayed.status_code == 422 and "used already" in replayed.content.decode()
    assert not is_in(client)


def test_a_code_before_the_newest_used_one_works_no_more(bob, app):
    before = app.code()
    assert two_factor.check(bob, app.next())
    assert not two_factor.check(bob, before)


def test_the_code_of_enrolling_is_used_up(bob, app):
    assert not two_factor.check(bob, app.code())


def test_wrong_codes_make_the_next_try_wait_longer_and_longer(bob, app):
    assert not two_factor.check(bob, "000000")
    waits = []
    for _ in range(14):
        with pytest.raises(two_factor.TooSoon) as found:
            two_factor.check(bob, app.next())  # even a right one
        app.steps = 0
        waits.append(found.value.seconds)
        patient(bob)
        assert not two_factor.check(bob, "000000")
    assert waits[:5] == [1, 2, 4, 8, 16] and waits[-1] == 900 == max(waits)
    patient(bob)
    assert two_factor.check(bob, app.next())
    assert TwoFactor.objects.get().failures == 0


def test_the_page_says_how_long_to_wait(client, sign_in, app):
    sign_in(client)
    assert step_two(client, "000000").status_code == 422
    answer = step_two(client, app.next())
    assert answer.status_code == 429 and "Try again in 1 s" in answer.content.decode()


def test_wrong_codes_count_as_wrong_passwords(client, sign_in, app, bob, settings):
    settings.AXES_FAILURE_LIMIT = 3
    sign_in(client)
    for _ in range(2):
        assert step_two(client, "000000").status_code == 422
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
    step_two(client, f" {code.upper().replace('-', ' ')} ")
    assert "9 are left" in client.get("/profile").content.decode()
    client.post("/sign-out")
    sign_in(client)
    assert step_two(client, code).status_code == 422
    patient(bob)
    assert step_two(client, app.recovery[4]).status_code == 302


def test_recovery_codes_of_others_open_nothing(app, db):
    from tests.members import member

    eve = member("eve")
    key = codes.new_key()
    two_factor.enrol(eve, key=key, code=codes.code_at(key))
    assert not two_factor.check(eve, app.recovery[0])


def test_another_secret_key_takes_no_app_code_but_the_one_before_it_does(bob, app, settings):
    before, settings.SECRET_KEY = settings.SECRET_KEY, "another" * 10
    assert not two_factor.check(bob, app.next())
    patient(bob)
    assert not two_factor.check(bob, app.recovery[0])
    patient(bob)
    settings.SECRET_KEY_FALLBACKS = [before]
    assert two_factor.check(bob, app.code())
    assert two_factor.check(bob, app.recovery[0])


def test_turning_it_off_takes_both_factors(client, bob, app):
    client.force_login(bob)
    for form in (
        {"password": "wrong", "code": app.next()},
        {"password": PASSWORD, "code": "000000"},
        {"password": PASSWORD},
    ):
        assert client.post("/profile/two-factor/off", form).status_code == 422
        patient(bob)
    assert two_factor.has_two_factor(bob)

    assert (
        client.post("/profile/two-factor/off", {"password": PASSWORD, "code": app.code()}).url == "/profile"
    )

    assert not two_factor.has_two_factor(bob) and not RecoveryCode.objects.exists()
    assert (
        client.post("/profile/two-factor/off", {"password": PASSWORD, "code": app.code()}).url == "/profile"
    )


def test_new_recovery_codes_replace_the_old(client, bob, app):
    client.force_login(bob)
    page = client.post("/profile/two-factor/codes", {"password": PASSWORD, "code": app.next()})
    shown = re.findall(r"<li><code>([^<]+)</code>", page.content.decode())
    assert len(shown) == 10 and not set(shown) & set(app.recovery)
    assert not two_factor.check(bob, app.recovery[0])
    patient(bob)
    assert two_factor.check(bob, shown[0])
    with pytest.raises(Conflict):
        two_factor.turn_off(bob, actor=bob)
        two_factor.renew_recovery_codes(bob)


def test_an_administrator_turns_it_off(client, bob, app, capsys):
    client.force_login(bob)
    call_command("reset_two_factor", "bob")
    assert not two_factor.has_two_factor(bob) and not is_in(client)
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

    app = App(bytes.fromhex(client.session.get("two_factor_key") or _key_of_page(client)))
    client.post("/profile/two-factor", {"code": app.code(), "password": PASSWORD})

    assert client.get("/runs").status_code == 200
    assert client.get("/profile").status_code == 200


def _key_of_page(client):
    client.get("/profile/two-factor")
    return client.session["two_factor_key"]


def test_where_it_is_required_signing_out_and_shared_links_stay_open(client, sign_in, settings):
    settings.REQUIRE_TWO_FACTOR = True
    assert client.get("/s/unknown").status_code in (404, 410)
    sign_in(client)
    assert client.post("/sign-out").url == "/sign-in"
