"""Room on the disk of HEADROOM_HOME, where checkpoints, models and journals go."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass

from django.conf import settings

from webapp.base.errors import InvalidInput

SECONDS = 1.0  # a file system over the network may hang
_asker = ThreadPoolExecutor(max_workers=2, thread_name_prefix="disk")


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
    except (OSError, TooLate):
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
        free = bytes_in_words(disk.free)
        raise InvalidInput(
            field, f"The disk of this server has no room for these files: {free} are free.", status=507
        )
