"""Bob, who has a password, and how he gets in."""

import pytest

from tests.authenticator_app import enrolled
from tests.members import member

PASSWORD = "a-long-password"
NEW = "quite-another-word"


@pytest.fixture
def bob(db):
    return member("bob", password=PASSWORD, email="bob@example.com")


@pytest.fixture
def sign_in(bob):
    def sign(client, password=PASSWORD, **more):
        return client.post("/sign-in", {"username": "bob", "password": password} | more)

    return sign


@pytest.fixture
def app(bob):
    """Bob's app, enrolled; `app.recovery` are his recovery codes."""
    return enrolled(bob)
