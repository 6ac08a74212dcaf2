import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from pytest_django.fixtures import Settings

from stack.parts import redis_answers, redis_command, redis_url
from stack.ports import free_port
from tests.waiting import wait_until
from tests.worker.fake_ray import FakeRay
from webapp.identity.accounts.models import User
from webapp.identity.accounts.services import default_project
from webapp.record.runs import launch, outbox
from webapp.record.runs.models import Run, State


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRay]:
    """A Ray that the worker finds as it would find a real one."""
    fake = FakeRay()
    monkeypatch.setenv("RAY_ADDRESS", fake.address)
    monkeypatch.setenv("RAY_AUTH_TOKEN", fake.token)
    yield fake
    fake.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real broker."""
    port = free_port()
    command = redis_command(tmp_path_factory.mktemp("redis"), port)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: redis_answers(redis_url(port)))
        yield redis_url(port)
        process.terminate()


@pytest.fixture
def with_broker(settings: Settings, broker: str) -> str:
    """The broker, empty: no other test has taken a turn."""
    redis.Redis.from_url(broker).flushall()
    settings.CELERY_BROKER_URL = broker
    return broker


@pytest.fixture
def run(db: None, settings: Settings, tmp_path: Path) -> Run:
    """A launched run that waits for its dispatch; the model is a folder, since nothing is trained here."""
    settings.HEADROOM_HOME = tmp_path
    settings.HEADROOM_URL = "http://headroom.example"
    return make_run()


def make_run(**changes: Any) -> Run:
    project = default_project()
    revision = project.recipes.get(slug="tiny-scalerl").revisions.get()
    user = User.objects.create_user(username=f"user{User.objects.count()}")
    run = Run.objects.create(
        project=project,
        revision=revision,
        name="a run",
        task="arithmetic",
        model="tiny-arithmetic",
        budget_hours=0.1,
        config=revision.config,
        created_by=user,
        **changes,
    )
    launch.new_attempt(run, 1, State.QUEUED)
    outbox.submit(run, 1)
    return run
