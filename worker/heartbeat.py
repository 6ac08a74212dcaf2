"""A worker says every ten seconds that it lives, in PostgreSQL: so that it is known also while the broker is away."""

import logging
import os
import socket
import threading
from collections.abc import Callable
from datetime import datetime

from django.db import connection
from django.utils import timezone

from webapp.base.disk import code_version
from webapp.record.health import services

log = logging.getLogger(__name__)
EVERY_SECONDS = 10.0


class Heartbeat:
    """A thread of the worker's main process, which no task can hold up."""

    def __init__(self, every_seconds: float = EVERY_SECONDS) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._every = every_seconds
        self._version, self._started_at = code_version(), timezone.now()
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._loop, args=(self._started_at,), name="heartbeat", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The worker ends on purpose: nobody misses it."""
        self._ended.set()
        self._thread.join(5)

    def _loop(self, started_at: datetime) -> None:
        while True:
            self._guarded(
                lambda: services.worker_lives(
                    self.name, host=socket.gethostname(), version=self._version, started_at=started_at
                )
            )
            if self._ended.wait(self._every):
                self._guarded(lambda: services.worker_ends(self.name))
                return

    def _guarded(self, step: Callable[[], None]) -> None:
        """No connection is kept between two beats: a database that was restarted is simply connected to again."""
        try:
            step()
        except Exception as error:
            log.warning("the worker's sign of life was not stored: %s", type(error).__name__)
        finally:
            connection.close()
