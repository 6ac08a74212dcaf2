"""Members and their roles: who may change them, and that a project keeps an admin, also in a race."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import connection

from tests.members import member
from tests.webapp.tokens import authenticate
from webapp.base.errors import Conflict, InvalidInput, NotFound, ServiceError
from webapp.identity.accounts import services
from webapp.identity.accounts.models import Membership, Organisation, Project, Role
from webapp.identity.accounts.permissions import role_in
from webapp.identity.accounts.services import create_project, create_token, default_project
from webapp.identity.audit.models import Event

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada():
    return member("ada")


@pytest.fixture
def bob(ada):
    return member("bob", role=Role.VIEWER)


@pytest.fixture
def project(ada):
    return default_project()


def newest():
    event = Event.objects.order_by("-id").first()
    return event.verb, event.actor_name, event.object_name, event.detail


def test_an_admin_changes_a_role_once(ada, bob, project):
    services.change_role(project, bob, "launcher", actor=ada)
    services.change_role(project, bob, "launcher", actor=ada)

    assert role_in(bob, project) == Role.LAUNCHER
    assert Event.objects.filter(verb="member.role_changed").count() == 1
    assert newest() == ("member.role_changed", "ada", "bob", {"role": ["viewer", "launcher"]})


def test_of_other_projects_nothing_is_known(ada, project):
    elsewhere = member("eve", project=create_project(slug="other", name="Other"))

    with pytest.raises(NotFound):
        services.change_role(project, elsewhere, "viewer", actor=ada)
    with pytest.raises(NotFound):
        services.remove_member(project, elsewhere, actor=ada)


def test_an_unknown_role_is_refused(ada, bob, project):
    with pytest.raises(InvalidInput) as refused:
        services.change_role(project, bob, "emperor", actor=ada)

    assert refused.value.field == "role"


def test_the_last_admin_stays(ada, bob, project):
    for attempt in (
        lambda: services.change_role(project, ada, "viewer", actor=ada),
        lambda: services.remove_member(project, ada, actor=ada),
    ):
        with pytest.raises(Conflict, match="last admin"):
            attempt()

    services.change_role(project, bob, "admin", actor=ada)
    services.remove_member(project, ada, actor=ada)
    assert role_in(ada, project) is None


def test_a_closed_account_is_no_admin_to_leave_a_project_with(ada, bob, project):
    services.change_role(project, bob, "admin", actor=ada)
    get_user_model().objects.filter(pk=bob.pk).update(is_active=False)

    with pytest.raises(Conflict, match="last admin"):
        services.remove_member(project, ada, actor=ada)


def test_a_member_leaves_and_their_token_with_them(ada, bob, project):
    token = create_token(user=bob, project=project, scope="read")
    assert authenticate(token)

    services.remove_member(project, bob, actor=bob)

    assert role_in(bob, project) is None and authenticate(token) is None
    assert newest() == ("member.left", "bob", "bob", {"role": "viewer"})
    with pytest.raises(NotFound):
        services.remove_member(project, bob, actor=bob)


def at_once(*works):
    """Each in a thread and a transaction of its own, begun together; what each raised, or None."""
    barrier = Barrier(len(works))

    def run(work):
        try:
            barrier.wait(10)
            work()
        except ServiceError as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


@pytest.mark.django_db(transaction=True)
def test_of_two_admins_that_demote_each_other_one_stays():
    project = default_project()
    ada, bob = member("ada"), member("bob")

    for _ in range(5):
        Membership.objects.filter(project=project).update(role=Role.ADMIN)
        errors = at_once(
            lambda: services.change_role(project, ada, "viewer", actor=bob),
            lambda: services.change_role(project, bob, "viewer", actor=ada),
        )

        assert Membership.objects.filter(project=project, role=Role.ADMIN).count() == 1
        assert sum(error is None for error in errors) == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_admins_that_leave_one_stays():
    project = default_project()
    ada, bob = member("ada"), member("bob")

    errors = at_once(
        lambda: services.remove_member(project, ada, actor=ada),
        lambda: services.remove_member(project, bob, actor=bob),
    )

    assert Membership.objects.filter(project=project, role=Role.ADMIN).count() == 1
    assert [type(error) for error in errors if error] == [Conflict]


def test_the_command_adds_changes_and_keeps_the_last_admin(ada, project, capsys):
    get_user_model().objects.create_user("eve")

    call_command("add_member", "eve", "default", "launcher")
    call_command("add_member", "eve", "default", "launcher")
    assert capsys.readouterr().out == "eve is launcher in default.\neve is launcher in default already.\n"
    assert newest()[:3] == ("member.added", "system", "eve")
    with pytest.raises(CommandError, match="last admin"):
        call_command("add_member", "ada", "default", "viewer")
    with pytest.raises(CommandError, match="no user 'nobody'"):
        call_command("add_member", "nobody", "default", "viewer")
    with pytest.raises(CommandError, match="no project 'none'"):
        call_command("add_member", "eve", "none", "viewer")


def test_the_command_makes_a_project(capsys):
    call_command("create_project", "math", "Mathematics")

    project = Project.objects.get(slug="math")
    assert (project.name, project.organisation.slug) == ("Mathematics", "default")
    assert project.recipes.exists() and not project.memberships.exists()
    with pytest.raises(CommandError, match="already a project math"):
        call_command("create_project", "math", "Again")
    with pytest.raises(CommandError, match="A slug has"):
        call_command("create_project", "No Slug", "Again")
    with pytest.raises(CommandError, match="no organisation 'nowhere'"):
        call_command("create_project", "two", "Two", "--organisation", "nowhere")


def test_the_command_makes_an_organisation_with_an_owner_who_is_admin_of_its_projects(ada):
    get_user_model().objects.create_user("eve")

    call_command("create_organisation", "lab", "The  lab", "eve")
    call_command("create_project", "sums", "Sums", "--organisation", "lab")

    lab = Organisation.objects.get(slug="lab")
    assert lab.name == "The lab" and [one.username for one in lab.owners.all()] == ["eve"]
    sums = Project.objects.get(slug="sums")
    assert sums.organisation == lab
    assert role_in(get_user_model().objects.get(username="eve"), sums) == Role.ADMIN
    assert role_in(ada, sums) is None
    told = Event.objects.get(verb="organisation.created")
    assert (told.organisation, told.actor_name, told.object_id) == (lab, "system", "lab")
    assert told.detail == {"owner": "eve"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("default", "Again", "eve"), "already"),
        (("No Slug", "Lab", "eve"), "A slug has"),
        (("lab", " ", "eve"), "A name has"),
        (("lab", "Lab", "nobody"), "no user 'nobody'"),
    ],
)
def test_an_organisation_that_cannot_be_made_leaves_nothing(project, arguments, words):
    get_user_model().objects.create_user("eve")

    with pytest.raises(CommandError, match=words):
        call_command("create_organisation", *arguments)

    assert Organisation.objects.count() == 1
    assert not Event.objects.filter(verb="organisation.created").exists()
