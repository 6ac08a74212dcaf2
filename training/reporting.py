"""Where a run's records go: the tracking client's journal and, where there is a server, the server."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import headroom

JOURNAL = "metrics.jsonl"


class Reporter(Protocol):
    """What the driver needs of the client."""

    def log(
        self, metrics: Mapping[str, float], *, step: int, compute: Mapping[str, float] | None = None
    ) -> None:
        """One record: on disk when this returns."""

    def finish(
        self,
        state: str = "succeeded",
        message: str = "",
        timeout: float = 10,
        *,
        infrastructure: bool = False,
    ) -> bool:
        """How the run ended."""


def open_reporter(run_dir: Path, *, resumed_from_step: int | None, device: str) -> Reporter:
    """The client, journalling to `run_dir`. HEADROOM_URL, _RUN, _ATTEMPT and _TOKEN_FILE say the rest."""
    return headroom.init(journal=run_dir / JOURNAL, resumed_from_step=resumed_from_step, device=device)
