"""One stack per HEADROOM_HOME: the lock that the supervisor and all its children hold."""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

LEFTOVER_SECONDS = 20.0  # the children of a killed supervisor end by themselves within this time


class AlreadyRunning(RuntimeError):
    """Another stack uses the same folder."""


def lock_home(home: Path, say: Callable[[str], None], *, patience: float = LEFTOVER_SECONDS) -> int:
    """Lock `home`; the descriptor that holds the lock. Raises AlreadyRunning.

    flock, since children inherit it: the lock is free when the last process of a stack is gone, even where its
    supervisor was killed.
    """
    path = home / "up.lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience
    told = False
    while not _try_lock(lock):
        owner = os.pread(lock, 200, 0).decode().strip()
        if (owner.isdigit() and psutil.pid_exists(int(owner))) or time.monotonic() > deadline:
            os.close(lock)
            raise AlreadyRunning(f"Headroom is already running on {home} (process {owner or 'unknown'})")
        if not told:
            say(f"waiting for what is left of process {owner} to end")
            told = True
        time.sleep(0.2)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
