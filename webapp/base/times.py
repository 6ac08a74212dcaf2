"""How a time is written for programs, in JSON and in tables."""

from datetime import UTC, datetime


def utc(moment: datetime, *, exact: bool = False) -> str:
    """ISO 8601 in UTC with milliseconds and Z: 2026-11-25T10:30:00.692Z. `exact`: with microseconds where it has them.

    `moment` must know its offset.
    """
    is_finer = exact and moment.microsecond % 1000
    text = moment.astimezone(UTC).isoformat(timespec="microseconds" if is_finer else "milliseconds")
    return f"{text.removesuffix('+00:00')}Z"
