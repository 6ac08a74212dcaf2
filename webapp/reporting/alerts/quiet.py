"""Quiet hours: pure functions of a rule by the clock on the wall and a moment."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MOST = timedelta(days=9)  # longer than any quiet that a week with one open minute allows


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
        minute = moment.astimezone(UTC).replace(second=0, microsecond=0)
        last = minute + MOST
        while minute <= last:
            minute += timedelta(minutes=1)
            if not self.at(minute):
                return minute
        return last

    @property
    def always(self) -> bool:
        """Whether nothing would ever get through."""
        return self.start == self.end and len(self.days) == 7

    def words(self) -> str:
        """ "22:00 to 07:00, Mon Tue, Europe/Berlin"."""
        names = " ".join(name for day, name in enumerate(DAY_NAMES) if day in self.days)
        days = "every day" if len(self.days) == 7 else names
        return f"{self.start:%H:%M} to {self.end:%H:%M}, {days}, {self.zone.key}"
