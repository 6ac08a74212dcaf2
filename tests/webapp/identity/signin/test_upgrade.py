"""Second factors of an installed 0.1.0: its rows, sealed as it sealed them, after the migration."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from importlib import import_module

import pytest
from allauth.mfa.models import Authenticator
from cryptography.fernet import Fernet
from django.conf import settings as django_settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils.crypto import salted_hmac

from tests.authenticator_app import STEP_S, App, code_at
from tests.members import member
from webapp.identity.signin.forms import TooSoon, codes_left, take

SINCE = datetime(2026, 11, 20, tzinfo=UTC)
CODES = ["abcd-efgh-jkmn-pqrs", "tuvw-xyz2-3456-789a"]
migration = import_module("webapp.identity.signin.migrations.0002_second_factors_of_allauth")


def sealed(raw: bytes, key: str) -> str:
    digest = hashlib.sha256(b"headroom two-factor\0" + key.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest)).encrypt(raw).decode()


def of_0_1_0(user, app, *, key=None, failures=0, failed_at=None, last_step=0):
    """What 0.1.0 stored: the app's key sealed, of recovery codes their keyed digests."""
    key = key or django_settings.SECRET_KEY
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO signin_twofactor (user_id, sealed_key, last_step, failures, failed_at, confirmed_at) "
            "VALUES (%s, %s, %s, %s, %s, %s) RETURNING id",
            [user.pk, sealed(base64.b32decode(app.secret), key), last_step, failures, failed_at, SINCE],
        )
        two_factor = cursor.fetchone()[0]
        for code in CODES:
            raw = code.replace("-", "")
            digest = salted_hmac("headroom recovery code", raw, secret=key, algorithm="sha256").hexdigest()
            cursor.execute(
                "INSERT INTO signin_recoverycode (two_factor_id, digest) VALUES (%s, %s)",
                [two_factor, digest],
            )


def migrate():
    nodes = [("signin", "0001_initial"), ("mfa", "0003_authenticator_type_uniq")]
    migration.carry(MigrationLoader(connection).project_state(nodes).apps, None)


@pytest.fixture
def ann(db):
    return member("ann", password="a-long-password")


def sign_in(client, code):
    client.post("/sign-in", {"username": "ann", "password": "a-long-password"})
    client.post("/sign-in/code", {"code": code})
    return client.get("/profile").status_code == 200


def test_app_and_recovery_codes_go_on_working(ann, client):
    app = App()
    of_0_1_0(ann, app)
    migrate()

    assert sign_in(client, app.code())
    assert codes_left(ann) == 2
    client.post("/sign-out")
    assert sign_in(client, CODES[0])
    assert codes_left(ann) == 1 and take(ann, CODES[0].replace("-", "")) is None
    assert Authenticator.objects.get(type="totp").created_at == SINCE


def test_nothing_is_stored_in_the_clear_and_a_digest_is_no_code(ann):
    app = App()
    of_0_1_0(ann, app)
    migrate()
    stored = json.dumps(list(Authenticator.objects.values_list("data", flat=True)))
    with connection.cursor() as cursor:
        cursor.execute("SELECT digest FROM signin_recoverycode")
        digests = [row[0] for row in cursor.fetchall()]
    assert app.secret not in stored and not any(one in stored for one in digests)
    assert take(ann, digests[0]) is None


def test_the_codes_of_before_are_never_shown(ann, client):
    of_0_1_0(ann, app := App())
    migrate()
    client.force_login(ann)
    client.post("/profile/confirm/code", {"password": "a-long-password", "code": app.code()})
    page = client.get("/profile/two-factor/codes").content.decode()
    assert "2 of them are left" in page and "<li>" not in page.partition("<main")[2]


def test_what_was_used_stays_used_and_who_waits_goes_on_waiting(ann):
    app, now = App(), datetime.now(UTC)
    used = int(now.timestamp()) // STEP_S + 1
    of_0_1_0(ann, app, last_step=used, failures=5, failed_at=now)
    migrate()
    with pytest.raises(TooSoon, match="again in 1[56] s"):
        take(ann, app.code())
    row = Authenticator.objects.get(type="totp")
    row.data["failed_at"] = None
    row.save()
    assert take(ann, code_at(app.secret, used * STEP_S)) is None


def test_codes_under_the_secret_key_before(ann, settings):
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new" * 20, ["old" * 20]
    of_0_1_0(ann, app := App(), key="old" * 20)
    migrate()
    assert take(ann, app.code()) and take(ann, CODES[1].replace("-", ""))


def test_who_cannot_be_opened_is_still_asked(ann, client):
    """Losing the key of the installation must not turn anybody's second factor off."""
    of_0_1_0(ann, app := App(), key="lost" * 20)
    migrate()
    assert not sign_in(client, app.code())
    assert client.get("/sign-in/code").status_code == 200


def test_a_second_run_adds_nothing(ann):
    of_0_1_0(ann, App())
    migrate()
    before = list(Authenticator.objects.values())
    migrate()
    assert list(Authenticator.objects.values()) == before


def test_a_person_can_still_be_deleted(ann):
    """The table of before holds nobody back, though nothing deletes from it."""
    of_0_1_0(ann, App())
    ann.delete()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
