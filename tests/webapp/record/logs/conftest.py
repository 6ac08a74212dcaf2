"""An attempt whose job writes a log."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.webapp.interfaces.pages.conftest import ada, make_run, model_folder, project, user  # noqa: F401 (fixtures)
from webapp.record.logs import services
from webapp.record.runs.models import Attempt, State


class Job:
    """The job of a run's attempt, as far as its log goes."""

    def __init__(self, run) -> None:
        self.run = run
        self.path = services.log_path(run.pk, run.attempt_number)
        self.path.parent.mkdir(parents=True, exist_ok=True)

    @property
    def attempt(self) -> Attempt:
        return Attempt.objects.get(run=self.run, number=self.run.attempt_number)

    def prints(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def ends(self, state: str = State.FAILED, tail: str = "") -> None:
        """It ended a while ago; `tail` is what Ray had of its log."""
        ago = timezone.now() - timedelta(minutes=1)
        Attempt.objects.filter(pk=self.attempt.pk).update(state=state, ended_at=ago, log_tail=tail)
        type(self.run).objects.filter(pk=self.run.pk).update(state=state)
        self.run.refresh_from_db()


@pytest.fixture
def job(make_run) -> Job:  # noqa: F811
    return Job(make_run(2))


@pytest.fixture
def make_job(make_run):  # noqa: F811
    return lambda **kwargs: Job(make_run(2, **kwargs))
