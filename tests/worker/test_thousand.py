"""Many launches at once (a thousand in the long form), handed over by several workers at once: each runs once."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from tests.deep import IS_DEEP
from tests.fake_model import make_model
from tests.launching import launched
from tests.worker.fake_ray import FakeRay
from webapp.identity.accounts.services import default_project
from webapp.record.runs.models import Attempt, Dispatch, Run, State
from worker.dispatch import send_dispatches

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240), pytest.mark.long_form]

RUNS = 1000 if IS_DEEP else 24
AT_ONCE = 8


def at_once(work: Callable[[int], object]) -> None:
    """In threads with a connection each."""

    def closing(number: int) -> None:
        try:
            work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(closing, range(AT_ONCE)))


def launch_share(project: object, number: int) -> None:
    for seed in range(number, RUNS, AT_ONCE):
        launched(
            user=None, project=project, recipe="tiny-scalerl", task="arithmetic", model="tiny-arithmetic",
            seed=seed, budget_hours=0.1, idempotency_key=f"click {seed}",
        )  # fmt: skip


def test_each_of_many_launches_is_submitted_once(ray: FakeRay, settings: Settings, tmp_path: Path) -> None:
    settings.HEADROOM_HOME, settings.HEADROOM_URL = tmp_path, "http://headroom.example"
    make_model(tmp_path, "tiny-arithmetic", context=96)
    project = default_project()

    at_once(partial(launch_share, project))
    at_once(lambda _: launch_share(project, 0))  # an eighth of them is clicked again by everybody
    at_once(lambda _: [None for _ in iter(send_dispatches, 0)])

    assert Counter(ray.requests)["POST /api/jobs/"] == RUNS
    assert set(ray.jobs) == set(Attempt.objects.values_list("submission_id", flat=True))
    assert Run.objects.filter(state=State.STARTING).count() == Run.objects.count() == RUNS
    assert not Dispatch.objects.filter(done_at=None).exists()
