"""A launch in one call, for tests that are about something else."""

from typing import Any

from webapp.identity.accounts.models import Project, User
from webapp.record.runs.launch import LaunchRequest, TrackRequest, launch_run, track_run
from webapp.record.runs.models import Run


def launched(
    *, user: User | None, project: Project, idempotency_key: str | None = None, **request: Any
) -> Run:
    """The run of a request with these fields."""
    made = launch_run(LaunchRequest(**request), user=user, project=project, idempotency_key=idempotency_key)
    return made.run


def tracked_run(
    *, user: User | None, project: Project, idempotency_key: str | None = None, **request: Any
) -> Run:
    """A run that trains elsewhere, of a request with these fields."""
    return track_run(TrackRequest(**request), user=user, project=project, idempotency_key=idempotency_key).run
