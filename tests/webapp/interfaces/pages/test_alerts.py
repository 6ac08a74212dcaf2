# ruff: noqa: F811 (a fixture that is imported and asked for)
"""The pages of alerts and the bell, through Django's test client."""

import pytest
from django.urls import reverse

from tests.members import member
from tests.webapp.interfaces.pages.reading import text_of
from tests.webapp.reporting.alerts.conftest import receiver  # noqa: F401 (fixture)
from tests.webapp.reporting.alerts.data import entropy_below, make_rule, report
from webapp.identity.accounts.models import Role
from webapp.reporting.alerts import channels, delivery, firing
from webapp.reporting.alerts.firing import notify
from webapp.reporting.alerts.models import AlertRule, Channel, Delivery, Notice

RULE = {
    "name": "Entropy", "metric": "train/entropy", "comparison": "<", "threshold": "0.1", "in_a_row": "3",
    "runs": "by:me", "to_page": "on", "cooldown_minutes": "60",
}  # fmt: skip


def test_the_page_shows_the_rules_that_everybody_has(ada):
    page = ada.get("/alerts").content.decode()
    assert "A run of mine failed or was lost" in page and "Nothing fired yet" in page


def test_a_rule_is_made_shown_changed_and_deleted(ada, user):
    answer = ada.post("/alerts/rules/new?on=metric", RULE, follow=True)
    assert "watches from now on" in answer.content.decode()
    rule = AlertRule.objects.get(name="Entropy")
    assert rule.condition == entropy_below() and rule.owner == user and rule.cooldown_minutes == 60

    form = ada.get(f"/alerts/rules/{rule.pk}").content.decode()
    assert 'value="train/entropy"' in form and 'value="0.1"' in form
    changed = RULE | {"threshold": "0.2", "version": "1"}
    ada.post(f"/alerts/rules/{rule.pk}", changed)
    again = ada.post(f"/alerts/rules/{rule.pk}", changed)
    assert again.status_code == 422 and "another tab" in again.content.decode()
    rule.refresh_from_db()
    assert rule.condition["threshold"] == 0.2

    ada.post(f"/alerts/rules/{rule.pk}/delete")
    assert ada.post(f"/alerts/rules/{rule.pk}/delete").status_code == 404  # as somebody else's
    assert ada.post("/alerts/channels/999999/delete").status_code == 404
    assert not AlertRule.objects.filter(name="Entropy").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"threshold": "-"}, "Must be a number"),
        ({"in_a_row": "0"}, "Must be at least 1"),
        ({"runs": "stat:x"}, "character 1"),
        ({"to_page": ""}, "at least one way"),
        ({"metric": "eval/pass_rate", "threshold": "-1"}, "between 0 and 1"),
        ({"name": ""}, "This field is required"),
        ({"cooldown_minutes": "7"}, "valid choice"),
    ],
)
def test_what_is_wrong_stands_beside_its_field_and_nothing_is_stored(ada, change, words):
    answer = ada.post("/alerts/rules/new?on=metric", RULE | change)
    assert answer.status_code == 422 and words in answer.content.decode()
    assert not AlertRule.objects.filter(default_key="").exists()


@pytest.mark.parametrize(
    ("on", "fields", "condition"),
    [
        ("state", {"states": ["lost", "failed"]}, {"states": ["failed", "lost"]}),
        ("alarm", {"level": "critical", "rule": ""}, {"level": "critical", "rule": ""}),
        (
            "fit", {"event": "ceiling_below", "value": "0.6", "certain": "on", "in_a_row": "2"},
            {"event": "ceiling_below", "value": 0.6, "certain": True, "in_a_row": 2},
        ),
        ("budget", {"percent": "80"}, {"percent": 80.0}),
        ("outcome", {"scored": "outside"}, {"scored": "outside"}),
        (
            "fit", {"event": "stored", "in_a_row": "2"},
            {"event": "stored", "value": None, "certain": False, "in_a_row": 2},
        ),
    ],
)  # fmt: skip
def test_each_kind_of_form_makes_its_rule(ada, on, fields, condition):
    ada.post(f"/alerts/rules/new?on={on}", {"name": on, "to_page": "on", "runs": ""} | fields)
    rule = AlertRule.objects.get(name=on)
    assert rule.condition == condition
    assert ada.get(f"/alerts/rules/{rule.pk}").status_code == 200
    assert ada.get("/alerts/rules/check", {"on": on, **fields}).status_code == 200


def test_the_live_check_says_what_it_would_have_done(ada, make_run):
    report(make_run(0, name="one"), [0.05] * 4)
    said = ada.get("/alerts/rules/check", {"on": "metric"} | RULE).content.decode()
    assert "would have fired" in said and "train/entropy is 0.05 at step 3" in said
    wrong = ada.get(
        "/alerts/rules/check", {"on": "metric"} | RULE | {"runs": "state:running stat:x"}
    ).content.decode()
    assert "character 15" in wrong and "^" in wrong
    assert (
        "must be a number"
        in ada.get("/alerts/rules/check", {"on": "metric"} | RULE | {"threshold": "x"}).content.decode()
    )
    begun = ada.get("/alerts/rules/check", {"on": "metric"} | RULE | {"metric": ""}).content.decode()
    assert "Once the condition is whole" in begun and "required" not in begun


def test_a_webhooks_secret_is_shown_once(ada, receiver, user):
    answer = ada.post(
        "/alerts/channels/new?kind=webhook", {"name": "hook", "address": receiver.url, "zone": "UTC"}
    )
    page = answer.content.decode()
    assert "not shown again" in page and receiver.url not in page
    channel = Channel.objects.get(owner=user)
    tested = ada.post(f"/alerts/channels/{channel.pk}/test").content.decode()
    assert "went through: 200" in tested
    assert "a moment ago" in ada.post(f"/alerts/channels/{channel.pk}/test").content.decode()
    assert receiver.url not in ada.get("/alerts").content.decode()


def test_a_private_address_is_refused_in_the_form(ada):
    answer = ada.post(
        "/alerts/channels/new?kind=slack", {"name": "x", "address": "https://10.1.2.3/x", "zone": "UTC"}
    )
    assert answer.status_code == 422 and "not on the public internet" in answer.content.decode()


def test_quiet_hours_are_stored_and_refused(ada, user):
    good = {"quiet_from": "22:00", "quiet_to": "07:00", "quiet_days": ["0", "1"], "zone": "Europe/Berlin"}
    assert ada.post("/alerts/preferences", good).status_code == 302
    assert "22:00 to 07:00, Mon Tue, Europe/Berlin" in ada.get("/alerts").content.decode()
    for bad in ({"zone": "Nowhere"}, {"quiet_to": ""}, {"quiet_to": "25:00"}, {"quiet_days": ["9"]}):
        assert ada.post("/alerts/preferences", good | bad).status_code == 422


def test_history_shows_what_became_of_each_message(ada, user, project, make_run, receiver):
    receiver.status = 404
    channel, _ = channels.create_channel(
        user=user, project=project, kind="webhook", name="hook", address=receiver.url
    )
    make_rule(user, project, "metric", entropy_below(), channels=[channel.pk])
    report(make_run(0), [0.05] * 3)
    firing.check_changed()
    delivery.deliver_due()
    page = text_of(ada.get("/alerts"))

    assert "after 1 try: It answered 404" in page and "train/entropy is 0.05" in page


def test_the_pages_cost_the_same_for_more_rows(ada, user, project, make_run, django_assert_max_num_queries):
    run = make_run(0)
    for place in range(6):
        make_rule(
            user, project, "metric", entropy_below(in_a_row=1), name=f"rule {place}", shared=place % 2 == 0
        )
    report(run, [0.05, 0.5] * 10)
    firing.check_changed()
    ada.get("/alerts")
    with django_assert_max_num_queries(24):
        ada.get("/alerts")
    with django_assert_max_num_queries(12):
        ada.get("/notices")


def test_the_bell_counts_lists_and_is_read(ada, user, project):
    for place in range(3):
        notify(user, project=project, kind="mention", text=f"notice {place}", url="/runs")
    first = Notice.objects.order_by("id")[0]
    assert 'id="bell-count">3<' in text_of(ada.get("/runs"))
    assert ada.get("/notices/unread").json() == {"unread": 3}
    assert "notice 2" in ada.get("/notices/bell").content.decode()

    assert ada.post("/notices/read", {"notice": first.pk, "next": "/runs"}).url == "/runs"
    assert ada.get("/notices/unread").json() == {"unread": 2}
    seen = Notice.objects.order_by("id")[1].pk
    for _ in range(2):
        ada.post("/notices/read", {"up_to": seen})
    assert ada.get("/notices/unread").json() == {"unread": 1}  # one came after what was seen
    assert ada.post("/notices/read", {"notice": "x", "next": "https://evil.example/"}).url == reverse(
        "notices"
    )
    assert ada.post("/notices/read", {"notice": "1", "next": "//evil.example/"}).url == reverse("notices")


def test_notices_of_others_cannot_be_read_or_marked(ada, user, project):
    ben = member("ben", project=project)
    his = notify(ben, project=project, kind="mention", text="for Ben", url="/runs")
    assert "for Ben" not in ada.get("/notices").content.decode()
    ada.post("/notices/read", {"notice": his.pk})
    his.refresh_from_db()
    assert his.read_at is None


def test_what_belongs_to_others_is_not_there_and_the_projects_is_for_admins(client, user, project, receiver):
    viewer = member("vic", project=project, role=Role.VIEWER)
    hook, _ = channels.create_channel(
        user=user, project=project, kind="webhook", name="hers", address=receiver.url
    )
    team, _ = channels.create_channel(
        user=user, project=project, kind="slack", name="team", address=receiver.url, shared=True
    )
    hers = make_rule(user, project, "budget", {"percent": 50})
    shared = make_rule(user, project, "budget", {"percent": 50}, shared=True)
    client.force_login(viewer)
    assert client.get("/alerts").status_code == 200
    assert client.get(f"/alerts/rules/{hers.pk}").status_code == 404
    assert client.get(f"/alerts/rules/{shared.pk}").status_code == 200
    for path in (
        f"rules/{hers.pk}/turn",
        f"rules/{hers.pk}/delete",
        f"channels/{hook.pk}/test",
        f"channels/{hook.pk}/delete",
    ):
        assert client.post(f"/alerts/{path}").status_code == 404
    for path in (
        f"rules/{shared.pk}/turn",
        f"rules/{shared.pk}/delete",
        f"channels/{team.pk}/test",
        f"channels/{team.pk}/delete",
    ):
        assert client.post(f"/alerts/{path}").status_code == 403
    answer = client.post(
        f"/alerts/rules/{shared.pk}", {"name": "x", "percent": "1", "to_page": "on", "version": "1"}
    )
    assert answer.status_code == 403
    for path in (
        "rules/new?on=budget&for=project",
        "channels/new?kind=webhook",
        "channels/new?kind=mail&for=project",
    ):
        assert client.get(f"/alerts/{path}").status_code == 403
    assert receiver.got == [] and Delivery.objects.count() == 0
