"""From stored quiet hours to `quiet.Quiet`, and from what a form says to what is stored."""

from collections.abc import Mapping, Sequence
from datetime import time
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from webapp.base.errors import InvalidInput
from webapp.reporting.alerts.models import Channel, Preferences, QuietHours
from webapp.reporting.alerts.quiet import Quiet


@lru_cache(maxsize=1)
def zones() -> list[str]:
    """The names of zones that this server knows, sorted."""
    return sorted(name for name in available_timezones() if "/" in name or name == "UTC")


def read(stored: QuietHours | None) -> Quiet | None:
    """Quiet hours as stored; None where there are none."""
    if stored is None or stored.quiet_from is None or stored.quiet_to is None or not stored.quiet_days:
        return None
    return Quiet(ZoneInfo(stored.zone), stored.quiet_from, stored.quiet_to, frozenset(stored.quiet_days))


def quiet_of(channel: Channel) -> Quiet | None:
    """The channel's own quiet hours, else its owner's."""
    own = read(channel)
    if own is not None or channel.owner_id is None:
        return own
    return read(Preferences.objects.filter(user=channel.owner_id).first())


def fields_from(
    *,
    zone: str = "UTC",
    quiet_from: time | None = None,
    quiet_to: time | None = None,
    quiet_days: Sequence[int] = (),
) -> Mapping[str, Any]:
    """What is stored of quiet hours; no times: none. Raises InvalidInput (zone, quiet_from, quiet_to, quiet_days)."""
    if zone not in zones():
        raise InvalidInput("zone", "zone: choose one of the list, such as Europe/Berlin.")
    if quiet_from is None and quiet_to is None:
        return {"zone": zone, "quiet_from": None, "quiet_to": None, "quiet_days": []}
    if quiet_from is None or quiet_to is None:
        missing = "quiet_from" if quiet_from is None else "quiet_to"
        raise InvalidInput(missing, f"{missing}: quiet hours need both ends, or neither.")
    days = sorted({day for day in quiet_days if 0 <= day <= 6})
    if not days:
        raise InvalidInput("quiet_days", "quiet_days: choose the days on which quiet hours begin.")
    if Quiet(ZoneInfo(zone), quiet_from, quiet_to, frozenset(days)).always:
        raise InvalidInput("quiet_to", "quiet_to: this is all day, every day: nothing would ever be sent.")
    return {"zone": zone, "quiet_from": quiet_from, "quiet_to": quiet_to, "quiet_days": days}
