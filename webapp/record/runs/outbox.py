"""What is wished for at Ray, as rows that the worker sees to, and the one gate of every attempt: room on the disk.

What a person wants now is refused while there is no room (`submit`). What waits already, such as a retry, is held back
by the worker and goes on by itself (`why_held`).

The words for a run that is asked to stop, and for one that has: who wanted it, and why.
"""

from webapp.base import task_queue
from webapp.base.disk import Disk, bytes_in_words, disk_now, low_words
from webapp.base.errors import NoRoom
from webapp.record.runs.models import Dispatch, Run
from worker import names

WAITS = "; waits for its job to stop."


def submit(run: Run, attempt: int) -> None:
    """Have the attempt handed to Ray; part of the caller's transaction. Raises NoRoom, with the figures, where the
    checkpoints that it would write have none."""
    if why := why_refused():
        raise NoRoom(why)
    _want(run, Dispatch.Kind.SUBMIT, attempt)


def stop(run: Run, attempt: int) -> None:
    """Have the attempt's job stopped; part of the caller's transaction."""
    _want(run, Dispatch.Kind.STOP, attempt)


def why_refused() -> str:
    """Why nobody can launch or resume anything now, with the figures; empty where there is room."""
    return "" if (disk := _low_disk()) is None else low_words(disk)


def why_held() -> str:
    """Why no attempt is handed to Ray now, in words that stay the same while it lasts; empty where there is room, or
    the disk does not answer."""
    if (disk := _low_disk()) is None:
        return ""
    return f"waits for room on the disk of HEADROOM_HOME: {bytes_in_words(disk.least)} must stay free"


def _low_disk() -> Disk | None:
    """None where there is room, or the disk does not answer."""
    disk = disk_now()
    return disk if disk is not None and disk.is_low else None


def _want(run: Run, kind: Dispatch.Kind, attempt: int) -> None:
    Dispatch.objects.get_or_create(run=run, attempt=attempt, kind=kind, defaults=task_queue.columns())
    task_queue.send(names.DISPATCH, run.pk)


def while_waiting(by: str) -> str:
    """`by`: who or what stopped it, without a full stop or a semicolon."""
    return by + WAITS


def once_stopped(reason: str) -> str:
    """The same from the reason of the run that was stopping; empty where it had none."""
    by = reason.removesuffix(WAITS).rstrip(".")
    return f"{by}." if by else ""
