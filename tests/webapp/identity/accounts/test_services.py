"""Accounts, the default project, and tokens that are stored as digests only."""

import hashlib

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.utils import timezone

from tests.members import member
from tests.webapp.tokens import authenticate
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts import services
from webapp.identity.accounts.models import ApiToken, Project, Role
from webapp.identity.accounts.permissions import role_in
from webapp.identity.accounts.services import set_role
from webapp.identity.audit.models import Event

pytestmark = pytest.mark.django_db


@pytest.fixture
def user():
    return member()


@pytest.fixture
def project(user):
    return Project.objects.get(slug="default")


@pytest.fixture
def token(user, project):
    return services.create_token(user=user, project=project, scope="write")


def test_the_operator_owns_the_installation_and_any_other_account_opens_nothing():
    root = get_user_model().objects.create_superuser("root")
    ada = get_user_model().objects.create_user("ada")

    project = Project.objects.get()
    assert (project.slug, role_in(root, project), role_in(ada, project)) == ("default", Role.ADMIN, None)
    assert project.organisation.owners.get() == root
    assert project.recipes.filter(slug="tiny-scalerl").exists()


def test_a_projects_slug_is_its_own(project):
    with pytest.raises(Conflict):
        services.create_project(slug="default", name="Again")


def test_the_first_account_gets_a_password_once():
    password = services.first_account("ada")

    assert get_user_model().objects.get().check_password(password)
    assert services.first_account("ada") is None
    assert services.first_account("grace") is None


def test_a_token_is_stored_as_its_digest_only(token):
    row = ApiToken.objects.get()

    assert token.startswith("hr_")
    assert row.digest == hashlib.sha256(token.encode()).hexdigest()
    assert token not in str(ApiToken.objects.values().get())


def test_a_token_opens_its_project(token, user, project):
    found = authenticate(token)

    assert (found.user, found.project, found.scope) == (user, project, "write")


@pytest.mark.parametrize("raw", ["", "hr_", "hr_wrong", "é", "x" * 10_000])
def test_other_texts_open_nothing(token, raw):
    assert authenticate(raw) is None


def test_a_revoked_token_opens_nothing(token):
    services.revoke_token(authenticate(token))

    assert authenticate(token) is None


def test_the_token_of_an_inactive_or_former_member_opens_nothing(token, user, project):
    project.members.remove(user)
    after_leaving = authenticate(token)
    set_role(project, user, "admin")
    user.is_active = False
    user.save()

    assert after_leaving is None
    assert authenticate(token) is None


def test_authentication_is_one_query_and_notes_the_use_once_a_minute(token, django_assert_num_queries):
    authenticate(token)

    with django_assert_num_queries(1):
        found = authenticate(token)
    assert found.last_used_at is not None


def test_bad_tokens_are_not_made(user, project):
    outsider = services.create_project(slug="code", name="Code")

    with pytest.raises(InvalidInput) as scope:
        services.create_token(user=user, project=project, scope="everything")
    with pytest.raises(InvalidInput) as member:
        services.create_token(user=user, project=outsider, scope="read")

    assert (scope.value.field, member.value.field) == ("scope", "user")
    assert not ApiToken.objects.exists()


def test_the_command_prints_the_token_alone_on_a_line(user, capsys):
    call_command("create_token", "ada", "--scope", "read")

    (line,) = capsys.readouterr().out.splitlines()
    assert authenticate(line).scope == "read"


def test_the_commands_token_never_expires_unless_days_are_named(user, capsys):
    call_command("create_token", "ada")
    call_command("create_token", "ada", "--days", "7", "--name", "night", "--project", "default")

    forever, week = ApiToken.objects.order_by("pk")
    assert (forever.scope, forever.expires_at, forever.name) == ("launch", None, "")
    assert 6.9 < (week.expires_at - timezone.now()).total_seconds() / 86400 < 7
    assert week.name == "night"
    assert [len(line.split()) for line in capsys.readouterr().out.splitlines()] == [1, 1]


@pytest.mark.parametrize("days", ["0", "-1", "100000"])
def test_the_command_refuses_days_that_make_no_sense(user, days):
    with pytest.raises(CommandError, match="days must be from 1"):
        call_command("create_token", "ada", "--days", days)
    assert not ApiToken.objects.exists()


def test_the_command_refuses_a_scope_beyond_the_users_role():
    member("vic", role="viewer")

    with pytest.raises(CommandError, match="needs the role launcher"):
        call_command("create_token", "vic")


def test_who_makes_and_revokes_a_token_is_in_the_audit_log_without_its_value(token, user):
    services.revoke_token(authenticate(token), user=user)
    services.revoke_token(ApiToken.objects.get(), user=user)  # again: nothing to note

    events = list(Event.objects.filter(object_kind="token").order_by("pk"))
    assert [(event.verb, event.actor) for event in events] == [
        ("token.created", user),
        ("token.revoked", user),
    ]
    assert token not in str([event.detail for event in events])


@pytest.mark.parametrize("arguments", [["nobody"], ["ada", "--project", "nothing"]])
def test_the_command_says_what_is_unknown(user, arguments):
    with pytest.raises(CommandError, match=f"there is no .* '{arguments[-1]}'"):
        call_command("create_token", *arguments)
