"""Private folders of sandboxes, and the removal of those whose owner was killed.

Each holds a file that its owner keeps locked. The kernel gives the lock up when the owner ends, however it ends, so a
folder whose file can be locked belongs to nobody; process ids would not say so across containers that share /tmp.
"""

import fcntl
import functools
import logging
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

log = logging.getLogger("training")

PREFIX = "headroom-sandbox-"
OWNER = "owner"
BEING_MADE_SECONDS = 60.0  # a folder this young may not have its lock yet


def new_folder() -> tuple[Path, int]:
    """(a private folder in the system's temporary one, the open file that keeps it owned: close it at the end)."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    owner = os.open(folder / OWNER, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    with suppress(
        OSError
    ):  # a file system without locks: nobody will think it abandoned, or have a lock either
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return folder, owner


def remove_abandoned(root: Path, spare_seconds: float = BEING_MADE_SECONDS) -> int:
    """Remove this user's sandbox folders in `root` that nobody owns, but for those made just now. Returns how many."""
    removed = 0
    for folder in root.glob(f"{PREFIX}*"):
        with suppress(OSError):
            about = folder.stat(follow_symlinks=False)
            is_ours = about.st_uid == os.geteuid() and not folder.is_symlink()
            if is_ours and time.time() - about.st_ctime >= spare_seconds and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
    return removed


@functools.cache
def remove_abandoned_once() -> None:
    """`remove_abandoned` of the system's temporary folder, at the first call in a process."""
    if removed := remove_abandoned(Path(tempfile.gettempdir())):
        log.info("removed %d sandbox folders of processes that were killed", removed)


def _is_abandoned(folder: Path) -> bool:
    try:
        owner = os.open(folder / OWNER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:  # killed before it had one
        return True
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(owner)
