"""Copies the driver's own output into its run's folder, which survives the driver's node.

Ray opens a file on the node for a job's output and hands it over as standard output. A thread of the driver reads that
file and appends what is new to `attempt-N.log` in the run's folder, which the server's machine sees as well: no message
waits in memory, a server that is away costs nothing, and a folder that is slow or full delays the copy, never the
training. A driver that is killed (-9) leaves the last half second to Ray's own copy.
"""

import atexit
import logging
import os
import stat
import threading
from pathlib import Path

log = logging.getLogger("training")

INTERVAL_SECONDS = 0.5
PIECE_BYTES = 256 * 1024
MOST_BYTES = 256 * 1024 * 1024  # a log that grows beyond this is not copied further
CLOSING_SECONDS = 3.0


def file_name(attempt: int) -> str:
    """Name of the copy in the run's folder."""
    return f"attempt-{attempt}.log"


class LogCopy:
    """Appends what `source` grows by to `target`. The target's size is how far it got, so a restart goes on there."""

    def __init__(self, source: Path, target: Path, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._source, self._target, self._interval = source, target, interval_seconds
        self._ending = threading.Event()
        self._has_warned = False
        self._thread = threading.Thread(target=self._loop, name="log-copy", daemon=True)
        self._thread.start()

    def close(self, timeout_seconds: float = CLOSING_SECONDS) -> None:
        """Copy what is left, within this time. Safe to repeat."""
        self._ending.set()
        self._thread.join(timeout_seconds)

    def _loop(self) -> None:
        while not self._ending.wait(self._interval):
            self._guarded_copy()
        self._guarded_copy()

    def _guarded_copy(self) -> None:
        try:
            descriptor = os.open(self._target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with self._source.open("rb") as source, os.fdopen(descriptor, "ab") as target:
                source.seek(target.seek(0, os.SEEK_END))
                while target.tell() < MOST_BYTES and (piece := source.read(PIECE_BYTES)):
                    target.write(piece)
        except OSError as error:  # the folder is full or away: the next round tries again
            if not self._has_warned:
                self._has_warned = True
                log.warning("the log is not copied to %s for now: %s", self._target, error)


def copy_output(run_dir: Path) -> LogCopy | None:
    """Begin to copy, where this process is a job of a server and its output is a file; else None."""
    attempt = os.environ.get("HEADROOM_ATTEMPT", "")
    if not attempt.isdecimal() or not _is_file(1):
        return None
    try:
        source = Path(os.readlink("/proc/self/fd/1"))
        run_dir.mkdir(parents=True, exist_ok=True)
    except OSError:  # no such thing on this system
        return None
    copy = LogCopy(source, run_dir / file_name(int(attempt)))
    atexit.register(copy.close)
    return copy


def _is_file(descriptor: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        return False
