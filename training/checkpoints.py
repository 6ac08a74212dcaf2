"""Checkpoints: one folder a step, complete when its marker is there. Half a write is never read."""

import json
import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARKER = "COMPLETE"
TRAINER_FILE = "trainer.pt"
DRIVER_FILE = "driver.json"


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint."""

    folder: Path
    step: int
    driver: dict[str, Any]

    @property
    def trainer_file(self) -> str:
        """What `Trainer.load` reads."""
        return str(self.folder / TRAINER_FILE)


async def write_checkpoint(
    root: Path,
    step: int,
    driver: dict[str, Any],
    save_trainer: Callable[[str], Awaitable[None]],
    *,
    keep: int,
) -> Path:
    """Write `root/step-N` (trainer's part, driver's part, marker last), then drop all but the newest `keep`."""
    folder = root / f"step-{step:08d}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    await save_trainer(str(folder / TRAINER_FILE))
    (folder / DRIVER_FILE).write_text(json.dumps(driver))
    for name in (TRAINER_FILE, DRIVER_FILE):
        _flush(folder / name)
    (folder / MARKER).touch()
    _flush(folder)
    for old in _complete(root)[:-keep]:
        (old / MARKER).unlink()
        shutil.rmtree(old)
    return folder


def newest_checkpoint(root: Path) -> Checkpoint | None:
    """The complete checkpoint with the highest step, or None."""
    complete = _complete(root)
    if not complete:
        return None
    folder = complete[-1]
    driver = json.loads((folder / DRIVER_FILE).read_text())
    return Checkpoint(folder, int(folder.name.removeprefix("step-")), driver)


def _complete(root: Path) -> list[Path]:
    return sorted(marker.parent for marker in root.glob(f"step-*/{MARKER}"))


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
