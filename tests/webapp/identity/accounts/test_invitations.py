"""Invitations: made by admins, used once, void when anything speaks against them."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from tests.members import member
from tests.webapp.identity.accounts.test_members import at_once
from webapp.base.errors import Conflict, Forbidden, InvalidInput, NotFound
from webapp.identity.accounts import invitations, services
from webapp.identity.accounts.models import Invitation, Membership, Role
from webapp.identity.accounts.permissions import role_in
from webapp.identity.accounts.services import create_project, default_project, digest
from webapp.identity.audit.models import Event

pytestmark = pytest.mark.django_db
PASSWORD = "a-long-password-of-hers"


@pytest.fixture
def ada():
    return member("ada")


@pytest.fixture
def project(ada):
    return default_project()


@pytest.fixture
def token(ada, project):
    return invitations.invite(project, role="launcher", email="grace@example.org", actor=ada)[1]


def nothing_changed(project, people=1):
    assert Membership.objects.filter(project=project).count() == people
    assert get_user_model().objects.count() == people
    assert not Event.objects.filter(verb__in=["invitation.accepted", "account.made", "member.added"]).exists()


def test_the_link_is_stored_as_its_digest_only(token, project, ada):
    row = Invitation.objects.get()

    assert len(token) >= 43  # 256 bits in base64
    assert row.digest == digest(token)
    assert token not in str(vars(row)) + str(list(Event.objects.values()))
    assert timedelta(days=6.9) < row.expires_at - timezone.now() <= timedelta(days=7)


def test_a_new_account_joins_that_project_only(token, project):
    other = create_project(slug="other", name="Other")

    user = invitations.accept_as_new(token, username="grace", password=PASSWORD)

    assert user.check_password(PASSWORD) and user.email == "grace@example.org"
    assert not user.is_staff and not user.is_superuser
    assert (role_in(user, project), role_in(user, other)) == (Role.LAUNCHER, None)
    row = Invitation.objects.get()
    assert row.accepted_by == user and row.accepted_at
    told = Event.objects.filter(object_kind__in=["account", "invitation", "member"]).order_by("id")
    assert [(e.verb, e.actor_name) for e in told] == [
        ("invitation.made", "ada"), ("account.made", "grace"), ("invitation.accepted", "grace"),
        ("member.added", "ada"),
    ]  # fmt: skip
    assert PASSWORD not in str(list(Event.objects.values()))


def test_who_has_an_account_joins_with_it(token, project):
    grace = get_user_model().objects.create_user("grace", email="own@example.org")

    assert invitations.accept(token, user=grace) == project

    grace.refresh_from_db()
    assert role_in(grace, project) == Role.LAUNCHER and grace.email == "own@example.org"


def test_it_works_once(token, project):
    invitations.accept_as_new(token, username="grace", password=PASSWORD)
    eve = get_user_model().objects.create_user("eve")

    for attempt in (
        lambda: invitations.accept(token, user=eve),
        lambda: invitations.accept_as_new(token, username="mallory", password=PASSWORD),
    ):
        with pytest.raises(Conflict, match="used already"):
            attempt()
    assert role_in(eve, project) is None
    assert not get_user_model().objects.filter(username="mallory").exists()


@pytest.mark.parametrize("how", ["expired", "revoked", "demoted", "removed", "closed", "deleted"])
def test_a_void_one_changes_nothing(token, project, ada, how):
    bob = member("bob")
    row = Invitation.objects.get()
    if how == "expired":
        Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    elif how == "revoked":
        invitations.revoke_invitation(row, actor=bob)
    elif how == "demoted":
        services.change_role(project, ada, "reviewer", actor=bob)
    elif how == "removed":
        services.remove_member(project, ada, actor=bob)
    elif how == "closed":
        get_user_model().objects.filter(pk=ada.pk).update(is_active=False)
    else:
        ada.delete()
    before = Membership.objects.count(), get_user_model().objects.count(), Event.objects.count()

    error = Conflict if how in ("expired", "revoked") else Forbidden
    with pytest.raises(error):
        invitations.accept_as_new(token, username="grace", password=PASSWORD)
    if how != "deleted":
        with pytest.raises(error):
            invitations.accept(token, user=get_user_model().objects.create_user("eve"))
        get_user_model().objects.get(username="eve").delete()

    assert (Membership.objects.count(), get_user_model().objects.count(), Event.objects.count()) == before
    assert Invitation.objects.get().accepted_at is None


def test_a_wrong_link_opens_nothing(token, project):
    for wrong in (token[:-1], token + "x", "", digest(token)):
        with pytest.raises(NotFound):
            invitations.accept_as_new(wrong, username="grace", password=PASSWORD)
    nothing_changed(project)


def test_a_member_cannot_use_it_up(token, project):
    bob = member("bob", role=Role.REVIEWER)

    with pytest.raises(Conflict, match="member of Default already"):
        invitations.accept(token, user=bob)

    assert role_in(bob, project) == Role.REVIEWER
    assert Invitation.objects.get().accepted_at is None


@pytest.mark.parametrize(
    ("username", "password", "field"),
    [
        ("", PASSWORD, "username"),
        ("x" * 61, PASSWORD, "username"),
        ("a b", PASSWORD, "username"),
        ("a\0b", PASSWORD, "username"),
        ("ADA", PASSWORD, "username"),
        ("grace", "short", "password"),
        ("grace", "password1234", "password"),
        ("grace", "x" * 1001, "password"),
    ],
)
def test_a_bad_name_or_password_changes_nothing(token, project, username, password, field):
    with pytest.raises((InvalidInput, Conflict)) as refused:
        invitations.accept_as_new(token, username=username, password=password)

    assert refused.value.field == field
    nothing_changed(project)
    invitations.accept_as_new(token, username="grace", password=PASSWORD)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"role": "emperor"}, "role"),
        ({"email": "not mail"}, "email"),
        ({"days": 0}, "days"),
        ({"days": 31}, "days"),
    ],
)
def test_an_invitation_that_cannot_be(ada, project, asked, field):
    with pytest.raises(InvalidInput) as refused:
        invitations.invite(project, **{"role": "viewer", "actor": ada} | asked)

    assert refused.value.field == field
    assert not Invitation.objects.exists()


def test_taking_back_twice_and_too_late(ada, token):
    row = Invitation.objects.get()
    invitations.revoke_invitation(row, actor=ada)
    invitations.revoke_invitation(row, actor=ada)
    assert Event.objects.filter(verb="invitation.revoked").count() == 1

    Invitation.objects.update(revoked_at=None, accepted_at=timezone.now())
    with pytest.raises(Conflict, match="accepted"):
        invitations.revoke_invitation(row, actor=ada)


def test_not_more_than_can_be_looked_over(ada, project, monkeypatch):
    monkeypatch.setattr(invitations, "MOST_OPEN", 2)
    for _ in range(2):
        invitations.invite(project, role="viewer", actor=ada)

    with pytest.raises(Conflict, match="2 invitations are open"):
        invitations.invite(project, role="viewer", actor=ada)


@pytest.mark.django_db(transaction=True)
def test_of_two_at_the_same_moment_one_joins():
    project, ada = default_project(), member("ada")
    grace, eve = (get_user_model().objects.create_user(name) for name in ("grace", "eve"))

    for _ in range(5):
        _, token = invitations.invite(project, role="viewer", actor=ada)
        errors = at_once(
            lambda token=token: invitations.accept(token, user=grace),
            lambda token=token: invitations.accept(token, user=eve),
        )

        assert sorted(type(error).__name__ for error in errors) == ["Conflict", "NoneType"]
        assert Membership.objects.filter(user__in=[grace, eve]).count() == 1
        Membership.objects.filter(user__in=[grace, eve]).delete()


@pytest.mark.django_db(transaction=True)
def test_who_loses_the_role_at_the_same_moment_has_invited_before_or_not_at_all():
    """In either order the result is one that could have come about one after the other."""
    project, ada, bob = default_project(), member("ada"), member("bob")
    grace = get_user_model().objects.create_user("grace")
    _, token = invitations.invite(project, role="viewer", actor=ada)

    joined, demoted = at_once(
        lambda: invitations.accept(token, user=grace),
        lambda: services.change_role(project, ada, "viewer", actor=bob),
    )

    assert demoted is None
    accepted, changed = (
        Event.objects.filter(verb=verb).values_list("id", flat=True).first()
        for verb in ("invitation.accepted", "member.role_changed")
    )
    assert (joined is None) == (accepted is not None and accepted < changed)
    assert (role_in(grace, project) is not None) == (joined is None)
