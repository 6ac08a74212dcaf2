import pytest

from training.driver.staleness import Ticket
from training.driver.stepmetrics import StepMetrics, Usage, staleness_metrics
from training.rollouts import Group, Sample
from training.tasks import Prompt
from training.trainer.batching import StepResult


def group(*versions: int, chosen: list[bool] | None = None) -> Group:
    count = len(versions)
    sample = Sample([1], [2] * count, [0.0] * count, chosen or [True] * count, versions=list(versions))
    return Group(Prompt("p", "", ""), [sample])


def test_staleness_by_group_and_by_token() -> None:
    batch = [(Ticket(0, 2), group(2, 3, 4)), (Ticket(1, 4), group(4, 5))]

    metrics = staleness_metrics(batch, version=5)

    assert (metrics["train/staleness_mean"], metrics["train/staleness_max"]) == (2, 3)
    assert metrics["train/token_staleness_mean"] == pytest.approx((3 + 2 + 1 + 1 + 0) / 5)
    assert metrics["train/token_staleness_max"] == 3
    assert (metrics["train/version_oldest"], metrics["train/version_newest"]) == (2, 5)


def test_forced_tokens_have_no_age() -> None:
    batch = [(Ticket(0, 0), group(0, 0, 3, chosen=[False, False, True]))]

    assert staleness_metrics(batch, version=3)["train/token_staleness_max"] == 0
    nothing_chosen = [(Ticket(0, 0), group(0, chosen=[False]))]
    assert staleness_metrics(nothing_chosen, version=3)["train/token_staleness_mean"] == 0


class Clock:
    """Says what it is told."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_idle_shares_leave_out_an_evaluation() -> None:
    clock = Clock()
    metrics = StepMetrics(clock=clock)
    metrics.generating(2)
    clock.now += 6
    with metrics.trainer_waits():
        clock.now += 1
        metrics.generating(0)
        clock.now += 1
    metrics.pause()
    clock.now += 900
    metrics.generating(1)  # a group that was being scored got another prompt, and at once no room
    metrics.generating(0)
    clock.now += 100
    metrics.resume()
    clock.now += 2

    found = metrics.of_step([(Ticket(0, 0), group(0))], 0, StepResult({}, 0), Usage(tokens=50))

    assert found["perf/step_seconds"] == pytest.approx(10)
    assert found["perf/generator_idle"] == pytest.approx(0.3)
    assert found["perf/trainer_idle"] == pytest.approx(0.2)
    assert found["perf/tokens_per_second"] == pytest.approx(5)


def test_each_step_begins_anew() -> None:
    clock = Clock()
    metrics = StepMetrics(tokens=10, clock=clock)
    batch = [(Ticket(0, 0), group(0))]
    clock.now += 5
    metrics.of_step(batch, 0, StepResult({}, 0), Usage(tokens=20))
    metrics.generating(1)
    clock.now += 4

    found = metrics.of_step(batch, 0, StepResult({"loss": 1.5}, 0), Usage(tokens=28))

    assert (found["perf/generator_idle"], found["perf/trainer_idle"]) == (0, 0)
    assert (found["perf/tokens_per_second"], found["train/loss"]) == (2, 1.5)
