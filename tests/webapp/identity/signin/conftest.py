"""Bob, who has a password, and how he gets in."""

import time

import pytest

from tests.members import member
from webapp.identity.signin import codes, two_factor

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


class App:
    """An authenticator app: shows the code of now, and, as time goes by, of later steps."""

    def __init__(self, key):
        self.key, self.steps = key, 0

    def code(self):
        return codes.code_at(self.key, time.time() + self.steps * codes.STEP_S)

    def next(self):
        """The code of the next step; the server takes one step ahead of its clock."""
        self.steps += 1
        return self.code()


@pytest.fixture
def app(bob):
    """Bob's app, enrolled; `app.recovery` are his recovery codes."""
    app = App(codes.new_key())
    app.recovery = two_factor.enrol(bob, key=app.key, code=app.code())
    return app
