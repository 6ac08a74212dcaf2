"""Where a run's records go: the tracking client's journal and, where there is a server, the server."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import headroom

JOURNAL = "metrics.jsonl"


class Reporter(Protocol):
    """What the driver needs of the client."""

    def log(
        self, metrics: Mapping[str, float], *, step: int, compute: Mapping[str, float] | None = None
    ) -> None:
        """One record: on disk when this returns."""

    def log_system(self, figures: Mapping[str, float]) -> None:
        """What machines do (`headroom.system`), at the newest step."""

    def log_samples(self, step: int, rows: Sequence[Mapping[str, Any]], *, kind: str = "train") -> None:
        """Responses of a step: on disk when this returns."""

    def finish(
        self,
        state: str = "succeeded",
        message: str = "",
        timeout: float = 10,
        *,
        infrastructure: bool = False,
    ) -> headroom.Finished:
        """How the run ended, and whether the server knows all of it yet. A second call only waits again."""


def open_reporter(run_dir: Path, *, resume: bool, resumed_from_step: int | None, device: str) -> Reporter:
    """The client, journalling to `run_dir`. HEADROOM_URL, _RUN, _ATTEMPT and _TOKEN_FILE say the rest.

    A resume without a checkpoint (None) begins anew: nothing that earlier attempts reported counts any more.
    """
    return headroom.init(
        journal=run_dir / JOURNAL,
        resumed_from_step=resumed_from_step,
        restarted=resume,
        device=device,
        system_metrics=False,  # `training.cluster.machines` looks at all machines of the run
    )
