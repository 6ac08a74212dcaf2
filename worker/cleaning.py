"""Cleaning up and watching the disk, by one worker at a time."""

from django.db import connection

from webapp.interfaces.imports import services as imports
from webapp.record.artifacts import store as artifacts
from webapp.record.retention import services
from webapp.record.runs.deleting import purge
from worker.turns import claim_turn

ADVISORY_LOCK = 0x48434C4E  # "HCLN"
DISK_MS = 20_000


def clean_up_alone() -> int:
    """One step of the clean-up; returns how many checkpoints went, 0 also where another worker is at it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [ADVISORY_LOCK])
        (alone,) = cursor.fetchone()
        if not alone:
            return 0
        try:
            count = services.clean_up()
            imports.clean_up()
            purge()
            artifacts.clean_up()
            return count
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [ADVISORY_LOCK])


def watch_disk_now() -> int:
    """Look at the disk every 20 s; 1 where it is low."""
    if claim_turn("disk", "all", DISK_MS) != 0:
        return 0
    return int(services.watch_disk())
