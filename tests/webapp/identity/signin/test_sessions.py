from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from tests.members import member
from webapp.identity.signin import sessions
from webapp.identity.signin.models import SignedIn
from webapp.identity.signin.sessions import device_words

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def is_in(client):
    return client.get("/profile").status_code == 200


def test_the_session_key_is_new_at_sign_in(client, sign_in):
    client.get("/sign-in")
    session = client.session
    session["planted"] = 1
    session.save()
    planted = session.session_key
    client.cookies["sessionid"] = planted

    sign_in(client)

    assert client.session.session_key != planted and "planted" not in client.session
    fixed = Client()
    fixed.cookies["sessionid"] = planted
    assert not is_in(fixed)


def test_a_session_ends_14_days_after_sign_in_however_much_it_is_used(client, sign_in, bob):
    sign_in(client)
    ends = client.session.get_expiry_date()
    assert timedelta(days=13, hours=23) < ends - timezone.now() <= timedelta(days=14)
    session = client.session
    session[sessions.SEEN_KEY] = (timezone.now() - timedelta(hours=1)).isoformat()
    session.save()

    assert is_in(client)

    assert client.session.get_expiry_date() == ends
    assert Session.objects.get(pk=client.session.session_key).expire_date == ends
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert not is_in(client)
    assert sessions.sessions_of(bob) == []


def test_last_seen_is_noted_every_five_minutes_only(client, sign_in, bob, django_assert_num_queries):
    sign_in(client)
    long_ago = timezone.now() - timedelta(hours=1)
    SignedIn.objects.update(seen_at=long_ago)
    client.get("/alive")
    assert SignedIn.objects.get().seen_at == long_ago
    session = client.session
    session[sessions.SEEN_KEY] = long_ago.isoformat()
    session.save()

    client.get("/alive", REMOTE_ADDR="198.51.100.7")

    seen = SignedIn.objects.get()
    assert seen.seen_at > long_ago and seen.address == "198.51.100.7"
    with django_assert_num_queries(2):  # the session, the user
        client.get("/alive")


def test_a_session_from_before_is_noted_when_it_is_used(client, bob):
    client.force_login(bob)
    session = client.session
    del session[sessions.SEEN_KEY]
    session.save()
    SignedIn.objects.all().delete()
    assert "this one" in client.get("/profile").content.decode()
    assert SignedIn.objects.get().user == bob


def test_the_list_says_device_and_address_and_which_one_is_here(client, sign_in):
    sign_in(client, HTTP_USER_AGENT="x")
    other = Client(HTTP_USER_AGENT=FIREFOX, REMOTE_ADDR="198.51.100.7")
    sign_in(other)
    page = client.get("/profile").content.decode()
    assert "Firefox on Linux" in page and "198.51.100.7" in page
    assert page.count("this one") == 1 and "Sign out elsewhere" in page


def test_sign_out_elsewhere(client, sign_in, bob):
    others = [Client(), Client()]
    eve = Client()
    eve.force_login(member("eve"))
    for one in (client, *others):
        sign_in(one)

    client.post("/profile/sessions/end")

    assert is_in(client) and is_in(eve)
    assert not any(is_in(one) for one in others)
    assert len(sessions.sessions_of(bob)) == 1


def test_one_device_is_signed_out_and_nobody_elses(client, sign_in, bob):
    other, eve = Client(), Client()
    sign_in(client)
    sign_in(other)
    eve.force_login(member("eve"))
    of = {one.session_id: one.pk for one in SignedIn.objects.all()}

    client.post(f"/profile/sessions/{of[eve.session.session_key]}/end")
    assert is_in(eve)
    for _ in range(2):
        assert client.post(f"/profile/sessions/{of[other.session.session_key]}/end").status_code == 302
    assert not is_in(other) and is_in(client)


def test_signing_out_ends_the_session_in_the_database(client, sign_in, bob):
    sign_in(client)
    key = client.session.session_key
    client.post("/sign-out")
    assert not Session.objects.filter(pk=key).exists()
    assert sessions.sessions_of(bob) == []


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (FIREFOX, "Firefox on Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64) AppleWebKit Chrome/140.0 Safari/537.36 Edg/140.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/604.1",
            "Safari on iPhone",
        ),
        ("Mozilla/5.0 (Linux; Android 16) Chrome/140.0 Mobile Safari/537.36", "Chrome on Android"),
        ("curl/8.0", "curl"),
        ("", "Unknown device"),
        ("<script>", "Unknown device"),
    ],
)
def test_words_for_devices(agent, words):
    assert device_words(agent) == words
