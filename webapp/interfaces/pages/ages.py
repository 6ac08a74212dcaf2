"""Spans of time in words, and how long ago something was, in the words of static/js/format.js."""

from datetime import datetime, timedelta

from django.utils import timezone


def age_words(moment: datetime, now: datetime | None = None) -> str:
    """ "just now", "12 min", "3 h", "2 d": whole units, hours up to two days."""
    minutes = ((now or timezone.now()) - moment) // timedelta(minutes=1)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} d"


def ago_words(moment: datetime, now: datetime | None = None) -> str:
    """As a sentence says it: "just now", "12 min ago"."""
    words = age_words(moment, now)
    return words if words == "just now" else f"{words} ago"


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
