"""/api/v1/policies and /retention: the same as on the page, by program."""

import pytest

from tests.members import member
from tests.webapp.interfaces.api.conftest import ApiClient
from webapp.identity.accounts.services import create_token
from webapp.identity.audit.models import Event
from webapp.record.retention.models import RetentionPolicy
from webapp.reporting.policies.models import DEFAULTS, ProjectPolicy

KEPT = {"enabled": True, "keep_newest": 3, "checkpoint_days": 14, "log_days": 0, "under_pressure": False}


@pytest.fixture
def ben(project):
    """A launcher, who is no admin."""
    user = member("ben", project=project, role="launcher")
    return ApiClient(create_token(user=user, project=project, scope="launch"))


def events(verb):
    return list(Event.objects.filter(verb=verb).values_list("actor_name", "detail"))


def test_policies_are_read_and_set_as_a_whole(writer, reader):
    before = reader.get("policies").json()
    set_to = writer.request("PUT", "policies", {"policies": {"truncation": "stop"}, "advice_delta": 0.02})
    writer.request("PUT", "policies", {"policies": {"truncation": "stop"}, "advice_delta": 0.02})

    assert (before["policies"], before["advice_delta"]) == (DEFAULTS, 0.01)
    assert before["choices"]["advice"] == ["off", "advise", "stop"]
    assert set_to.status_code == 200
    assert set_to.json() == before | {"policies": DEFAULTS | {"truncation": "stop"}, "advice_delta": 0.02}
    assert reader.get("policies").json() == set_to.json()
    assert events("policy.changed") == [
        ("ada", {"changed": {"truncation": ["warn", "stop"]}, "advice_delta": 0.02})
    ]

    again = writer.request("PUT", "policies", {"policies": {"advice": "advise"}}).json()
    assert again["policies"] == DEFAULTS | {"advice": "advise"}, "what is left out has its default"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"policies": {"weather": "stop"}}, "policies"),
        ({"policies": {"truncation": "off"}}, "policies.truncation"),
        ({"policies": {"truncation": 1}}, "policies.truncation"),
        ({"policies": {}, "advice_delta": 1.0}, "advice_delta"),
        ({"policies": {}, "advice_delta": "much"}, "advice_delta"),
        ({"advice_delta": 0.1}, "policies"),
        ({"policies": {}, "colour": "red"}, "colour"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_by_its_field(writer, problem, body, field):
    status, code, at, _ = problem(writer.request("PUT", "policies", body))

    assert (status, code, at) == (422, "invalid_input", field)
    assert not ProjectPolicy.objects.exists()


def test_retention_is_read_and_set(writer, reader):
    before = reader.get("retention").json()
    set_to = writer.request("PUT", "retention", KEPT)
    writer.request("PUT", "retention", KEPT)

    assert before["enabled"] is False
    assert (set_to.status_code, set_to.json()) == (200, KEPT)
    assert reader.get("retention").json() == KEPT
    ((actor, detail),) = events("retention.changed")
    assert (actor, detail["changed"]["enabled"]) == ("ada", [False, True])


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"keep_newest": 0}, "keep_newest"),
        ({"checkpoint_days": 10**9}, "checkpoint_days"),
        ({"log_days": -1}, "log_days"),
        ({"enabled": "yes"}, "enabled"),
        ({"under_pressure": None}, "under_pressure"),
        ({"days": 3}, "days"),
    ],
)
def test_a_retention_that_cannot_be_is_refused_by_its_field(writer, problem, wrong, field):
    status, code, at, _ = problem(writer.request("PUT", "retention", KEPT | wrong))

    assert (status, code, at) == (422, "invalid_input", field)
    assert not RetentionPolicy.objects.exists()


def test_members_read_and_admins_write(ben, reader, client_with, project):
    nobody = ApiClient(create_token(user=None, project=project, scope="write"))
    for path, body in (("policies", {"policies": {"truncation": "stop"}}), ("retention", KEPT)):
        assert ben.get(path).status_code == 200
        assert ben.request("PUT", path, body).status_code == 403
        assert reader.request("PUT", path, body).status_code == 403, "the scope is read"
        assert nobody.request("PUT", path, body).status_code == 403, "nobody is told of in the audit log"
    assert not ProjectPolicy.objects.exists() and not RetentionPolicy.objects.exists()


def test_another_projects_are_its_own(writer, stranger):
    writer.request("PUT", "retention", KEPT)

    assert stranger.get("retention").json()["enabled"] is False
