"""From stored quiet hours to `quiet.Quiet`, and from what a form says to what is stored.

Quiet hours: pure functions of a rule by the clock on the wall and a moment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from webapp.base.errors import InvalidInput
from webapp.reporting.alerts.models import Channel, Preferences, QuietHours

DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MOST_MINUTES = 9 * 24 * 60  # longer than any quiet that a week with one open minute allows


@dataclass(frozen=True)
class Quiet:
    """Quiet from `start` (on these weekdays, 0 is Monday) to `end`, which is on the next day unless after `start`.

    By the clock on the wall: where clocks are set back, the hour that comes twice is quiet twice; where they are set
    forward, a missing end is the first minute after the gap.
    """

    zone: ZoneInfo
    start: time
    end: time
    days: frozenset[int]

    def at(self, moment: datetime) -> bool:
        """Whether an aware moment is quiet."""
        wall = moment.astimezone(self.zone)
        clock, today = wall.time().replace(second=0, microsecond=0, fold=0), wall.weekday()
        if self.start < self.end:
            return today in self.days and self.start <= clock < self.end
        begun_today = today in self.days and clock >= self.start
        return begun_today or ((today - 1) % 7 in self.days and clock < self.end)

    def until(self, moment: datetime) -> datetime | None:
        """The first minute from `moment` on that is not quiet, in UTC; None where the moment is not quiet."""
        if not self.at(moment):
            return None
        now = moment.astimezone(UTC).replace(second=0, microsecond=0)
        minutes = (now + timedelta(minutes=number) for number in range(1, MOST_MINUTES))
        return next(
            (minute for minute in minutes if not self.at(minute)), now + timedelta(minutes=MOST_MINUTES)
        )

    @property
    def always(self) -> bool:
        """Whether nothing would ever get through."""
        return self.start == self.end and len(self.days) == 7

    def words(self) -> str:
        """ "22:00 to 07:00, Mon Tue, Europe/Berlin"."""
        names = " ".join(name for day, name in enumerate(DAY_NAMES) if day in self.days)
        days = "every day" if len(self.days) == 7 else names
        return f"{self.start:%H:%M} to {self.end:%H:%M}, {days}, {self.zone.key}"


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
    if not (days := sorted({day for day in quiet_days if 0 <= day <= 6})):
        raise InvalidInput("quiet_days", "quiet_days: choose the days on which quiet hours begin.")
    if Quiet(ZoneInfo(zone), quiet_from, quiet_to, frozenset(days)).always:
        raise InvalidInput("quiet_to", "quiet_to: this is all day, every day: nothing would ever be sent.")
    return {"zone": zone, "quiet_from": quiet_from, "quiet_to": quiet_to, "quiet_days": days}
