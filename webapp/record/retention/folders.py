"""Checkpoints of a run as they lie in its folder, and taking them away. `training.checkpoints` says how they are named.

Taking away is a rename into a folder of the same file system, at once or not at all; deleting what is there takes its
time, and may be interrupted.

Which checkpoints of an ended run may go. Pure: of what lies in its folder, its end, and the policy.

Copies in the checkpoint store (`training.checkpoint_store`) of what the clean-up has taken out of run folders.

Stored logs and responses of runs that ended long ago: what is kept of them, and taking the rest away.
"""

import logging
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db.models import QuerySet

from training.checkpoint_store import open_store
from training.checkpoints import MARKER, CheckpointError
from webapp.identity.accounts.models import Project
from webapp.record.logs.models import JobLog
from webapp.record.retention.models import RetentionPolicy
from webapp.record.runs.models import Run, State
from webapp.record.runs.states import ENDED
from webapp.record.samples.models import SampleFile
from webapp.record.samples.store import remove_file

REMOVED = ".removed"
NAME = re.compile(r"step-(\d{1,12})(?:\.(\d{1,6}))?")
LEFT_OVER = re.compile(r"\..*\.partial|(damaged|stale)-step-.*")
KEEP_TAG = "keep"  # a run with this tag loses nothing
GRACE = timedelta(hours=1)  # after the end: whoever watches it may resume it at once
LOST_GRACE = timedelta(days=1)  # a lost run may still be at work somewhere


@dataclass(frozen=True)
class Kept:
    """A checkpoint, or (`step` None) what a dead attempt left half written or a resume set aside as damaged."""

    folder: Path
    step: int | None
    place: tuple[int, int]  # in the order of writing
    size: int  # bytes


def runs_folder() -> Path:
    """Where each run has a folder of its id."""
    return Path(settings.HEADROOM_HOME) / "runs"


def checkpoints_of(run_id: str) -> list[Kept]:
    """Everything in the run's folder of checkpoints, oldest first. Raises OSError where it cannot be read."""
    root = runs_folder() / run_id / "checkpoints"
    try:
        entries = list(os.scandir(root))
    except FileNotFoundError:
        return []
    found = [kept for entry in entries if (kept := _kept(entry)) is not None]
    return sorted(found, key=lambda one: one.place)


def _kept(entry: "os.DirEntry[str]") -> Kept | None:
    if not entry.is_dir(follow_symlinks=False):
        return None
    match = NAME.fullmatch(entry.name)
    folder = Path(entry.path)
    if match is not None and (folder / MARKER).exists():
        step = int(match[1])
        return Kept(folder, step, (step, int(match[2] or 1)), size_of(folder))
    if match is not None or LEFT_OVER.fullmatch(entry.name):
        return Kept(folder, None, (-1, 0), size_of(folder))
    return None


def size_of(folder: Path) -> int:
    """Bytes of all files in it; what vanishes meanwhile counts nothing."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total


def newest_change(run_id: str) -> float:
    """When something was last written into the run's folder of checkpoints, in seconds since 1970; 0: never."""
    try:
        return (runs_folder() / run_id / "checkpoints").stat().st_mtime
    except OSError:
        return 0.0


def take_away(run_id: str, kept: Kept) -> Path:
    """Out of the run's folder, for `delete_taken`. Raises OSError."""
    trash = runs_folder() / REMOVED
    trash.mkdir(exist_ok=True)
    place = trash / f"{run_id}-{kept.folder.name.lstrip('.')}"
    number = 1
    while place.exists():
        number += 1
        place = trash / f"{run_id}-{kept.folder.name.lstrip('.')}-{number}"
    return kept.folder.rename(place)


def remove_logs(run_id: str) -> None:
    """Copies of its jobs' output (`training.log_copy`), which stay only where an attempt was lost, and the lines that
    its drivers wrote as JSON (`observability.logs`)."""
    for pattern in ("attempt-*.log", "attempt-*.jsonl"):
        for path in (runs_folder() / run_id).glob(pattern):
            path.unlink(missing_ok=True)


def taken_away() -> Iterator[Path]:
    """What is still to be deleted, also after a worker that died at it."""
    trash = runs_folder() / REMOVED
    return iter(sorted(trash.iterdir())) if trash.is_dir() else iter(())


def empty(folder: Path) -> None:
    """Delete all that it holds but its marker, by which its copy in a checkpoint store is known. Raises OSError."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != MARKER:
            entry.unlink(missing_ok=True)


def delete(folder: Path) -> None:
    """With all that is in it; what cannot be deleted now stays for the next time."""
    shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Going:
    """A checkpoint that goes, and why, in words."""

    kept: Kept
    why: str


def is_protected(run: Run) -> bool:
    """By its tag, or by a prediction that rests on it: `selectors.ended_runs` says that."""
    return KEEP_TAG in run.tags or bool(getattr(run, "is_predicted", False))


def going(
    run: Run, found: Sequence[Kept], policy: RetentionPolicy, now: datetime, *, is_low: bool
) -> list[Going]:
    """What of a run of `selectors.ended_runs` goes now, oldest first. `is_low`: the disk is, and the policy may hurry.

    The newest checkpoint of a run that succeeded never goes; of others it stays until their days are over, and under
    pressure, too, so that they can be resumed.
    """
    grace = LOST_GRACE if run.state == State.LOST else GRACE
    if run.ended_at is None or is_protected(run) or now - run.ended_at < grace:
        return []
    whole = [kept for kept in found if kept.step is not None]
    is_over = now - run.ended_at >= timedelta(days=policy.checkpoint_days)
    if is_over:
        days = "a day" if policy.checkpoint_days == 1 else f"{policy.checkpoint_days} days"
        staying, why = 0, f"ended more than {days} ago"
    elif is_low and policy.under_pressure:
        staying, why = 1, "the disk is low"
    else:
        staying, why = policy.keep_newest, f"not among the newest {policy.keep_newest}"
    if run.state == State.SUCCEEDED:
        staying = max(1, staying)
    gone = whole[: len(whole) - staying] if staying else whole
    rest = [Going(kept, "half written or damaged") for kept in found if kept.step is None]
    return rest + [Going(kept, why) for kept in gone]


def could_ever_go(run: Run, left: Sequence[Kept]) -> bool:
    """Whether looking again later can find anything."""
    whole = [kept for kept in left if kept.step is not None]
    return len(whole) < len(left) or len(whole) > (1 if run.state == State.SUCCEEDED else 0)


log = logging.getLogger(__name__)

TAKEN = re.compile(r"(?P<run>.+?)-(?P<name>step-\d+(?:\.\d+)?)(?:-\d+)?")  # as `folders.take_away` names them


def remove_copy(folder: Path) -> bool:
    """Remove the store's copy of what `folder` was, which still has its marker; False: the store has to be asked again.

    A run that goes on meanwhile is left alone: its driver keeps the store as it keeps its folder.
    """
    found = TAKEN.fullmatch(folder.name)
    if found is None or not Run.objects.filter(pk=found["run"], state__in=ENDED).exists():
        return True
    try:
        if (store := open_store(found["run"])) is None:
            return True
        there = store.marker(found["name"])
        if there is None or there == _marker(
            folder
        ):  # without one: half of it, of a removal that was interrupted
            store.remove(found["name"])
    except CheckpointError as error:
        log.warning("the copy of %s of run %s stays for now: %s", found["name"], found["run"], error)
        return False
    return True


def _marker(folder: Path) -> bytes:
    try:
        return (folder / MARKER).read_bytes()
    except OSError:
        return b""


MOST_FILES = 200  # at a time
MOST_LOGS = 200  # at a time


def old_samples(project: Project, policy: RetentionPolicy, now: datetime) -> QuerySet[SampleFile]:
    """Those that the policy lets go, of runs that ended as long ago as logs that go; none with `log_days` 0. Not of a
    run on which a prediction rests, nor with the tag."""
    if not policy.log_days:
        return SampleFile.objects.none()
    before = now - timedelta(days=policy.log_days)
    found = SampleFile.objects.filter(
        run__project=project,
        run__state__in=ENDED,
        run__ended_at__lt=before,
        size__gt=0,
        run__predictions=None,
    )
    return found.exclude(run__tags__contains=[KEEP_TAG])


def drop_old_samples(project: Project, policy: RetentionPolicy, now: datetime) -> int:
    """Remove the files of some of them; returns how many."""
    found = list(old_samples(project, policy, now).only("run_id", "kind", "step")[:MOST_FILES])
    for file in found:
        remove_file(file.run_id, file.kind, file.step)
    return SampleFile.objects.filter(pk__in=[file.pk for file in found]).update(size=0)


def old_logs(project: Project, policy: RetentionPolicy, now: datetime) -> QuerySet[JobLog]:
    """Those that the policy lets go; none with `log_days` 0."""
    if not policy.log_days:
        return JobLog.objects.none()
    before = now - timedelta(days=policy.log_days)
    found = JobLog.objects.filter(
        attempt__run__project=project, attempt__state__in=ENDED, attempt__ended_at__lt=before, closed_at__isnull=False,
        lines__gt=0, attempt__run__predictions=None,
    )  # fmt: skip
    return found.exclude(attempt__run__tags__contains=[KEEP_TAG])


def drop_old_logs(project: Project, policy: RetentionPolicy, now: datetime) -> int:
    """Delete some of them; returns how many. The row stays, empty, so that they are not read anew."""
    ids = list(old_logs(project, policy, now).values_list("pk", flat=True)[:MOST_LOGS])
    for row in JobLog.objects.filter(pk__in=ids):
        row.chunks.all().delete()
    return JobLog.objects.filter(pk__in=ids).update(lines=0, size=0)
