"""Keeping what jobs print, a little after they print it."""

from webapp.record.logs import services


def keep_logs() -> int:
    """Bring the stored logs up to date; returns how many changed."""
    return services.follow()
