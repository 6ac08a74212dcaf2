"""Room on the disk of HEADROOM_HOME, where checkpoints, models and journals go.

Files that people carry away: there under their names when they are whole, and for their owner's eyes only.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from webapp.base.errors import InvalidInput

SECONDS = 1.0  # a file system over the network may hang
_asker = ThreadPoolExecutor(max_workers=2, thread_name_prefix="disk")
# Web server and worker of different deployments do not quite understand each other: which code a process runs.
PACKAGES = ("observability", "scaling", "training", "webapp", "worker")
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Disk:
    """Bytes; `least` must stay free."""

    free: int
    total: int
    least: int

    @property
    def is_low(self) -> bool:
        return self.free < self.least


def disk_now() -> Disk | None:
    """Free and total bytes, asked with a time-out; None where there is no answer."""
    try:
        usage = _asker.submit(shutil.disk_usage, settings.HEADROOM_HOME).result(SECONDS)
    except OSError:  # a time-out is one, too
        return None
    return Disk(usage.free, usage.total, least_free(usage.total))


def least_free(total: int) -> int:
    """The bytes that must stay free: HEADROOM_MIN_FREE_BYTES, or HEADROOM_MIN_FREE_PERCENT of the disk if more."""
    return max(settings.MIN_FREE_BYTES, int(total * settings.MIN_FREE_PERCENT / 100))


def bytes_in_words(size: float) -> str:
    """ "512 MiB", "1.5 GiB", "12.3 TiB"."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.3g} TiB" if size < 1000 else f"{size:,.0f} TiB"


def low_words(disk: Disk) -> str:
    """What a low disk means."""
    return (
        f"Only {bytes_in_words(disk.free)} are free on the disk of HEADROOM_HOME, and {bytes_in_words(disk.least)} "
        "must stay free: nothing is launched until there is room."
    )


def check_room(size: int, field: str) -> None:
    """Raises InvalidInput (field, 507) where the disk would be low with so many bytes more."""
    disk = disk_now()
    if disk is not None and disk.free - size < disk.least:
        said = f"The disk of this server has no room for these files: {bytes_in_words(disk.free)} are free."
        raise InvalidInput(field, said, status=507)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """What is written has reached the disk when the name appears; where that fails, nothing is left. Raises OSError."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def code_version() -> str:
    """The digest (10 characters) of all modules that web server and worker share. Ask early: files may change later."""
    found = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:10]
