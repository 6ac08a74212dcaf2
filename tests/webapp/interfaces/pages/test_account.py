"""Signing in and out, projects, tokens."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from tests.members import member
from tests.webapp.tokens import authenticate
from webapp.identity.accounts.models import ApiToken, Scope
from webapp.identity.accounts.services import create_project, create_token, set_role
from webapp.identity.audit.models import Event

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


def test_only_ones_own_tokens_are_seen_and_revoked(client, project, bob):
    raw = create_token(user=bob, project=project, scope=Scope.LAUNCH, name="of bob")
    client.force_login(member("reviewer", role="reviewer"))

    assert "of bob" not in client.get("/tokens").content.decode()
    assert client.post(f"/tokens/{ApiToken.objects.get().pk}/revoke").status_code == 403
    assert authenticate(raw) is not None


def test_an_admin_sees_and_revokes_the_tokens_of_the_project_but_no_value(ada, project, bob):
    raw = create_token(user=bob, project=project, scope=Scope.LAUNCH, name="of bob")
    page = ada.get("/tokens").content.decode()

    assert "of bob" in page and "<td>bob</td>" in page
    assert raw not in page and ApiToken.objects.get().digest not in page
    assert ada.post(f"/tokens/{ApiToken.objects.get().pk}/revoke").url == "/tokens"
    assert authenticate(raw) is None
    event = Event.objects.get(verb="token.revoked")
    assert (event.actor_name, event.object_name, event.detail) == ("ada", "of bob", {"owner": "bob"})


def test_a_token_of_another_project_is_not_there(ada, bob):
    secret = create_project(slug="secret", name="Secret")
    set_role(secret, bob, "admin")
    create_token(user=bob, project=secret, scope=Scope.READ, name="of bob there")

    assert "of bob there" not in ada.get("/tokens").content.decode()
    assert ada.post(f"/tokens/{ApiToken.objects.get().pk}/revoke").status_code == 404


def test_a_new_token_ends_after_90_days_unless_it_is_said_otherwise(ada):
    for sent in ({}, {"days": "30"}, {"days": "365"}, {"days": "never"}):
        ada.post("/tokens", {"scope": "read", "name": sent.get("days", "default")} | sent)

    left = {
        token.name: token.expires_at and round((token.expires_at - timezone.now()).total_seconds() / 86400)
        for token in ApiToken.objects.all()
    }
    assert left == {"default": 90, "30": 30, "365": 365, "never": None}
    assert Event.objects.filter(verb="token.created", actor_name="ada").count() == 4


def test_an_expired_token_is_shown_as_expired_and_cannot_be_revoked(ada, user, project):
    create_token(user=user, project=project, scope=Scope.READ, name="old", days=1)
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(days=1))

    page = ada.get("/tokens").content.decode()

    assert "expired" in page and "Revoke" not in page


@pytest.mark.parametrize(
    ("role", "scopes"),
    [("viewer", ["read"]), ("contributor", ["read", "write"]), ("launcher", ["read", "write", "launch"])],
)
def test_only_scopes_that_the_role_allows_are_offered_and_taken(client, db, role, scopes):
    client.force_login(member("bob", role=role))

    assert (
        re.findall(r'<option value="(read|write|launch)"', client.get("/tokens").content.decode()) == scopes
    )
    for scope in ("read", "write", "launch"):
        page = client.post("/tokens", {"scope": scope}).content.decode()
        assert ("hr_" in page) == (scope in scopes)
    assert ApiToken.objects.count() == len(scopes)


def test_a_token_can_be_made_for_another_of_ones_projects_within_the_role_there(ada, user):
    math = create_project(slug="math", name="Math")
    set_role(math, user, "viewer")

    refused = ada.post("/tokens", {"scope": "launch", "project": "math"})
    assert refused.status_code == 422
    assert "This needs the role launcher in this project; yours is viewer." in refused.content.decode()
    made = ada.post("/tokens", {"scope": "read", "project": "math"}).content.decode()
    assert authenticate(re.search(r">(hr_[^<]+)</code>", made)[1]).project == math
    assert ada.post("/tokens", {"scope": "read", "project": "elsewhere"}).status_code == 422


@pytest.mark.parametrize("sent", [{"name": "x" * 81}, {"days": "7"}, {"days": "-1"}, {"scope": ""}])
def test_bad_forms_make_no_token(ada, sent):
    assert ada.post("/tokens", {"scope": "read"} | sent).status_code == 422
    assert not ApiToken.objects.exists()


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
