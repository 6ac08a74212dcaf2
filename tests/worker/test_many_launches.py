"""Many launches at once, hints delivered twice or never: each job reaches Ray once. Real PostgreSQL, threads."""

import threading
from collections import Counter
from pathlib import Path

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from tests.deep import IS_DEEP
from tests.worker.conftest import make_run
from tests.worker.fake_ray import FakeRay
from webapp.record.runs.models import Attempt, Dispatch, Run, State
from worker import tasks
from worker.dispatch import send_dispatches
from worker.reconcile import observe_jobs

LAUNCHES, WORKERS = 300 if IS_DEEP else 16, 8


@pytest.fixture
def runs(transactional_db: None, settings: Settings, tmp_path: Path) -> list[str]:
    """Ids of launched runs whose hints are all still on their way."""
    settings.HEADROOM_HOME, settings.HEADROOM_URL = tmp_path, "http://headroom.example"
    first = make_run()
    copies = [
        Run(
            project=first.project, revision=first.revision, name="a run", task=first.task, model=first.model,
            seed=seed, budget_hours=0.1, config=first.config,
        )
        for seed in range(1, LAUNCHES)
    ]  # fmt: skip
    Run.objects.bulk_create(copies)
    Attempt.objects.bulk_create(
        Attempt(run=run, number=1, submission_id=f"run-{run.pk}-a1", state=State.QUEUED) for run in copies
    )
    Dispatch.objects.bulk_create(Dispatch(run=run, attempt=1, kind=Dispatch.Kind.SUBMIT) for run in copies)
    return [first.pk, *(run.pk for run in copies)]


@pytest.mark.long_form
def test_each_runs_once(runs: list[str], ray: FakeRay) -> None:
    hints = [run for run in runs[::2] for _ in range(2)]  # one half is delivered twice, the other never
    errors: list[BaseException] = []

    def work(mine: list[str]) -> None:
        try:
            for run in mine:
                tasks.dispatch(run)
            while send_dispatches():  # the beat, several at once
                pass
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(hints[i::WORKERS],)) for i in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    observe_jobs()

    posts = Counter(ray.submitted)
    assert errors == []
    assert set(posts) == {f"run-{run}-a1" for run in runs}
    assert set(posts.values()) == {1}
    assert Counter(Run.objects.values_list("state", flat=True)) == {State.STARTING: LAUNCHES}
    assert not Dispatch.objects.filter(done_at=None).exists()


@pytest.mark.django_db
def test_a_hint_of_another_version_is_understood(run: Run, ray: FakeRay) -> None:
    tasks.dispatch(run.pk, "something new", priority="high")

    assert set(ray.jobs) == {f"run-{run.pk}-a1"}
