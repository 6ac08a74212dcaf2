"""Codes: those of the standard, each once, none after a newer one; wrong ones make the next try wait."""

import json
from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.utils import encrypt

from tests.authenticator_app import App, code_at, enrolled
from tests.members import member
from webapp.identity.signin import forms
from webapp.identity.signin.forms import TooSoon, take

# RFC 6238, appendix B: SHA-1, the last six of its eight digits.
RFC_SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"


def patient(user):
    """The wait after wrong codes is over."""
    for one in Authenticator.objects.filter(user=user):
        if one.data.get("failed_at"):
            one.data["failed_at"] -= timedelta(hours=1).total_seconds()
            one.save()


@pytest.mark.parametrize(
    ("now", "code"),
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_codes_are_those_of_the_standard(bob, monkeypatch, now, code):
    app = enrolled(bob)
    row = Authenticator.objects.get(type="totp")
    row.data = {"secret": encrypt(RFC_SECRET)}
    row.save()
    monkeypatch.setattr("time.time", lambda: now)
    assert take(bob, code).type == "totp" and take(bob, code) is None
    assert code_at(RFC_SECRET, now) == code != app.code()


def test_one_step_to_either_side_is_taken(bob, app):
    row = Authenticator.objects.get(type="totp")
    for off, taken in ((-2, False), (-1, True), (0, True), (1, True), (2, False)):
        row.refresh_from_db()
        row.data["last_step"] = -1
        row.save()
        patient(bob)
        app.steps = off
        assert bool(take(bob, app.code())) is taken, off


@pytest.mark.parametrize("code", ["", "12345", "1234567", "abcdef", "-12345"])
def test_what_is_no_code(bob, app, code):
    assert take(bob, code) is None


def test_a_code_before_the_newest_used_one_works_no_more(bob, app):
    before = app.code()
    assert take(bob, app.next())
    assert not take(bob, before)


def test_the_code_of_enrolling_is_used_up(bob, app):
    assert not take(bob, app.code())


def test_wrong_codes_make_the_next_try_wait_longer_and_longer(bob, app):
    assert not take(bob, "000000")
    waits = []
    for _ in range(14):
        with pytest.raises(TooSoon) as found:
            take(bob, app.next())  # even a right one
        app.steps = 0
        waits.append(int(str(found.value).split()[-2]))
        patient(bob)
        assert not take(bob, "000000")
    assert waits[:5] == [1, 2, 4, 8, 16] and waits[-1] == 900 == max(waits)
    patient(bob)
    assert take(bob, app.next())
    assert not any(one.data.get("failures") for one in Authenticator.objects.all())


def test_recovery_codes_of_others_open_nothing(bob, app):
    eve = member("eve")
    enrolled(eve)
    assert not take(eve, app.recovery[0])


def test_recovery_codes_are_ten_and_long(app):
    assert len(set(app.recovery)) == 10 and {len(code) for code in app.recovery} == {16}


def test_who_has_passkeys_alone_has_no_code(bob):
    Authenticator.objects.create(user=bob, type="webauthn", data={"name": "key", "credential": {}})
    assert forms.has_second_factor(bob) and take(bob, "123456") is None


def test_another_secret_key_takes_no_code_but_the_one_before_it_does(bob, app, settings):
    before, settings.SECRET_KEY = settings.SECRET_KEY, "another" * 10
    for code in (app.next(), app.recovery[0], code_at("")):
        assert not take(bob, code)
        patient(bob)
    settings.SECRET_KEY_FALLBACKS = [before]
    assert take(bob, app.code())
    assert take(bob, app.recovery[0])


def test_a_copy_of_the_database_shows_no_secret(bob, app):
    stored = json.dumps(list(Authenticator.objects.values_list("data", flat=True)))
    assert app.secret not in stored and not any(code in stored for code in app.recovery)


def test_the_apps_of_the_tests_differ():
    assert App().secret != App().secret
