"""The attempts of a run as its page shows them. Pure functions of stored attempts.

What a run's page says before Resume is pressed, where that would not go on from a checkpoint.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import format_html

from webapp.identity.audit.models import Event
from webapp.record.runs.models import Attempt, Run, State
from webapp.record.runs.selectors import asks_the_store, begins_anew

LIVE = {State.RUNNING, State.STOPPING}


@dataclass(frozen=True)
class AttemptRow:
    """One attempt; `waited` before it started, `lasted` since then until it ended or now, in words."""

    attempt: Attempt
    waited: str
    lasted: str
    resumed: str
    device: str
    reason: str


def attempt_rows(attempts: Iterable[Attempt], now: datetime) -> list[AttemptRow]:
    """Rows in the order given."""
    return [
        AttemptRow(
            attempt,
            _between(attempt.created_at, attempt.started_at or attempt.ended_at),
            _between(attempt.started_at, attempt.ended_at or (now if attempt.state in LIVE else None)),
            resumed(attempt),
            device(attempt),
            last_line(attempt.message),
        )
        for attempt in attempts
    ]


def resumed(attempt: Attempt) -> str:
    """Where it started: "the start", or "step 40"; nothing before it has started."""
    if attempt.started_at is None:
        return "–"
    return "the start" if attempt.resumed_from_step is None else f"step {attempt.resumed_from_step:,}"


def device(attempt: Attempt) -> str:
    """What it trains on, on one line, as its trainer says."""
    if not attempt.device:
        return "–"
    if isinstance(attempt.device, dict):
        return ", ".join(f"{name} {value}" for name, value in attempt.device.items())
    return str(attempt.device)


def last_line(text: str) -> str:
    """The last line that says something: of a traceback the error itself."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _between(start: datetime | None, end: datetime | None) -> str:
    return "–" if start is None or end is None else duration(end - start)


def duration(length: timedelta) -> str:
    """The two greatest units: "3 h 12 min", "45 s"."""
    seconds = max(0, int(length.total_seconds()))
    parts = [
        (seconds // 86400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "min"),
        (seconds % 60, "s"),
    ]
    first = next((i for i, (value, _) in enumerate(parts) if value), 3)
    shown = [f"{value} {unit}" for value, unit in parts[first : first + 2] if value]
    return " ".join(shown) or "0 s"


REMOVED = "run.checkpoints_removed"
FOLLOWS = (
    "Resume begins anew, from step 0, as its next attempt: every point reported so far stays, but is superseded and "
    "in no fit."
)
STORED = (
    "The run's folder has no checkpoint. Resume takes the newest whole one of the checkpoint store; where that has "
    "none, it begins anew, from step 0, and every point reported so far stays, but is superseded and in no fit."
)


def before_resuming(run: Run) -> str:
    """As HTML, for a run that can be resumed; empty where it goes on from a checkpoint, or has not trained yet."""
    if asks_the_store(run):
        return format_html('<div class="note">{}</div>', STORED)
    if not begins_anew(run):
        return ""
    is_removed = Event.objects.filter(project=run.project_id, object_id=run.pk, verb=REMOVED).exists()
    why = "The clean-up has removed its checkpoints." if is_removed else "It has no checkpoint."
    return format_html('<div class="note warn">{} {}</div>', why, FOLLOWS)
