"""Jobs beside runs that take devices, too: they wait in the same queue, by the same rules.

Their packages import this one: each says here where its jobs are found.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from webapp.record.runs.admission.parts import AtWork, Bundles, Queued, Span


@dataclass(frozen=True)
class Guest:
    """A job that waits or is at work. `has_begun`: Ray has given it its devices. How long it lasts is not known, and
    its device-hours count for no share."""

    job: str
    name: str
    project_id: int
    priority: int
    bundles: Bundles
    made_at: datetime
    is_queued: bool
    has_begun: bool = False
    is_stopping: bool = False
    budget_hours: float | None = None
    used_hours: float | None = None

    def queued(self) -> Queued:
        """In the queue."""
        return Queued(self.job, self.project_id, self.priority, self.made_at, self.made_at, 0.0, self.bundles)

    def at_work(self, stopping: Span) -> AtWork:
        """On the cluster; `stopping`: how long one lasts that is to stop."""
        return AtWork(
            self.job, self.project_id, self.priority, self.bundles, left=stopping if self.is_stopping else Span(),
            has_begun=self.has_begun, is_stopping=self.is_stopping,
        )  # fmt: skip


SOURCES: list[Callable[[], Sequence[Guest]]] = []


def guests() -> list[Guest]:
    """All of them. A query for each source."""
    return [guest for source in SOURCES for guest in source()]
