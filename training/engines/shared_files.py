"""Buckets of weights as files in shared memory: how they get from an engine to its worker processes."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from training.transfer import Bucket, Slot, map_file, tensors_in

SHARED_MEMORY = Path("/dev/shm")  # nosec B108  # the kernel's folder of shared memory


@contextmanager
def as_files(
    buckets: list[Bucket], folder: Path = SHARED_MEMORY
) -> Iterator[list[tuple[str, list[list[Any]]]]]:
    """(path, slots) of each bucket while the context lasts; slots as plain lists, in the order of Slot's fields.

    Where `folder` is not there or has no room, the files lie in the system's temporary folder.
    """
    with tempfile.TemporaryDirectory(dir=folder if _has_room(folder, buckets) else None) as made:
        files = []
        for number, bucket in enumerate(buckets):
            path = os.path.join(made, str(number))
            bucket.data.tofile(path)
            slots = [[slot.name, slot.dtype, list(slot.shape), slot.offset] for slot in bucket.slots]
            files.append((path, slots))
        yield files


def in_files(files: Iterable[tuple[str, list[list[Any]]]]) -> Iterator[tuple[str, Tensor]]:
    """The (name, tensor) pairs of what `as_files` gave, mapped into memory and not copied."""
    for path, slots in files:
        yield from tensors_in(map_file(path), [Slot(name, kind, tuple(n), at) for name, kind, n, at in slots])


def _has_room(folder: Path, buckets: list[Bucket]) -> bool:
    try:
        return shutil.disk_usage(folder).free > 2 * sum(bucket.data.nbytes for bucket in buckets)
    except OSError:
        return False
