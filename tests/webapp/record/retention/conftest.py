"""Ended runs with checkpoints in their folders."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from tests.webapp.interfaces.pages.conftest import ada, make_run, model_folder, project, user  # noqa: F401 (fixtures)
from webapp.record.retention import folders
from webapp.record.retention.models import RetentionPolicy
from webapp.record.runs.models import Attempt, Run, State


def write_checkpoint(run_id: str, name: str, size: int = 100, *, is_whole: bool = True) -> Path:
    """As training writes them, with `size` bytes in it."""
    folder = folders.runs_folder() / run_id / "checkpoints" / name
    (folder / "trainer").mkdir(parents=True)
    (folder / "trainer" / "weights").write_bytes(b"x" * size)
    if is_whole:
        (folder / "COMPLETE").touch()
    return folder


def grow_old(run_id: str, days: float) -> None:
    """Nothing was written into the run's folder for so long."""
    root = folders.runs_folder() / run_id / "checkpoints"
    long_ago = timezone.now().timestamp() - 86400 * days
    if root.exists():
        os.utime(root, (long_ago, long_ago))


@pytest.fixture
def ended_run(make_run):  # noqa: F811
    """ended_run(days=10, steps=(5, 10)): it ended so long ago, and has whole checkpoints of these steps."""

    def make(*, days: float = 10.0, steps=(5, 10, 15), state: str = State.CANCELLED, **run) -> Run:
        made = make_run(1, **run)
        for step in steps:
            write_checkpoint(made.pk, f"step-{step:08d}")
        at = timezone.now() - timedelta(days=days)
        Run.objects.filter(pk=made.pk).update(state=state, ended_at=at)
        Attempt.objects.filter(run=made).update(state=state, ended_at=at)
        grow_old(made.pk, days)
        made.refresh_from_db()
        return made

    return make


@pytest.fixture
def policy(project) -> RetentionPolicy:  # noqa: F811
    """Two newest, for thirty days."""
    return RetentionPolicy.objects.create(project=project, enabled=True)


def steps_of(run: Run) -> list[int | None]:
    return [kept.step for kept in folders.checkpoints_of(run.pk)]
