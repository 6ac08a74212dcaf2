"""How long ago something was, in the words of static/js/format.js."""

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
