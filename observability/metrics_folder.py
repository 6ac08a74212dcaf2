"""Where the processes of one machine keep what they counted, so that each can answer for all of them.

prometheus_client reads PROMETHEUS_MULTIPROC_DIR when it is imported: `own_folder` comes before that.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def own_folder() -> str:
    """The folder of this process and those that it forks: the variable's, else a new one, which ends with it.

    It must be on a disk of the machine, and no process of another machine or container may write there.
    """
    if not os.environ.get(VARIABLE):
        os.environ[VARIABLE] = tempfile.mkdtemp(prefix="headroom-metrics-")
        atexit.register(_remove, os.environ[VARIABLE], os.getpid())
    return os.environ[VARIABLE]


def fresh(folder: Path) -> Path:
    """An empty one: what processes of an earlier start counted is over."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    return folder


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:  # not a child that ends
        shutil.rmtree(folder, ignore_errors=True)
