"""Signing in and out, projects, tokens."""

import re

import pytest
from django.contrib.auth import get_user_model

from tests.members import member
from webapp.accounts.models import ApiToken, Scope
from webapp.accounts.services import authenticate, create_project, create_token, set_role

PASSWORD = "a-long-password"


@pytest.fixture
def bob(db):
    return member("bob", password=PASSWORD)


def sign_in(client, password=PASSWORD, **more):
    return client.post("/sign-in", {"username": "bob", "password": password} | more)


def test_signing_in_leads_to_the_page_that_was_asked_for(client, bob):
    assert 'name="next" value="/leaderboard"' in client.get("/sign-in?next=/leaderboard").content.decode()

    assert sign_in(client, next="/leaderboard").url == "/leaderboard"


def test_signing_in_never_leads_elsewhere(client, bob):
    assert sign_in(client, next="https://elsewhere.invalid/").url == "/"


def test_a_wrong_password_is_said_without_saying_whether_the_name_exists(client, bob):
    page = sign_in(client, "wrong").content.decode()

    assert "No account with this name and password." in page
    assert 'value="bob"' in page


def test_too_many_wrong_passwords_lock_the_account_for_a_while(client, bob, settings):
    settings.AXES_FAILURE_LIMIT = 2
    sign_in(client, "wrong")

    locked = sign_in(client, "wrong")

    assert locked.status_code == 429
    assert "Try again in 15 minutes" in locked.content.decode()
    assert sign_in(client).status_code == 429


def test_signing_out_is_a_post(ada):
    assert ada.get("/sign-out").status_code == 405
    assert ada.post("/sign-out").url == "/sign-in"
    assert ada.get("/runs").status_code == 302


def test_a_new_token_is_shown_once(ada, project):
    page = ada.post("/tokens", {"scope": "write"}).content.decode()

    raw = re.search(r">(hr_[^<]+)</code>", page)[1]
    assert authenticate(raw).scope == "write"
    assert raw not in ada.get("/tokens").content.decode()


def test_an_unknown_scope_is_refused(ada):
    page = ada.post("/tokens", {"scope": "everything"}).content.decode()

    assert 'id="id_scope_error"' in page
    assert not ApiToken.objects.exists()


def test_a_revoked_token_opens_nothing(ada, user, project):
    raw = create_token(user=user, project=project, scope=Scope.READ)

    ada.post(f"/tokens/{ApiToken.objects.get().pk}/revoke")

    assert authenticate(raw) is None
    assert "revoked" in ada.get("/tokens").content.decode()


def test_only_ones_own_tokens_are_seen_and_revoked(ada, project, bob):
    raw = create_token(user=bob, project=project, scope=Scope.LAUNCH)

    assert "<td>launch</td>" not in ada.get("/tokens").content.decode()
    assert ada.post(f"/tokens/{ApiToken.objects.get().pk}/revoke").status_code == 404
    assert authenticate(raw) is not None


def test_another_project_can_be_chosen(ada, user):
    set_role(create_project(slug="math", name="Math"), user, "admin")

    ada.post("/project", {"project": "math"})

    assert '<option value="math" selected>' in ada.get("/runs").content.decode()


def test_a_project_of_others_cannot_be_chosen(ada):
    create_project(slug="secret", name="Secret")

    assert ada.post("/project", {"project": "secret"}).status_code == 404


def test_who_is_in_no_project_gets_no_page(client, db):
    loner = get_user_model().objects.create_user("loner")
    client.force_login(loner)

    assert client.get("/runs").status_code == 404


def test_a_form_from_elsewhere_is_refused_in_our_look(user, client):
    from django.test import Client

    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)

    response = strict.post("/sign-out")

    assert response.status_code == 403
    assert "Not allowed" in response.content.decode()


def test_a_missing_page_is_in_our_look(ada):
    response = ada.get("/no/such/page")

    assert response.status_code == 404
    assert "Nothing here" in response.content.decode()
