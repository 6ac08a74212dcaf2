"""The worker's part in alerts: found by the beat, sent by a task of its own."""

import json
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from tests.webapp.reporting.alerts.conftest import Receiver, receiver  # noqa: F401 (fixture)
from webapp.identity.accounts.models import Role
from webapp.identity.accounts.services import set_role
from webapp.record.runs import lifecycle
from webapp.record.runs.models import Run
from webapp.reporting.alerts import channels
from webapp.reporting.alerts.models import AlertRule, Delivery, Firing, Notice
from worker import tasks
from worker.reconcile import reconcile_all
from worker.upkeep import deliver_wanted, fire_wanted

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("with_broker")]


def test_the_beat_finds_what_happened_and_the_task_sends_it(
    run: Run,
    receiver: Receiver,  # noqa: F811
    settings: Settings,
    tmp_path: Path,
) -> None:
    user = run.created_by
    assert user is not None
    set_role(run.project, user, Role.CONTRIBUTOR)
    hook, _ = channels.create_channel(
        user=user, project=run.project, kind="webhook", name="hook", address=receiver.url
    )
    fire_wanted()  # everybody gets the rules that everybody has
    AlertRule.objects.get(owner=user, default_key="run_stopped").channels.add(hook)
    lifecycle.report_started(run, attempt=1)
    lifecycle.report_finished(run, attempt=1, state="failed", message="boom")

    reconcile_all()  # without a Ray: the other steps say so and stop none of these
    reconcile_all()
    assert Firing.objects.count() == Notice.objects.filter(user=user).count() == 1
    assert receiver.got == []  # a round waits for nobody
    assert deliver_wanted() == 1

    tasks.deliver()
    assert "boom" in json.loads(receiver.got[0][1])["items"][0]["text"]
    assert deliver_wanted() == 0 and Delivery.objects.get().state == "sent"
