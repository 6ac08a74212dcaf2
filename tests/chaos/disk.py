"""A small disk for the run's folder, which can be filled: a tmpfs over HOME/runs, for which one must be root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SIZE_MIB = 64
BLOCK = 1 << 20


class SmallDisk:
    """A mounted one."""

    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave no byte."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (BLOCK, 4096, 1):
                with suppress(OSError):
                    while file.write(b"\0" * size) == size:
                        pass

    def free(self) -> None:
        """Give everything back. Safe to repeat."""
        self._filler.unlink(missing_ok=True)


def why_not() -> str:
    """Why this machine cannot have one; empty where it can."""
    return "" if os.geteuid() == 0 else "a small disk is a mount, and only root mounts"


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Mounted over `folder` inside the block. Raises CalledProcessError where the kernel does not allow it."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={SIZE_MIB}m,mode=0755"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "headroom-chaos", str(folder)], check=True)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
