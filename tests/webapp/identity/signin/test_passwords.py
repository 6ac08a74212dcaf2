import re

import pytest
from django.core import mail
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from tests.members import member
from tests.waiting import wait_until
from tests.webapp.identity.signin.conftest import NEW, PASSWORD
from webapp.identity.audit.models import Event
from webapp.identity.signin import passwords
from webapp.identity.signin.models import PasswordMail


def is_in(client):
    return client.get("/profile").status_code == 200


def change(client, password=PASSWORD, new=NEW, again=None):
    return client.post("/profile/password", {"password": password, "new": new, "again": again or new})


def test_passwords_are_stored_with_argon2(bob):
    assert bob.password.startswith("argon2$argon2id$")


def test_changing_it_ends_the_other_sessions_and_renews_the_key_of_this_one(client, sign_in, bob):
    other = Client()
    sign_in(other)
    sign_in(client)
    before = client.session.session_key

    assert change(client).url == "/profile"

    assert client.session.session_key != before
    assert is_in(client) and not is_in(other)
    assert sign_in(Client()).status_code == 200 and sign_in(Client(), NEW).status_code == 302
    assert Event.objects.filter(verb="password.changed").count() == 1
    assert "this one" in client.get("/profile").content.decode()


@pytest.mark.parametrize(
    ("password", "new", "again", "field"),
    [
        ("wrong", NEW, NEW, "password"),
        ("", NEW, NEW, "password"),
        (PASSWORD, "short", "short", "new"),
        (PASSWORD, "password123", "password123", "new"),
        (PASSWORD, NEW, NEW + "x", "again"),
    ],
)
def test_what_is_no_change(client, bob, password, new, again, field):
    client.force_login(bob)
    answer = change(client, password, new, again)
    assert answer.status_code == 422 and f'id="id_{field}_error"' in answer.content.decode()
    bob.refresh_from_db()
    assert bob.check_password(PASSWORD)


def test_a_stolen_session_cannot_guess_the_password(client, bob, settings):
    settings.AXES_FAILURE_LIMIT = 3
    client.force_login(bob)
    answers = [change(client, "wrong").status_code for _ in range(3)]
    assert answers == [422, 422, 429]
    assert change(client).status_code == 429


def test_another_mail_address_takes_the_password(client, bob):
    client.force_login(bob)
    form = {"first_name": "Bob", "last_name": "", "email": "evil@example.com"}
    assert client.post("/profile", form).status_code == 422
    assert client.post("/profile", form | {"password": "wrong"}).status_code == 422
    bob.refresh_from_db()
    assert (bob.email, bob.first_name) == ("bob@example.com", "")

    assert client.post("/profile", form | {"email": bob.email}).status_code == 302
    assert client.post("/profile", form | {"password": PASSWORD}).status_code == 302

    bob.refresh_from_db()
    assert (bob.email, bob.first_name) == ("evil@example.com", "Bob")


def link_for(name):
    from io import StringIO

    out = StringIO()
    call_command("password_link", name, "--url", "https://headroom.example.com", stdout=out)
    return out.getvalue().strip().removeprefix("https://headroom.example.com")


def follow(client, link):
    """The page of a link, and the address where its form is sent."""
    return client.get(link, follow=True), client.get(link).get("Location", link)


def test_an_administrators_link_sets_the_password_once(client, sign_in, bob):
    signed_in = Client()
    sign_in(signed_in)
    link = link_for("bob")
    page, address = follow(client, link)
    assert "For the account bob" in page.content.decode()
    assert link.rpartition("/")[2] not in address  # nothing that a Referer header could tell

    wrong = client.post(address, {"new": "short", "again": "short"})
    assert wrong.status_code == 200 and 'id="id_new_error"' in wrong.content.decode()
    assert client.post(address, {"new": NEW, "again": NEW}).url == "/sign-in"

    assert not is_in(signed_in) and not is_in(client)
    assert sign_in(Client(), NEW).status_code == 302
    page, address = follow(Client(), link)
    assert "does not work" in page.content.decode()
    again = Client()
    again.get(link)
    again.post(address, {"new": PASSWORD, "again": PASSWORD})
    bob.refresh_from_db()
    assert bob.check_password(NEW)


def test_a_link_ends_after_a_day(client, bob, settings):
    link = link_for("bob")
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert "does not work" in client.get(link, follow=True).content.decode()


def test_a_link_is_for_one_account(client, bob):
    from django.utils.encoding import force_bytes
    from django.utils.http import urlsafe_base64_encode

    eve = member("eve")
    token = link_for("bob").rpartition("/")[2]
    forged = f"/password/{urlsafe_base64_encode(force_bytes(eve.pk))}/{token}"
    assert "does not work" in client.get(forged, follow=True).content.decode()


def test_a_link_does_not_pass_the_second_factor(client, sign_in, app):
    _, address = follow(client, link_for("bob"))
    client.post(address, {"new": NEW, "again": NEW})
    assert sign_in(client, NEW).url == "/sign-in/code"


def test_no_link_for_nobody(bob):
    bob.is_active = False
    bob.save()
    for name in ("bob", "nobody"):
        with pytest.raises(CommandError, match="no active user"):
            call_command("password_link", name, "--url", "https://x.example.com")


def test_a_link_needs_to_know_where_the_pages_are(bob, settings):
    settings.HEADROOM_URL = None
    with pytest.raises(CommandError, match="HEADROOM_URL"):
        call_command("password_link", "bob")


@pytest.fixture
def with_mail(settings):
    settings.EMAIL_CONFIGURED = True
    settings.CSRF_TRUSTED_ORIGINS = ["https://headroom.example.com"]


@pytest.mark.django_db(transaction=True)
def test_a_link_by_mail(with_mail, client, bob, sign_in):
    passwords.mail_links("BOB@example.com").join(20)

    [sent] = mail.outbox
    assert sent.to == ["bob@example.com"]
    link = re.search(r"https://headroom\.example\.com(/password/\S+)", sent.body)[1]
    _, address = follow(client, link)
    client.post(address, {"new": NEW, "again": NEW})
    assert sign_in(Client(), NEW).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_no_second_mail_within_five_minutes(with_mail, bob):
    for _ in range(3):
        passwords.mail_links(bob.email).join(20)
    assert len(mail.outbox) == 1
    PasswordMail.objects.update(sent_at=timezone.now() - passwords.MAIL_AGAIN_AFTER)
    passwords.mail_links(bob.email).join(20)
    assert len(mail.outbox) == 2


@pytest.mark.django_db(transaction=True)
def test_no_mail_to_closed_accounts_and_those_without_a_password(with_mail, bob):
    closed = member("closed", password=PASSWORD, email="closed@example.com")
    closed.is_active = False
    closed.save()
    member("openid", email="openid@example.com").set_unusable_password()
    for address in ("closed@example.com", "openid@example.com", "nobody@example.com", ""):
        passwords.mail_links(address).join(20)
    assert mail.outbox == []


@pytest.mark.django_db(transaction=True)
def test_the_answer_is_the_same_whether_somebody_has_the_address_or_not(with_mail, bob, client):
    pages = []
    for address in ("bob@example.com", "nobody@example.com"):
        answer = client.post("/password/forgotten", {"email": address})
        assert answer.status_code == 200
        pages.append(
            re.sub(r'value="[\w]{64}"|X-CSRFToken": "\w+"|nonce="[^"]+"', "", answer.content.decode())
        )
    assert pages[0] == pages[1] and "If an account has this mail address" in pages[0]
    wait_until(lambda: len(mail.outbox) == 1)


@pytest.mark.parametrize(
    ("origins", "known", "expected"),
    [
        (["https://headroom.example.com"], "http://web:8000", "https://headroom.example.com/password/"),
        ([], "http://127.0.0.1:8123", "http://127.0.0.1:8123/password/"),
        ([], None, "http://localhost/password/"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_the_link_leads_where_the_settings_say(with_mail, bob, client, settings, origins, known, expected):
    """Whatever the request says of the host and the port."""
    settings.CSRF_TRUSTED_ORIGINS, settings.HEADROOM_URL = origins, known
    client.post("/password/forgotten", {"email": bob.email}, headers={"host": "localhost:6666"})
    wait_until(lambda: len(mail.outbox) == 1)

    assert expected in mail.outbox[0].body
    assert "6666" not in mail.outbox[0].body


def test_without_mail_the_page_says_who_helps(client, bob):
    page = client.get("/password/forgotten").content.decode()
    assert "password_link" in page and "Mail a link" not in page
    assert client.post("/password/forgotten", {"email": "bob@example.com"}).status_code == 200
    assert mail.outbox == []
    assert "password_link" in client.get("/sign-in").content.decode()


def test_there_is_no_default_password(db):
    from webapp.identity.accounts.models import User
    from webapp.identity.accounts.services import first_account

    first, User_again = first_account("ada"), first_account("eve")
    assert len(first) >= 16 and User_again is None
    User.objects.all().delete()
    assert first_account("ada") != first
