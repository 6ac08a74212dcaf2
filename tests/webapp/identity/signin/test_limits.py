"""How often may be tried: by person and address, by person, by address."""

import pytest
from axes.models import AccessAttempt
from django.test import Client

from tests.members import member
from tests.webapp.identity.signin.conftest import PASSWORD


def attempt(name, password, address):
    return Client(REMOTE_ADDR=address).post("/sign-in", {"username": name, "password": password}).status_code


@pytest.fixture
def tight(settings, bob):
    settings.AXES_FAILURE_LIMIT = 2
    settings.SIGN_IN_FAILURES_PER_USER = 4
    settings.SIGN_IN_FAILURES_PER_ADDRESS = 4


def test_one_address_is_locked_and_another_is_not(tight):
    attempt("bob", "wrong", "198.51.100.1")
    assert attempt("bob", "wrong", "198.51.100.1") == 429
    assert attempt("bob", PASSWORD, "198.51.100.1") == 429
    assert attempt("bob", PASSWORD, "198.51.100.2") == 302


def test_a_person_is_locked_when_many_addresses_try(tight):
    for address in range(1, 5):
        assert attempt("bob", "wrong", f"198.51.100.{address}") == 200
    assert attempt("bob", PASSWORD, "198.51.100.9") == 429


def test_an_address_is_locked_when_it_tries_many_people(tight):
    member("eve", password=PASSWORD)
    for name in ("a", "b", "c", "d"):
        assert attempt(name, "wrong", "198.51.100.1") == 200
    assert attempt("eve", PASSWORD, "198.51.100.1") == 429
    assert attempt("eve", PASSWORD, "198.51.100.2") == 302


def test_a_lock_ends(tight):
    from datetime import timedelta

    from django.utils import timezone

    for _ in range(2):
        attempt("bob", "wrong", "198.51.100.1")
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert attempt("bob", PASSWORD, "198.51.100.1") == 302


def test_the_address_is_what_the_trusted_proxy_saw(tight, settings):
    """What a client writes into the header itself changes nothing."""
    settings.TRUSTED_PROXIES = 1

    def through_proxy(password, invented):
        forwarded = f"{invented}, 198.51.100.1"
        client = Client(REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR=forwarded)
        return client.post("/sign-in", {"username": "bob", "password": password}).status_code

    through_proxy("wrong", "203.0.113.1")
    assert through_proxy("wrong", "203.0.113.2") == 429
    assert {one.ip_address for one in AccessAttempt.objects.all()} == {"198.51.100.1"}


def test_without_a_proxy_the_header_is_ignored(tight, settings):
    settings.TRUSTED_PROXIES = 0
    client = Client(REMOTE_ADDR="198.51.100.1", HTTP_X_FORWARDED_FOR="203.0.113.9")
    client.post("/sign-in", {"username": "bob", "password": "wrong"})
    assert AccessAttempt.objects.get().ip_address == "198.51.100.1"
