import pytest

from training.driver.stepmetrics import ComputeMeter, Usage
from training.flops import ModelShape, Work

SHAPE = ModelShape(parameters=12, matrix_parameters=10, attention_width=3)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_device_hours_count_devices_and_only_running_time() -> None:
    clock = Clock()
    meter = ComputeMeter(devices=2, shape=SHAPE, clock=clock)
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
    meter = ComputeMeter(devices=1, shape=SHAPE)
    meter.generated(3, Work.of([5]))
    meter.trained(2, Work.of([2, 2]), Work.of([4]))

    generated, trained, forward = 20 * 5 + 6 * 25, 3 * (20 * 4 + 6 * 8), 20 * 4 + 6 * 16
    assert meter.usage() == Usage(0.0, generated + trained + forward, 5)


def test_goes_on_from_a_checkpoint() -> None:
    clock = Clock()
    meter = ComputeMeter(devices=1, shape=SHAPE, start=Usage(1.5, 7.0, 9), clock=clock)
    meter.run()
    clock.now += 3600

    assert meter.usage() == Usage(2.5, 7.0, 9)
