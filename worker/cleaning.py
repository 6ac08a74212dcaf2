"""Cleaning up and watching the disk, by one worker at a time."""

from webapp.base.advisory_locks import only_one
from webapp.interfaces.imports import services as imports
from webapp.record.artifacts import store as artifacts
from webapp.record.retention import services
from webapp.record.runs.deleting import purge
from worker.turns import claim_turn

ADVISORY_LOCK = 0x48434C4E  # "HCLN"
DISK_MS = 20_000


def clean_up_alone() -> int:
    """One step of the clean-up; returns how many checkpoints went, 0 also where another worker is at it."""
    with only_one(ADVISORY_LOCK) as alone:
        if not alone:
            return 0
        count = services.clean_up()
        imports.clean_up()
        purge()
        artifacts.clean_up()
        artifacts.move_to_store()
        return count


def watch_disk_now() -> int:
    """Look at the disk every 20 s; 1 where it is low."""
    if claim_turn("disk", "all", DISK_MS) != 0:
        return 0
    return int(services.watch_disk())
