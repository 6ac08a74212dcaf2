"""Values of a filter as numbers, times and durations. Pure; what cannot be read is a ValueError with the reason."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d{1,3})?(?P<percent>\s?%)?", re.IGNORECASE)
WHOLE = re.compile(r"[-+]?\d{1,18}")
DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([a-z]+)(?: ago)?", re.IGNORECASE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
UNITS = {
    "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "mo": 30 * 86400, "y": 365 * 86400,
}  # fmt: skip
SYNONYMS = {
    "sec": "s", "second": "s", "minute": "min", "hour": "h", "day": "d", "week": "w", "month": "mo", "year": "y",
}  # fmt: skip
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Moment:
    """A time as a filter gives it: from `start` to `end`, which differ for a day and are one for an instant."""

    start: datetime
    end: datetime


def number(text: str) -> float:
    """A finite number; `90%` is 0.9."""
    match = NUMBER.fullmatch(text.strip())
    value = float(text.strip().rstrip("%").strip()) if match else float("inf")
    if match is None or value in (float("inf"), float("-inf")):
        raise ValueError("is not a number")
    return value / 100 if match["percent"] else value


def whole(text: str) -> int:
    """A whole number."""
    if not WHOLE.fullmatch(text.strip()):
        raise ValueError("is not a whole number")
    return int(text)


def duration(text: str) -> timedelta:
    """`90s`, `30min`, `12h`, `2d`, `1w`, `6mo`, `1y`."""
    match = DURATION.fullmatch(text.strip())
    unit = match[2].lower() if match else ""
    unit = SYNONYMS.get(unit.removesuffix("s") if len(unit) > 2 else unit, unit)
    if match is None or unit not in UNITS:
        raise ValueError("is not a duration such as 30min, 12h, 2d or 1w")
    try:
        return timedelta(seconds=float(match[1]) * UNITS[unit])
    except OverflowError:
        raise ValueError("is too long") from None


def moment(text: str, now: datetime) -> Moment:
    """A day, a time (UTC unless it says its offset), `today`, `yesterday`, or how long ago (`2d`)."""
    text = text.strip()
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if text.lower() in ("today", "yesterday"):
        start = today if text.lower() == "today" else today - DAY
        return Moment(start, start + DAY)
    try:
        if DATE.fullmatch(text):
            start = datetime.fromisoformat(text).replace(tzinfo=UTC)
            return Moment(start, start + DAY)
        if re.match(r"\d{4}-", text):
            at = datetime.fromisoformat(text)
            at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
            return Moment(at, at)
        at = now - duration(text)
        return Moment(at, at)
    except (OverflowError, ValueError):
        raise ValueError("is not a time such as 2d (ago), 2026-11-21, 2026-11-21T10:30 or today") from None
