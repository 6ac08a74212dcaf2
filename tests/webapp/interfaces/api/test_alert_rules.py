"""/api/v1/alerts/rules: the same rules as on the pages, by program."""

import json

import pytest

from tests.members import member
from tests.webapp.interfaces.api.conftest import ApiClient
from tests.webapp.reporting.alerts.conftest import receiver  # noqa: F401 (a fixture)
from webapp.identity.accounts.services import create_project, create_token
from webapp.identity.audit.models import Event
from webapp.reporting.alerts.channels import create_channel
from webapp.reporting.alerts.models import AlertRule, Notice
from webapp.reporting.alerts.rules import ensure_defaults

ENTROPY = {"metric": "train/entropy", "comparison": "<", "threshold": 0.1}
LOW = {"name": "low entropy", "on": "metric", "condition": ENTROPY, "runs": "tag:paper"}


def client_of(user, project, scope="write"):
    return ApiClient(create_token(user=user, project=project, scope=scope))


@pytest.fixture
def colleague(project):
    """A contributor, who is no admin."""
    return member("ben", project=project, role="contributor")


def test_a_rule_is_made_read_changed_turned_off_and_deleted(writer, user):
    made = writer.post("alerts/rules", LOW)
    rule = made.json()
    changed = writer.request(
        "PUT",
        f"alerts/rules/{rule['id']}",
        LOW | {"name": "lower", "enabled": False, "version": rule["version"]},
    )
    listed = writer.get("alerts/rules").json()["items"]

    assert made.status_code == 201
    assert (rule["words"], rule["shared"]) == ("train/entropy is below 0.1, 3 times in a row", False)
    assert changed.status_code == 200 and changed.json()["since"] == rule["since"]
    assert [(one["name"], one["enabled"]) for one in listed] == [("lower", False)]
    assert writer.get(f"alerts/rules/{rule['id']}").json() == listed[0]
    assert writer.request("DELETE", f"alerts/rules/{rule['id']}").status_code == 204
    assert writer.get(f"alerts/rules/{rule['id']}").status_code == 404
    verbs = Event.objects.filter(verb__startswith="alert_rule").order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["alert_rule.created", "alert_rule.changed", "alert_rule.deleted"]


def test_turned_on_it_watches_from_now_on(writer):
    rule = writer.post("alerts/rules", LOW | {"enabled": False}).json()

    again = writer.request("PUT", f"alerts/rules/{rule['id']}", LOW | {"version": 1}).json()

    assert again["enabled"] and again["since"] > rule["since"]


@pytest.mark.parametrize(
    ("wrong", "status", "field"),
    [
        ({"condition": ENTROPY | {"threshold": "much"}}, 422, "threshold"),
        ({"condition": {}}, 422, "metric"),
        ({"on": "weather"}, 422, "on"),
        ({"on": "prediction", "condition": {"event": "mention"}}, 422, "on"),
        ({"name": ""}, 422, "name"),
        ({"runs": "state:(("}, 422, "runs"),
        ({"channels": [2**70]}, 422, "channels"),
        ({"to_page": False}, 422, "channels"),
        ({"cooldown_minutes": -1}, 422, "cooldown_minutes"),
        ({"colour": "red"}, 422, "colour"),
    ],
)
def test_what_cannot_be_watched_for_is_refused_by_its_field(writer, wrong, status, field):
    answer = writer.post("alerts/rules", LOW | wrong)

    assert answer.status_code == status
    assert answer.json()["error"]["field"].split(".")[-1] == field
    assert not AlertRule.objects.exists()


def test_an_old_version_and_a_rule_that_everybody_has(writer, user, project):
    rule = writer.post("alerts/rules", LOW).json()
    writer.request("PUT", f"alerts/rules/{rule['id']}", LOW | {"version": 1})
    ensure_defaults(user, project)
    mention = AlertRule.objects.get(owner=user, default_key="mention")
    same = {
        "name": "mention",
        "on": "prediction",
        "version": mention.version,
        "to_page": False,
        "channels": [],
    }

    stale = writer.request("PUT", f"alerts/rules/{rule['id']}", LOW | {"name": "late", "version": 1})
    kept = writer.request("DELETE", f"alerts/rules/{mention.pk}")
    other = writer.request(
        "PUT", f"alerts/rules/{mention.pk}", same | {"to_page": True, "condition": {"event": "review_asked"}}
    )

    assert (stale.status_code, kept.status_code) == (409, 409)
    assert (other.status_code, other.json()["error"]["field"]) == (422, "condition")
    assert AlertRule.objects.filter(pk=mention.pk, condition={"event": "mention"}).exists()
    assert not AlertRule.objects.filter(name="late").exists()


def test_a_rule_of_the_project_is_an_admins_and_one_of_somebody_else_is_not_there(writer, project, colleague):
    shared = writer.post("alerts/rules", LOW | {"shared": True}).json()
    own = writer.post("alerts/rules", LOW).json()
    ben, elsewhere = client_of(colleague, project), create_project(slug="code", name="Code")
    stranger = client_of(member("eve", project=elsewhere), elsewhere)

    def tried(client, rule):
        path = f"alerts/rules/{rule['id']}"
        calls = (("GET", None), ("PUT", LOW | {"version": 1}), ("DELETE", None))
        codes = [client.request(method, path, body).status_code for method, body in calls]
        return [*codes, client.post(f"{path}/test").status_code]

    assert ben.post("alerts/rules", LOW | {"shared": True}).status_code == 403
    assert tried(ben, shared) == [200, 403, 403, 403]
    assert tried(ben, own) == tried(stranger, shared) == [404, 404, 404, 404]
    assert [one["id"] for one in ben.get("alerts/rules").json()["items"]] == [shared["id"]]
    assert AlertRule.objects.count() == 2 and not Notice.objects.exists()


def test_a_test_goes_each_way_for_real_and_says_what_came_of_it(
    writer,
    user,
    project,
    receiver,  # noqa: F811
):
    hook, secret = create_channel(
        user=user, project=project, kind="webhook", name="ours", address=receiver.url
    )
    gone = create_channel(
        user=user,
        project=project,
        kind="slack",
        name="gone",
        address="https://no-such-host.example.com/secret-part",
    )[0]
    rule = writer.post("alerts/rules", LOW | {"channels": [hook.pk, gone.pk]}).json()

    tried = writer.post(f"alerts/rules/{rule['id']}/test").json()["items"]
    again = writer.post(f"alerts/rules/{rule['id']}/test").json()["items"]
    channels = writer.get("alerts/channels")

    assert [(one["way"], one["ok"]) for one in tried] == [("page", True), ("ours", True), ("gone", False)]
    assert "no-such-host.example.com" in tried[2]["error"]
    assert "a moment ago" in again[1]["error"]
    assert [json.loads(body)["kind"] for _, body in receiver.got] == ["test"]
    assert Notice.objects.filter(user=user, text__contains="low entropy").count() == 2
    assert [one["name"] for one in channels.json()["items"]] == ["ours", "gone"]
    assert secret not in channels.content.decode() and "secret-part" not in channels.content.decode()
