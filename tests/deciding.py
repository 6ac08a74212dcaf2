"""Decisions for tests, through the service that pages and API use."""

from collections.abc import Sequence
from typing import Any

from webapp.identity.accounts.models import Project, User
from webapp.record.runs.models import Run
from webapp.science.decisions.models import Decision
from webapp.science.decisions.services import decide


def decided(
    *,
    user: User,
    project: Project,
    runs: Sequence[Run],
    to_run: Run | None = None,
    key: str | None = None,
    **said: Any,
) -> Decision:
    """What is decided of the runs; `said` are fields of a decision."""
    return decide(Decision(**said), runs, to_run, user=user, project=project, key=key)
