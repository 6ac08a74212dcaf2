"""Which checkpoints of an ended run may go. Pure: of what lies in its folder, its end, and the policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from webapp.record.retention.folders import Kept
from webapp.record.retention.models import RetentionPolicy
from webapp.record.runs.models import State

KEEP_TAG = "keep"  # a run with this tag loses nothing
GRACE = timedelta(hours=1)  # after the end: whoever watches it may resume it at once
LOST_GRACE = timedelta(days=1)  # a lost run may still be at work somewhere


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
