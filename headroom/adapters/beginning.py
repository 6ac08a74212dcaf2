"""How an adapter begins a run: a trainer that has been started is not ended because a server is away.

Device-hours of a trainer that does not count them: devices x the time of its steps.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from headroom.beginning import init
from headroom.run import Run
from headroom.server import ServerError
from headroom.warned import log

JOURNAL = "headroom.jsonl"


def begin(settings: Mapping[str, Any]) -> Run:
    """`headroom.init`; offline where the server refuses to make the run. Raises what `init` does otherwise."""
    try:
        return init(**settings)
    except ServerError as error:
        log.warning("headroom: %s; this run is journalled offline, `python -m headroom sync` sends it", error)
        return init(**{**settings, "mode": "offline"})


class StepClock:
    """Runs while a step does, so that evaluation, checkpoints and pauses between steps are not counted."""

    def __init__(self, devices: int, hours: float = 0.0, now: Callable[[], float] = time.monotonic) -> None:
        self._devices, self._hours, self._now = devices, hours, now
        self._since: float | None = None

    def start(self) -> None:
        """A step begins; nothing where one is under way."""
        if self._since is None:
            self._since = self._now()

    def stop(self) -> None:
        if self._since is not None:
            self.add(self._now() - self._since)
            self._since = None

    def add(self, seconds: float) -> None:
        """Time of a step that somebody else measured."""
        self._hours += self._devices * seconds / 3600

    @property
    def device_hours(self) -> float:
        """Of the steps that have ended."""
        return self._hours
