"""Channels: what is sent to a real server and by mail, retries, quiet hours, pauses."""

import hashlib
import hmac
import json
import threading
from datetime import UTC, datetime, time, timedelta

import pytest
from django.core import mail
from django.db import connection
from django.utils import timezone

from tests.members import member
from tests.webapp.reporting.alerts.data import make_rule
from webapp.base.errors import Conflict, Forbidden, InvalidInput, NotFound
from webapp.base.mail import mail_settings
from webapp.base.sealing import Unreadable, seal, unseal
from webapp.identity.accounts.models import Membership, Role
from webapp.record.runs import lifecycle
from webapp.reporting.alerts import channels, delivery
from webapp.reporting.alerts.firing import check_changed, notify
from webapp.reporting.alerts.models import AlertRule, Channel, Delivery, Firing, Notice
from webapp.reporting.alerts.rules import ensure_defaults

pytestmark = pytest.mark.django_db


@pytest.fixture
def webhook(user, project, receiver):
    """(channel, secret) to the local server."""
    return channels.create_channel(
        user=user, project=project, kind="webhook", name="hook", address=receiver.url
    )


def fire(channel, text="one, seed 0: has failed", *, now=None, critical=False, user=None, project=None):
    """A firing on its way through the channel."""
    project = project or channel.project or channel.owner.projects.first()
    firing = Firing.objects.create(
        rule_name="a rule", project=project, owner=channel.owner, episode=text, text=text, url="/runs/abc",
        critical=critical, happened_at=timezone.now(),
    )  # fmt: skip
    delivery.enqueue(firing, [channel], now)
    return firing


def test_a_webhook_gets_signed_json_once(webhook, receiver):
    channel, secret = webhook
    fire(channel, "one <b>, seed 0: has failed")

    assert delivery.deliver_due() == 1
    assert delivery.deliver_due() == 0

    ((headers, body),) = receiver.got
    stamp, mac = (part.split("=")[1] for part in headers["x-headroom-signature"].split(","))
    assert hmac.compare_digest(
        mac, hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    )
    assert abs(int(stamp) - timezone.now().timestamp()) < 60
    row = Delivery.objects.get()
    said = json.loads(body)
    assert said["id"] == headers["x-headroom-delivery"] == str(row.pk) and said["kind"] == "alert"
    assert said["items"][0]["text"] == "one <b>, seed 0: has failed"
    assert said["items"][0]["url"] == "https://headroom.example/runs/abc"
    assert (row.state, row.tries, row.last_status) == ("sent", 1, 200)


def test_a_program_is_told_of_what_kind_it_is_and_what_it_is_about(user, project, receiver, make_run):
    channel, _ = channels.create_channel(
        user=user, project=project, kind="webhook", name="hook", address=receiver.url
    )
    rule = make_rule(user, project, "state", {"states": ["succeeded"]}, channels=[channel.pk], to_page=False)
    run = make_run(0, name="one")
    lifecycle.report_finished(run, attempt=1, state="succeeded", message="")

    check_changed(seconds=60)
    delivery.deliver_due()

    (item,) = json.loads(receiver.got[0][1])["items"]
    assert (item["on"], item["run"], item["rule"]) == ("state", run.pk, rule.name)
    assert item["event"].startswith("1:succeeded:")


def test_a_slack_hook_gets_text_that_cannot_ping_anybody(user, project, receiver):
    channel, secret = channels.create_channel(
        user=user, project=project, kind="slack", name="team", address=receiver.url
    )
    fire(channel, "<!channel> & *bold*, seed 0: has failed")
    delivery.deliver_due()

    body = json.loads(receiver.got[0][1])
    assert secret == "" and set(body) == {"text", "blocks"}
    assert "<!channel>" not in json.dumps(body) and "&lt;!channel&gt;" in body["text"]
    assert body["blocks"][0]["text"]["text"].startswith(
        "<https://headroom.example/runs/abc|&lt;!channel&gt; &amp;"
    )


def test_mail_goes_to_the_address_of_the_account(user, project, receiver, settings):
    settings.EMAIL_CONFIGURED = True
    user.email = "ada@example.com"
    user.save()
    channel, _ = channels.create_channel(
        user=user, project=project, kind="mail", name="mail", address="evil@example.com"
    )
    fire(channel, "a\r\nBcc: x@example.com, seed 0: has failed", critical=True)
    delivery.deliver_due()

    (sent,) = mail.outbox
    assert sent.to == ["ada@example.com"] and sent.recipients() == ["ada@example.com"]
    assert sent.subject == "Headroom: critical: a Bcc: x@example.com, seed 0: has failed"
    assert "https://headroom.example/runs/abc" in sent.body
    assert sent.extra_headers["X-Headroom-Delivery"] == str(Delivery.objects.get().pk)


def test_without_a_mail_server_mail_waits_and_says_so(user, project, settings):
    settings.EMAIL_CONFIGURED = False
    user.email = "ada@example.com"
    user.save()
    channel, _ = channels.create_channel(user=user, project=project, kind="mail", name="mail")
    fire(channel)
    delivery.deliver_due()

    row = Delivery.objects.get()
    assert row.state == "waiting" and "HEADROOM_SMTP_HOST" in row.last_error


def test_a_server_that_fails_is_asked_again_later_with_the_same_id(webhook, receiver):
    receiver.status, receiver.body = 500, b"database is down"
    fire(webhook[0])
    delivery.deliver_due()

    row = Delivery.objects.get()
    assert (row.state, row.tries, row.last_status) == ("waiting", 1, 500)
    assert row.last_error == "It answered 500: database is down"
    assert timedelta(seconds=20) < row.next_at - timezone.now() < timedelta(seconds=40)

    receiver.status = 204
    assert delivery.deliver_due(now=timezone.now() + timedelta(minutes=1)) == 1
    assert (
        len({headers["x-headroom-delivery"] for headers, _ in receiver.got}) == 1 and len(receiver.got) == 2
    )
    row.refresh_from_db()
    assert row.state == "sent" and Channel.objects.get().failures == 0


@pytest.mark.parametrize(
    ("status", "state"), [(429, "waiting"), (503, "waiting"), (404, "failed"), (410, "failed")]
)
def test_what_may_get_better_is_tried_again_and_what_may_not_is_not(webhook, receiver, status, state):
    receiver.status = status
    fire(webhook[0])
    delivery.deliver_due()

    assert Delivery.objects.get().state == state


def test_a_server_that_does_not_answer_in_time_is_tried_again(webhook, receiver, monkeypatch):
    monkeypatch.setattr("webapp.reporting.alerts.delivery.TIMEOUT_S", 0.3)
    receiver.delay = 1.5
    fire(webhook[0])
    delivery.deliver_due()

    row = Delivery.objects.get()
    assert row.state == "waiting" and "in time" in row.last_error


def test_a_redirect_to_a_private_address_is_refused(webhook, receiver):
    receiver.status, receiver.location = 302, "http://169.254.169.254/latest/meta-data/"
    fire(webhook[0])
    delivery.deliver_due()

    row = Delivery.objects.get()
    assert row.state == "failed" and "redirect" in row.last_error and len(receiver.got) == 1


def test_after_many_tries_it_is_given_up(webhook, receiver):
    receiver.status = 500
    fire(webhook[0])
    Delivery.objects.update(tries=delivery.MAX_TRIES - 1)
    delivery.deliver_due()

    assert Delivery.objects.get().state == "failed"


def test_waits_double_and_end_within_a_day():
    waits = [delivery.wait_after(tries, 0.5) for tries in range(1, delivery.MAX_TRIES)]

    assert (
        waits[0] == timedelta(seconds=30)
        and waits[3] == timedelta(minutes=4)
        and waits[-1] == timedelta(hours=4)
    )
    assert timedelta(hours=12) < sum(waits, timedelta()) * 1.2 < timedelta(days=1)
    assert delivery.wait_after(1, 0.0) < waits[0] < delivery.wait_after(1, 1.0)


def test_a_dead_hook_is_paused_says_so_once_and_goes_on_when_asked(user, project, webhook, receiver):
    channel, _ = webhook
    receiver.status = 500
    for place in range(delivery.PAUSE_AFTER + 2):
        fire(channel, f"{place}")
    delivery.deliver_due()

    channel.refresh_from_db()
    assert channel.paused_at is not None and len(receiver.got) == delivery.PAUSE_AFTER
    (notice,) = Notice.objects.filter(user=user, kind="channel_paused")
    assert "It answered 500" in notice.text

    receiver.status = 200
    assert delivery.deliver_due(now=timezone.now() + timedelta(hours=1)) == 0
    channels.resume_channel(channel.pk, user=user, project=project)
    delivery.deliver_due()
    assert set(Delivery.objects.values_list("state", flat=True)) == {"sent"}


def test_what_waited_a_day_for_a_paused_channel_is_given_up(webhook):
    fire(webhook[0])
    Channel.objects.update(paused_at=timezone.now())
    assert delivery.drop_old() == 0
    assert delivery.drop_old(timezone.now() + timedelta(days=1, minutes=1)) == 1
    assert Delivery.objects.get().state == "dropped"


NIGHT = {"zone": "Europe/Berlin", "quiet_from": time(22), "quiet_to": time(7), "quiet_days": list(range(7))}
MIDNIGHT = datetime(2026, 1, 10, 23, tzinfo=UTC)  # in Berlin
MORNING = datetime(2026, 1, 11, 6, tzinfo=UTC)


def test_in_quiet_hours_it_is_held_and_comes_as_one_digest(user, webhook, receiver):
    channels.set_quiet_hours(user=user, quiet=NIGHT)
    for place in range(3):
        fire(webhook[0], f"run {place}", now=MIDNIGHT)
    assert delivery.deliver_due(now=MORNING - timedelta(minutes=1)) == 0
    receiver.status = 500
    delivery.deliver_due(now=MORNING)
    fire(webhook[0], "run of the next night", now=MIDNIGHT)
    receiver.status = 200
    Delivery.objects.filter(tries=1).update(next_at=MORNING)
    delivery.deliver_due(now=MORNING + timedelta(minutes=5))

    first, again, other = (json.loads(body) for _, body in receiver.got)
    assert first["kind"] == "digest" and [item["text"] for item in first["items"]] == [
        "run 0",
        "run 1",
        "run 2",
    ]
    assert first == again  # the digest that failed comes again as it was
    assert [item["text"] for item in other["items"]] == ["run of the next night"] and other["id"] != first[
        "id"
    ]


def test_critical_ones_break_through_where_the_channel_lets_them(user, project, receiver):
    channels.set_quiet_hours(user=user, quiet=NIGHT)
    make = lambda name, through: channels.create_channel(
        user=user,
        project=project,
        kind="webhook",
        name=name,
        address=receiver.url,
        quiet=NIGHT | {"critical_through": through},
    )[0]
    through, held = make("through", True), make("held", False)
    fire(through, "critical", now=MIDNIGHT, critical=True)
    fire(through, "not critical", now=MIDNIGHT)
    fire(held, "critical too", now=MIDNIGHT, critical=True)

    assert list(Delivery.objects.filter(held=False).values_list("firing__text", flat=True)) == ["critical"]


def test_a_channels_own_quiet_hours_come_before_its_owners(user, project, receiver):
    channels.set_quiet_hours(user=user, quiet=NIGHT)
    channel, _ = channels.create_channel(
        user=user, project=project, kind="webhook", name="x", address=receiver.url,
        quiet=NIGHT | {"quiet_from": time(12), "quiet_to": time(13)},
    )  # fmt: skip
    fire(channel, now=MIDNIGHT)
    assert not Delivery.objects.get().held


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_send_each_once(webhook, receiver):
    for place in range(12):
        fire(webhook[0], f"{place}")
    start = threading.Barrier(3)

    def work():
        start.wait(10)
        delivery.deliver_due()
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(receiver.got) == len({headers["x-headroom-delivery"] for headers, _ in receiver.got}) == 12


def test_a_claim_of_a_worker_that_died_is_taken_over(webhook, receiver):
    fire(webhook[0])
    (row,) = delivery.claim()
    assert delivery.claim() == []
    (again,) = delivery.claim(timezone.now() + timedelta(seconds=61))
    assert again.pk == row.pk


def test_who_left_the_project_gets_nothing_more(user, project, receiver):
    ben = member("ben", project=project)
    channel, _ = channels.create_channel(
        user=ben, project=project, kind="webhook", name="x", address=receiver.url
    )
    fire(channel, project=project)
    Membership.objects.filter(user=ben).delete()
    delivery.deliver_due()

    assert receiver.got == [] and Delivery.objects.get().state == "dropped"


# --- the test of a channel, and bad input ---------------------------------------------------------------------


def test_a_test_is_sent_for_real_and_says_what_came_of_it(user, project, webhook, receiver):
    channel, _ = webhook
    assert channels.send_test(channel.pk, user=user, project=project).status == 200
    assert json.loads(receiver.got[0][1])["kind"] == "test"
    with pytest.raises(Conflict, match="a moment ago"):
        channels.send_test(channel.pk, user=user, project=project)

    receiver.status = 403
    outcome = channels.send_test(
        channel.pk, user=user, project=project, now=timezone.now() + timedelta(minutes=1)
    )
    assert (outcome.ok, outcome.status) == (False, 403)
    channel.refresh_from_db()
    assert channel.last_error == "It answered 403: ok" and len(receiver.got) == 2


@pytest.mark.parametrize(
    "address",
    [
        "http://example.com/x",
        "https://10.0.0.1/x",
        "https://localhost/x",
        "https://[::1]/",
        "ftp://example.com",
        "",
        "x",
    ],
)
def test_addresses_that_must_not_be_called_are_refused_at_once(user, project, address):
    with pytest.raises(InvalidInput) as refused:
        channels.create_channel(user=user, project=project, kind="webhook", name="x", address=address)
    assert refused.value.field == "address" and not Channel.objects.exists()


def test_an_account_without_mail_and_a_wrong_address_are_refused(user, project):
    user.email = ""
    for shared in (False, True):
        with pytest.raises(InvalidInput) as refused:
            channels.create_channel(
                user=user, project=project, kind="mail", name="x", address="a@b@c", shared=shared
            )
        assert refused.value.field == "address"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"zone": "Mars/Olympus"}, "zone"),
        ({"quiet_to": None}, "quiet_to"),
        ({"quiet_days": []}, "quiet_days"),
        ({"quiet_from": time(9), "quiet_to": time(9)}, "quiet_to"),
    ],
)
def test_quiet_hours_that_cannot_be_are_refused(user, changes, field):
    with pytest.raises(InvalidInput) as refused:
        channels.set_quiet_hours(user=user, quiet=NIGHT | changes)
    assert refused.value.field == field


def test_hooks_need_a_contributor_and_shared_channels_an_admin(project, receiver):
    viewer = member("vic", project=project, role=Role.VIEWER)
    reviewer = member("rea", project=project, role=Role.REVIEWER)
    with pytest.raises(Forbidden):
        channels.create_channel(user=viewer, project=project, kind="webhook", name="x", address=receiver.url)
    with pytest.raises(Forbidden):
        channels.create_channel(
            user=reviewer, project=project, kind="slack", name="x", address=receiver.url, shared=True
        )
    own, _ = channels.create_channel(
        user=reviewer, project=project, kind="slack", name="x", address=receiver.url
    )
    with pytest.raises(NotFound):
        channels.delete_channel(own.pk, user=viewer, project=project)


def test_addresses_and_secrets_are_sealed(webhook, receiver, settings):
    channel, secret = webhook
    stored = f"{channel.sealed_address} {channel.sealed_secret} {channel.shown}"
    assert receiver.url not in stored and secret not in stored
    assert unseal(seal("a")) == "a" and seal("a") != seal("a")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", [settings.SECRET_KEY]
    assert unseal(channel.sealed_address) == receiver.url
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(Unreadable):
        unseal(channel.sealed_address)


def test_deleting_a_channel_leaves_no_rule_without_a_way(user, project, webhook):
    rule = make_rule(user, project, "budget", {"percent": 50}, to_page=False, channels=[webhook[0].pk])
    channels.delete_channel(webhook[0].pk, user=user, project=project)
    with pytest.raises(NotFound):
        channels.delete_channel(webhook[0].pk, user=user, project=project)
    rule.refresh_from_db()
    assert rule.to_page


# --- notify ---------------------------------------------------------------------------------------------------


def test_a_notice_goes_where_the_persons_rule_says(user, project, webhook, receiver):
    tell = lambda: notify(
        user, project=project, kind="mention", text="Ben mentioned you", url="/predictions/x"
    )
    assert tell() is not None  # before the rule is there
    ensure_defaults(user, project)
    rule = AlertRule.objects.get(owner=user, default_key="mention")
    rule.channels.add(webhook[0])
    tell()
    delivery.deliver_due()
    assert json.loads(receiver.got[0][1])["items"][0]["text"] == "Ben mentioned you"
    AlertRule.objects.filter(pk=rule.pk).update(to_page=False)
    assert tell() is None
    AlertRule.objects.filter(pk=rule.pk).update(enabled=False, to_page=True)
    assert tell() is None
    assert Notice.objects.count() == 2 and Delivery.objects.count() == 2
    assert notify(user, project=project, kind="something_else", text="x", url="/") is not None


def test_where_no_mail_is_set_up_a_test_says_so(user, project, settings):
    settings.EMAIL_CONFIGURED = mail_settings({}).configured
    user.email = "ada@example.com"
    user.save()
    channel, _ = channels.create_channel(user=user, project=project, kind="mail", name="mine")

    outcome = channels.send_test(channel.pk, user=user, project=project)

    assert not outcome.ok and "HEADROOM_EMAIL_URL" in outcome.error
    assert Channel.objects.get().sent_at is None
