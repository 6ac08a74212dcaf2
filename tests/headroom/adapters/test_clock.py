import pytest

from headroom.adapters.beginning import StepClock


def test_only_steps_are_counted_times_the_devices() -> None:
    now = [100.0]
    clock = StepClock(8, hours=1.0, now=lambda: now[0])
    for seconds, pause in ((36.0, 500.0), (72.0, 900.0)):
        clock.start()
        now[0] += seconds
        clock.start()  # a step that is under way
        clock.stop()
        now[0] += pause
        clock.stop()

    assert clock.device_hours == pytest.approx(1.0 + 8 * 108 / 3600)
    clock.add(3600)
    assert clock.device_hours == pytest.approx(9.0 + 8 * 108 / 3600)
