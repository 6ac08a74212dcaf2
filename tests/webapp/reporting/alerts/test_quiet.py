"""Quiet hours against an independent reckoning, over midnight, zones and changes of the clocks."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.reporting.alerts.hours import Quiet

BERLIN = ZoneInfo("Europe/Berlin")
EVERY_DAY = frozenset(range(7))
NIGHT = Quiet(BERLIN, time(22), time(7), EVERY_DAY)


def berlin(*parts: int, fold: int = 0) -> datetime:
    return datetime(*parts, tzinfo=BERLIN, fold=fold)


def test_a_night_over_midnight():
    assert NIGHT.until(berlin(2026, 1, 10, 23, 30)) == berlin(2026, 1, 11, 7)
    assert NIGHT.until(berlin(2026, 1, 11, 6, 59, 59)) == berlin(2026, 1, 11, 7)
    assert NIGHT.until(berlin(2026, 1, 10, 22)) == berlin(2026, 1, 11, 7)
    assert NIGHT.until(berlin(2026, 1, 11, 7)) is None
    assert NIGHT.until(berlin(2026, 1, 10, 21, 59, 59)) is None


def test_the_days_are_those_on_which_it_begins():
    friday = Quiet(BERLIN, time(22), time(7), frozenset({4}))

    assert friday.at(berlin(2026, 1, 10, 3))  # the night from Friday to Saturday
    assert not friday.at(berlin(2026, 1, 9, 3))  # the morning of that Friday belongs to Thursday
    assert not friday.at(berlin(2026, 1, 10, 23))


def test_a_night_with_a_change_of_the_clocks_ends_by_the_clock_on_the_wall():
    assert NIGHT.until(berlin(2026, 3, 28, 23)) == datetime(2026, 3, 29, 5, tzinfo=UTC)  # an hour is missing
    assert NIGHT.until(berlin(2026, 10, 24, 23)) == datetime(
        2026, 10, 25, 6, tzinfo=UTC
    )  # an hour comes twice


def test_an_end_in_the_missing_hour_is_the_first_minute_after_it():
    short = Quiet(BERLIN, time(1), time(2, 30), EVERY_DAY)

    assert short.until(berlin(2026, 3, 29, 1, 30)) == berlin(2026, 3, 29, 3)


def test_the_hour_that_comes_twice_is_quiet_twice():
    short = Quiet(BERLIN, time(2), time(2, 30), EVERY_DAY)

    assert short.at(berlin(2026, 10, 25, 2, 15)) and short.at(berlin(2026, 10, 25, 2, 15, fold=1))
    assert not short.at(berlin(2026, 10, 25, 2, 45))


def test_a_whole_day_and_its_neighbour_are_one_quiet():
    weekend = Quiet(BERLIN, time(0), time(0), frozenset({5, 6}))

    assert weekend.until(berlin(2026, 1, 10, 12)) == berlin(2026, 1, 12)
    assert Quiet(BERLIN, time(9), time(9), EVERY_DAY).always and not weekend.always


minutes = st.integers(0, 1439).map(lambda minute: time(minute // 60, minute % 60))
quiets = st.builds(
    Quiet,
    st.sampled_from(
        ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"]
    ).map(ZoneInfo),
    minutes,
    minutes,
    st.frozensets(st.integers(0, 6), min_size=1),
).filter(lambda quiet: not quiet.always)
moments = st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31)).map(lambda at: at.replace(tzinfo=UTC))


def by_windows(quiet: Quiet, at: datetime) -> bool:
    """The same by another way: whether the wall's clock lies in the window of today or of yesterday, as naive times."""
    wall = at.astimezone(quiet.zone).replace(tzinfo=None, second=0, microsecond=0)
    for day in (wall.date(), wall.date() - timedelta(days=1)):
        start = datetime.combine(day, quiet.start)
        end = datetime.combine(day, quiet.end)
        if end <= start:
            end += timedelta(days=1)
        if day.weekday() in quiet.days and start <= wall < end:
            return True
    return False


@given(quiets, moments)
def test_quiet_is_what_the_windows_of_naive_times_say(quiet, at):
    assert quiet.at(at) == by_windows(quiet, at)


@given(quiets, moments)
def test_until_is_the_first_moment_that_is_not_quiet(quiet, at):
    end = quiet.until(at)
    if end is None:
        assert not by_windows(quiet, at)
        return
    assert end > at and not by_windows(quiet, end)
    between = [at + (end - at) * share for share in (0.0, 0.2, 0.5, 0.8)] + [end - timedelta(seconds=1)]
    assert all(by_windows(quiet, moment) for moment in between if moment >= at)


@pytest.mark.parametrize("days", [EVERY_DAY, frozenset({0, 3})])
def test_words(days):
    text = Quiet(BERLIN, time(22), time(7), days).words()
    assert text == f"22:00 to 07:00, {'every day' if len(days) == 7 else 'Mon Thu'}, Europe/Berlin"
