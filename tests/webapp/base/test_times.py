"""One form for every time."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from webapp.base.formats import utc

WHOLE = datetime(2026, 11, 25, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("microsecond", "text", "exact"),
    [
        (0, "10:30:00.000Z", "10:30:00.000Z"),
        (692_000, "10:30:00.692Z", "10:30:00.692Z"),
        (692_999, "10:30:00.692Z", "10:30:00.692999Z"),
        (1, "10:30:00.000Z", "10:30:00.000001Z"),
    ],
)
def test_milliseconds_and_on_demand_all_there_are(microsecond, text, exact):
    moment = WHOLE.replace(microsecond=microsecond)

    assert utc(moment) == f"2026-11-25T{text}"
    assert utc(moment, exact=True) == f"2026-11-25T{exact}"
    assert datetime.fromisoformat(utc(moment, exact=True)) == moment


def test_another_offset_becomes_utc():
    assert utc(WHOLE.astimezone(timezone(timedelta(hours=5, minutes=30)))) == "2026-11-25T10:30:00.000Z"
