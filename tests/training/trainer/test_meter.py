import pytest

from training.trainer.passes import Meter


def test_losses_add_up_extremes_are_extreme_and_the_rest_are_means_over_tokens() -> None:
    meter = Meter()
    meter.add(0.25, {"ratio_max": 3.0, "ratio_min": 0.5, "entropy": 1.0}, 1)
    meter.add(0.5, {"ratio_max": 2.0, "ratio_min": 0.1, "entropy": 2.0}, 3)
    meter.add(0.0, {"entropy": 99.0}, 0)

    assert meter.result() == {
        "loss": 0.75,
        "ratio_max": 3.0,
        "ratio_min": 0.1,
        "entropy": pytest.approx(1.75),
    }


def test_nothing_counted() -> None:
    assert Meter().result() == {}


def test_meters_of_ranks_together_are_that_of_all_micro_batches() -> None:
    parts = [
        (0.25, {"ratio_max": 3.0, "entropy": 1.0}, 1),
        (0.5, {"ratio_max": 2.0, "entropy": 2.0}, 3),
        (0.125, {"ratio_max": 5.0, "entropy": 4.0}, 4),
    ]
    alone, first, second, idle = (Meter() for _ in range(4))
    for part in parts:
        alone.add(*part)
    first.add(*parts[0])
    for part in parts[1:]:
        second.add(*part)

    assert Meter.together([first, idle, second]).result() == alone.result()
