"""Sign-ins in the audit log: through the page, as people and attackers do them."""

import pytest
from django.contrib.auth import get_user_model

from tests.flushing import empty_tables
from tests.members import member
from webapp.identity.accounts.models import Organisation, Project
from webapp.identity.accounts.services import create_project, default_organisation
from webapp.identity.audit.models import Event

PASSWORD = "a-long-password"


@pytest.fixture
def bob(db):
    return member("bob", password=PASSWORD)


def sign_in(client, name="bob", password=PASSWORD, **more):
    return client.post("/sign-in", {"username": name, "password": password}, **more)


def test_success_names_person_organisation_and_address(client, bob):
    sign_in(client, REMOTE_ADDR="192.0.2.7")

    event = Event.objects.get()
    assert (event.verb, event.actor, event.object_name, event.address) == (
        "sign_in.succeeded", bob, "bob", "192.0.2.7",
    )  # fmt: skip
    assert event.organisation == Organisation.objects.get() and event.project is None


def test_failures_name_the_account_and_no_actor(client, bob):
    sign_in(client, password="wrong")

    event = Event.objects.get()
    assert (event.verb, event.actor_name, event.object_name) == ("sign_in.failed", "system", "bob")
    assert "wrong" not in str(vars(event))


def test_of_a_name_that_is_no_account_only_the_fact_is_kept(client, bob):
    """With the organisation that the installation began with, where its owners read it."""
    sign_in(client, name="my-secret-password-in-the-wrong-field")

    event = Event.objects.get()
    assert (event.verb, event.object_name, event.object_id) == ("sign_in.failed", "", "")
    assert event.organisation == default_organisation()
    assert "secret" not in str(vars(event))


def test_a_lockout_is_told(client, bob, settings):
    settings.AXES_FAILURE_LIMIT = 3
    for _ in range(3):
        answer = sign_in(client, password="wrong")

    assert answer.status_code == 429
    verbs = list(Event.objects.order_by("id").values_list("verb", flat=True))
    assert verbs.count("sign_in.locked_out") == 1 and verbs.count("sign_in.succeeded") == 0
    assert Event.objects.get(verb="sign_in.locked_out").object_name == "bob"


def test_a_name_with_a_nul_is_no_error(client, bob):
    assert sign_in(client, name="no\0body").status_code in (200, 429)


def test_each_organisation_has_its_own_event(client, bob):
    other = Organisation.objects.create(slug="other", name="Other")
    project = create_project(slug="math", name="Math", organisation=other)
    project.memberships.create(user=bob)
    Organisation.objects.create(slug="foreign", name="Foreign")
    sign_in(client)

    organisations = Event.objects.filter(verb="sign_in.succeeded").values_list(
        "organisation__slug", flat=True
    )
    assert sorted(organisations) == ["default", "other"]


def test_without_an_organisation_there_is_one_event(client, db):
    empty_tables()
    get_user_model().objects.create_user("eve", password=PASSWORD)
    sign_in(client, name="eve")

    assert Event.objects.get().organisation is None
    assert Project.objects.count() == 0
