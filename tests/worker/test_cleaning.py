"""The worker's part of the clean-up: one at a time, and the disk looked at now and then."""

from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.utils import timezone
from pytest_django.fixtures import Settings

from tests.launching import tracked_run
from tests.waiting import wait_until
from webapp.identity.accounts.services import create_project
from webapp.record.retention import services
from webapp.record.retention.models import DiskWatch
from webapp.record.runs.editing import UNDO
from webapp.record.runs.models import Run
from worker import upkeep

pytestmark = pytest.mark.django_db


def test_two_workers_do_not_clean_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "clean_up", lambda: 3)
    settings = connection.get_connection_params()
    known = {key: settings[key] for key in ("dbname", "user", "host", "port") if settings.get(key)}
    with psycopg.connect(**known, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [upkeep.ADVISORY_LOCK])
        assert upkeep.clean_up_alone() == 0

    wait_until(
        lambda: upkeep.clean_up_alone() == 3, 5
    )  # the server notices the closed connection a moment later


def test_the_disk_is_looked_at_once_in_a_while(with_broker: str, settings: Settings) -> None:
    settings.MIN_FREE_BYTES = 2**60
    assert upkeep.watch_disk_now() == 1
    assert upkeep.watch_disk_now() == 0  # not its turn

    assert DiskWatch.objects.get().low_since is not None


def test_runs_that_were_deleted_a_day_ago_go_for_good() -> None:
    project = create_project(slug="math", name="Math")
    old, new = (tracked_run(user=None, project=project, name=name) for name in ("old", "new"))
    now = timezone.now()
    Run.objects.filter(pk=old.pk).update(deleted_at=now - UNDO - timedelta(seconds=1))
    Run.objects.filter(pk=new.pk).update(deleted_at=now - UNDO + timedelta(hours=1))

    upkeep.clean_up_alone()

    assert list(Run.with_deleted.values_list("name", flat=True)) == ["new"]
