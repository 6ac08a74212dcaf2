"""How long a thread of the client waits before it tries again."""

import random
import threading
import time

FIRST_SECONDS, LONGEST_SECONDS = 0.5, 30.0
FIRST_CLOSING_SECONDS, LONGEST_CLOSING_SECONDS = 0.3, 5.0  # while `finish` waits


class Backoff:
    """Pauses that grow with each failure in a row. One that is under way ends when `closing` is set; later ones are
    short."""

    def __init__(self, closing: threading.Event) -> None:
        self._closing = closing
        self._failures = self._closing_failures = 0

    def pause(self, at_least_seconds: float = 0.0) -> None:
        """After a failure; the server may ask for more time."""
        self._failures += 1
        if self._closing.is_set():
            time.sleep(min(FIRST_CLOSING_SECONDS * 1.2**self._closing_failures, LONGEST_CLOSING_SECONDS))
            self._closing_failures += 1
            return
        grown = FIRST_SECONDS * 2 ** min(self._failures - 1, 10)
        seconds = min(max(grown, at_least_seconds), LONGEST_SECONDS)
        self._closing.wait(seconds * random.uniform(0.7, 1.0))  # nosec B311  # spreads retries

    def note_success(self) -> bool:
        """Whether it failed before."""
        failed, self._failures = self._failures > 0, 0
        return failed
