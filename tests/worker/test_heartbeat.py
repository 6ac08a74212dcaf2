"""A worker's sign of life: while it lives, through a lost database, and gone after it was stopped."""

import pytest

from tests.waiting import wait_until
from webapp.record.health import services
from webapp.record.health.models import WorkerSeen
from worker.heartbeat import Heartbeat

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_worker_is_known_while_it_lives(transactional_db):
    heartbeat = Heartbeat(every_seconds=0.01)
    heartbeat.start()
    wait_until(lambda: WorkerSeen.objects.filter(name=heartbeat.name).exists())
    first = WorkerSeen.objects.get().seen_at
    wait_until(lambda: WorkerSeen.objects.get().seen_at > first)

    heartbeat.stop()

    assert not WorkerSeen.objects.exists()


def test_a_database_that_is_away_for_a_moment_does_not_end_it(transactional_db, monkeypatch):
    real, failures = services.worker_lives, [OSError("away"), OSError("away")]

    def flaky(*args, **kwargs):
        if failures:
            raise failures.pop()
        real(*args, **kwargs)

    monkeypatch.setattr(services, "worker_lives", flaky)
    heartbeat = Heartbeat(every_seconds=0.01)
    heartbeat.start()

    wait_until(lambda: WorkerSeen.objects.exists())
    heartbeat.stop()
