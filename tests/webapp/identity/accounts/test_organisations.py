"""Organisations: owners make projects and are admins of all; there is always one."""

import pytest
from django.contrib.auth import get_user_model

from tests.members import member
from tests.webapp.identity.accounts.test_members import at_once
from webapp.base.errors import Conflict, InvalidInput, NotFound
from webapp.identity.accounts import services
from webapp.identity.accounts.models import Organisation, Project, Role
from webapp.identity.accounts.permissions import role_in
from webapp.identity.accounts.services import default_project
from webapp.identity.audit.models import Event

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(db):
    return get_user_model().objects.create_superuser("root")


@pytest.fixture
def organisation(root):
    return Organisation.objects.get()


def test_an_owner_makes_a_project_and_is_its_admin(root, organisation):
    project = services.found_project(organisation, slug="math", name="  Mathe  matics ", actor=root)

    assert (project.name, project.organisation, role_in(root, project)) == (
        "Mathe matics",
        organisation,
        Role.ADMIN,
    )
    assert project.recipes.filter(slug="tiny-scalerl").exists()
    event = Event.objects.get(verb="project.created")
    assert (event.project, event.organisation, event.actor, event.object_id) == (
        project,
        organisation,
        root,
        "math",
    )


@pytest.mark.parametrize("slug", ["", "Math", "-math", "math-", "a b", "x" * 51, "mathé"])
def test_a_slug_that_is_none(root, organisation, slug):
    with pytest.raises(InvalidInput) as refused:
        services.found_project(organisation, slug=slug, name="Math", actor=root)

    assert refused.value.field == "slug"
    assert Project.objects.count() == 1


def test_a_taken_slug_leaves_nothing_behind(root, organisation):
    with pytest.raises(Conflict) as refused:
        services.found_project(organisation, slug="default", name="Again", actor=root)

    assert refused.value.field == "slug"
    assert not Event.objects.filter(verb="project.created").exists()


def test_settings_are_changed_and_told_with_what_they_were(root):
    project = default_project()
    ada = member("ada")

    services.change_project(project, name="Sums", ranks_forecasters=True, actor=ada)
    services.change_project(project, name="Sums", ranks_forecasters=True, actor=ada)

    project.refresh_from_db()
    assert (project.name, project.ranks_forecasters) == ("Sums", True)
    event = Event.objects.get(verb="project.changed")
    assert event.detail == {"changed": {"name": ["Default", "Sums"], "ranks_forecasters": [False, True]}}
    for name in ("", "x" * 101, "a\x07b"):
        with pytest.raises(InvalidInput):
            services.change_project(project, name=name, ranks_forecasters=True, actor=ada)


def test_owners_come_from_the_projects_and_the_last_one_stays(root, organisation):
    ada = member("ada", role=Role.VIEWER)
    get_user_model().objects.create_user("stranger")
    with pytest.raises(InvalidInput, match="No member"):
        services.add_owner(organisation, username="stranger", actor=root)

    services.add_owner(organisation, username="ada", actor=root)
    services.add_owner(organisation, username="ada", actor=root)
    assert role_in(ada, default_project()) == Role.ADMIN
    services.remove_owner(organisation, user=root, actor=ada)

    assert list(organisation.owners.all()) == [ada]
    with pytest.raises(Conflict, match="last owner"):
        services.remove_owner(organisation, user=ada, actor=ada)
    with pytest.raises(NotFound):
        services.remove_owner(organisation, user=root, actor=ada)
    verbs = list(Event.objects.filter(object_kind="owner").order_by("id").values_list("verb", flat=True))
    assert verbs == ["organisation.owner_added", "organisation.owner_removed"]


@pytest.mark.django_db(transaction=True)
def test_of_two_owners_that_end_each_others_ownership_one_stays():
    root = get_user_model().objects.create_superuser("root")
    organisation, ada = Organisation.objects.get(), member("ada")
    organisation.owners.add(ada)

    at_once(
        lambda: services.remove_owner(organisation, user=ada, actor=root),
        lambda: services.remove_owner(organisation, user=root, actor=ada),
    )

    assert organisation.owners.count() == 1


def test_the_name_of_the_organisation(root, organisation):
    services.rename_organisation(organisation, name="Sums & Co", actor=root)
    services.rename_organisation(organisation, name="Sums & Co", actor=root)

    organisation.refresh_from_db()
    assert organisation.name == "Sums & Co"
    assert Event.objects.filter(verb="organisation.renamed").count() == 1
