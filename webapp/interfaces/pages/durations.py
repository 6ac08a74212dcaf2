"""Spans of time in words. Pure."""

from datetime import timedelta


def duration(span: timedelta) -> str:
    """With two units at most: "40 s", "25 min", "3 h 20 min", "2 d 5 h"."""
    seconds = round(span.total_seconds())
    if seconds < 90:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
