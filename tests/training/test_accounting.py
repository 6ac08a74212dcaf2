import pytest

from training.accounting import ComputeMeter, Usage


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_device_hours_count_devices_and_only_running_time() -> None:
    clock = Clock()
    meter = ComputeMeter(devices=2, parameters=10, clock=clock)
    clock.now += 50  # loading
    meter.run()
    clock.now += 1800
    meter.pause()
    clock.now += 999  # evaluation
    assert meter.usage().device_hours == pytest.approx(1.0)

    meter.run()
    clock.now += 1800
    assert meter.usage().device_hours == pytest.approx(2.0)


def test_flops_and_tokens() -> None:
    meter = ComputeMeter(devices=1, parameters=10)
    meter.generated(response_tokens=3, processed_tokens=5)
    meter.trained(response_tokens=2, processed_tokens=4)

    assert meter.usage() == Usage(0.0, 2 * 10 * 5 + 6 * 10 * 4, 5)


def test_goes_on_from_a_checkpoint() -> None:
    clock = Clock()
    meter = ComputeMeter(devices=1, parameters=1, start=Usage(1.5, 7.0, 9), clock=clock)
    meter.run()
    clock.now += 3600

    assert meter.usage() == Usage(2.5, 7.0, 9)
