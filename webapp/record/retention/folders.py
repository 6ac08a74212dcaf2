"""Checkpoints of a run as they lie in its folder, and taking them away. `training.checkpoints` says how they are named.

Taking away is a rename into a folder of the same file system, at once or not at all; deleting what is there takes its
time, and may be interrupted.

Which checkpoints of an ended run may go. Pure: of what lies in its folder, its end, and the policy.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings

from training.checkpoints import MARKER
from webapp.record.retention.models import RetentionPolicy
from webapp.record.runs.models import State

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
class Ended:
    """What of a run decides."""

    state: str
    ended_at: datetime
    is_protected: bool  # by its tag, or by a prediction that rests on it


@dataclass(frozen=True)
class Going:
    """A checkpoint that goes, and why, in words."""

    kept: Kept
    why: str


def going(
    run: Ended, found: Sequence[Kept], policy: RetentionPolicy, now: datetime, *, is_low: bool
) -> list[Going]:
    """What goes now, oldest first. `is_low`: the disk is, and the policy may hurry.

    The newest checkpoint of a run that succeeded never goes; of others it stays until their days are over, and under
    pressure, too, so that they can be resumed.
    """
    if run.is_protected or now - run.ended_at < (LOST_GRACE if run.state == State.LOST else GRACE):
        return []
    whole = [kept for kept in found if kept.step is not None]
    is_over = now - run.ended_at >= timedelta(days=policy.checkpoint_days)
    if is_over:
        staying, why = 0, f"ended more than {policy.checkpoint_days} days ago"
    elif is_low and policy.under_pressure:
        staying, why = 1, "the disk is low"
    else:
        staying, why = policy.keep_newest, f"not among the newest {policy.keep_newest}"
    if run.state == State.SUCCEEDED:
        staying = max(1, staying)
    gone = whole[: len(whole) - staying] if staying else whole
    rest = [Going(kept, "half written or damaged") for kept in found if kept.step is None]
    return rest + [Going(kept, why) for kept in gone]


def could_ever_go(run: Ended, left: Sequence[Kept]) -> bool:
    """Whether looking again later can find anything."""
    whole = [kept for kept in left if kept.step is not None]
    return len(whole) < len(left) or len(whole) > (1 if run.state == State.SUCCEEDED else 0)
