"""What the worker does every round beside runs: alerts, imports, logs, and cleaning up, by one worker at a time.

Imports that wait, of people and of the example project: a turn is wished for them again where a hint was lost.

Keeping what jobs print, a little after they print it.
"""

from webapp.base import task_queue
from webapp.base.claims import only_one
from webapp.interfaces.imports import claims, example
from webapp.interfaces.imports import services as imports
from webapp.record.artifacts import store as artifacts
from webapp.record.logs.services import follow
from webapp.record.retention import services
from webapp.record.runs.editing import purge
from webapp.reporting.alerts import delivery, firing
from webapp.reporting.alerts.models import Delivery
from webapp.reporting.alerts.rules import ensure_for_everybody
from worker import names
from worker.followup import claim_turn

ADVISORY_LOCK = 0x48434C4E  # "HCLN"
DISK_MS = 20_000


def fire_wanted() -> int:
    """Fire rules on the runs that changed; returns how many runs were looked at."""
    ensure_for_everybody()
    return firing.check_changed()


def deliver_wanted() -> int:
    """Ask for a sender where something is due; returns how much. Sending waits for others: it is no part of a round."""
    delivery.drop_old()
    if due := Delivery.objects.filter(delivery.due()).count():
        task_queue.send(names.DELIVER)
    return due


def wish_turns() -> int:
    """Ask for a turn where an import waits for one; returns how many wait."""
    if waiting := claims.waiting():
        task_queue.send(names.IMPORT)
    return waiting


def wish_example() -> int:
    """Ask for the example project where it is still to come; 1 where it is."""
    if wanted := example.is_wanted():
        task_queue.send(names.EXAMPLE)
    return int(wanted)


def keep_logs() -> int:
    """Bring the stored logs up to date; returns how many changed."""
    return follow()


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
    return int(claim_turn("disk", "all", DISK_MS) == 0 and services.watch_disk())
