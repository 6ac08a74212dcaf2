"""Metrics of one update: what the batch was like, how stale, how fast, who waited.

When the groups of a batch were generated and judged, for the record and the trace of the step that trains on it.

Training compute, cumulative: device-hours, FLOPs, tokens.

Evaluation, loading and waiting for a place do not count.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from observability import tracing
from training.driver.staleness import Ticket
from training.evaluation import by_part
from training.flops import ModelShape, Work
from training.rollouts import Group
from training.trainer.batching import StepResult, numbers

Spans = dict[str, tuple[float, float]]  # what -> when it began and ended, in seconds since 1970


@dataclass(frozen=True)
class Usage:
    """Compute used so far, by the names that a record has."""

    device_hours: float = 0.0
    flops: float = 0.0
    tokens: int = 0


class ComputeMeter:
    """A clock that runs while training does, and counters of tokens and of FLOPs by the model's shape."""

    def __init__(
        self,
        *,
        devices: int,
        shape: ModelShape,
        start: Usage = Usage(),  # noqa: B008 - frozen
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._devices, self._shape, self._clock = devices, shape, clock
        self._usage = start
        self._running_since: float | None = None

    def run(self) -> None:
        """The clock runs from now on."""
        if self._running_since is None:
            self._running_since = self._clock()

    def pause(self) -> None:
        """The clock stands still until `run`: evaluation."""
        self._usage = self.usage()
        self._running_since = None

    def generated(self, response_tokens: int, work: Work) -> None:
        """Tokens sampled, and the sequences (prompts included) that went through the network for them."""
        self._count(response_tokens, self._shape.forward_flops(work))

    def trained(self, response_tokens: int, work: Work, forward: Work = Work()) -> None:  # noqa: B008 - frozen
        """Tokens in the loss, sequences that went forward and backward for them, and those that went forward alone
        (reference model, old values)."""
        self._count(response_tokens, self._shape.training_flops(work) + self._shape.forward_flops(forward))

    def usage(self) -> Usage:
        """Compute used until now."""
        seconds = 0.0 if self._running_since is None else self._clock() - self._running_since
        return Usage(
            self._usage.device_hours + self._devices * seconds / 3600, self._usage.flops, self._usage.tokens
        )

    def _count(self, tokens: int, flops: float) -> None:
        self._usage = Usage(self._usage.device_hours, self._usage.flops + flops, self._usage.tokens + tokens)


class StepMetrics:
    """Watches the clock between updates, which stands still during an evaluation."""

    def __init__(
        self,
        *,
        tokens: float = 0,
        clock: Callable[[], float] = time.monotonic,
        num_lost_engines: Callable[[], int] = lambda: 0,
    ) -> None:
        self._clock, self._num_lost_engines = clock, num_lost_engines
        self._tokens = float(tokens)
        self._paused_at: float | None = None
        self._away = 0.0  # seconds in evaluations
        self.begin()

    def begin(self) -> None:
        """Training begins now, with nothing being generated."""
        self._step_began = self._now()
        self._idle_since: float | None = self._step_began  # of the generator
        self._generator_idle = self._trainer_idle = 0.0

    def generating(self, num_running: int) -> None:
        """Groups being generated have become this many."""
        now = self._now()
        if num_running == 0 and self._idle_since is None:
            self._idle_since = now
        elif num_running and self._idle_since is not None:
            self._generator_idle += now - self._idle_since
            self._idle_since = None

    @contextmanager
    def trainer_waits(self) -> Iterator[None]:
        """Around the trainer's wait for a batch."""
        began = self._now()
        try:
            yield
        finally:
            self._trainer_idle += self._now() - began

    def pause(self) -> None:
        """An evaluation begins."""
        self._paused_at = self._clock()

    def resume(self) -> None:
        """It is over: as if its time had not been."""
        assert self._paused_at is not None
        self._away += self._clock() - self._paused_at
        self._paused_at = None

    def _now(self) -> float:
        return (self._clock() if self._paused_at is None else self._paused_at) - self._away

    def end_step(self) -> dict[str, float]:
        """Seconds of the step that ends now, and the shares of them (0 to 1) in which either side was idle."""
        now = self._now()
        seconds = max(now - self._step_began, 1e-9)
        if self._idle_since is not None:
            self._generator_idle += now - self._idle_since
            self._idle_since = now
        metrics = {
            "perf/generator_idle": min(1.0, self._generator_idle / seconds),
            "perf/trainer_idle": min(1.0, self._trainer_idle / seconds),
            "perf/step_seconds": seconds,
        }
        self._step_began = now
        self._generator_idle = self._trainer_idle = 0.0
        return metrics

    def of_step(
        self, batch: Sequence[tuple[Ticket, Group]], version: int, result: StepResult, usage: Usage
    ) -> dict[str, float]:
        """Metrics of the update just made on a batch by a trainer of this version, and a new step begins."""
        perf = self.end_step()
        groups = [group for _, group in batch]
        samples = [sample for group in groups for sample in group.samples]
        metrics = {
            "train/reward": _mean([sample.reward for sample in samples]),
            "train/pass_rate": _mean([sample.correct for sample in samples]),
            "train/truncation_rate": _mean([not sample.finished for sample in samples]),
            "train/verifier_failure_rate": _mean([bool(sample.failure) for sample in samples]),
            "train/interruption_rate": _mean([sample.interrupted for sample in samples]),
            "train/response_length": _mean([len(sample.response) for sample in samples]),
            "perf/tokens_per_second": (usage.tokens - self._tokens) / perf["perf/step_seconds"],
            **perf,
            "perf/lost_engines": float(self._num_lost_engines()),
        }
        metrics |= staleness_metrics(batch, version)
        for part, own in by_part(groups).items():
            metrics[f"train/{part}/pass_rate"] = _mean([group.pass_rate for group in own])
        self._tokens = usage.tokens
        return metrics | {f"train/{name}": value for name, value in result.metrics.items()}


def staleness_metrics(batch: Sequence[tuple[Ticket, Group]], version: int) -> dict[str, float]:
    """How old a batch is for a trainer of this version: by the weights at the start of each group, which is what the
    bound is about, and by those that chose each token, never older (forced tokens do not count)."""
    samples = [sample for _, group in batch for sample in group.samples]
    ages = [version - ticket.version for ticket, _ in batch]
    chosen: Counter[int] = Counter()
    for sample in samples:
        of_chosen = numbers("q", sample.versions)[numbers("B", sample.chosen).astype(bool)]
        values, counts = np.unique(of_chosen, return_counts=True)
        chosen.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    token_ages = {version - made: count for made, count in chosen.items()}
    return {
        "train/version_oldest": float(min(sample.oldest_version for sample in samples)),
        "train/version_newest": float(max(sample.newest_version for sample in samples)),
        "train/staleness_mean": _mean(ages),
        "train/staleness_max": float(max(ages)),
        "train/token_staleness_mean": sum(age * count for age, count in token_ages.items())
        / max(1, chosen.total()),
        "train/token_staleness_max": float(max(token_ages, default=0)),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@dataclass
class Moments:
    """Of one group, seconds since 1970. None: not yet."""

    began: float
    generated: float | None = None
    judged: float | None = None


class GroupTimes:
    """Groups are generated beside each other and beside the steps, so a step gets one span for the time in which any of
    its groups was generated, and one for the time in which any was judged."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._moments: dict[int, Moments] = {}

    def begins(self, number: int) -> None:
        """The generator gets this group, perhaps once more, with another prompt."""
        self._moments.setdefault(number, Moments(self._clock()))

    def generated(self, number: int) -> None:
        """Its responses are complete; the verifiers get them."""
        if number in self._moments:
            self._moments[number].generated = self._clock()

    def judged(self, number: int) -> None:
        """It has its rewards."""
        if number in self._moments:
            self._moments[number].judged = self._clock()

    def tell(self, numbers: Iterable[int]) -> Spans:
        """The open step trains on these groups. Those that an earlier attempt has made are not known, and left out."""
        found = [self._moments.pop(number) for number in numbers if number in self._moments]
        whole = [(m.began, m.generated, m.judged) for m in found if m.generated and m.judged]
        if not whole:
            return {}
        began, generated, judged = zip(*whole, strict=True)
        spans = {"generate": (min(began), max(generated)), "reward": (min(generated), max(judged))}
        for name, (first, last) in spans.items():
            tracing.past(name, first, last, groups=len(whole))
        return spans


def span_metrics(spans: Mapping[str, tuple[float, float]], now: float) -> dict[str, float]:
    """As a record tells of them: how long each took, and how long before the record, now, it ended."""
    metrics: dict[str, float] = {}
    for name, (began, ended) in spans.items():
        metrics[f"perf/{name}_seconds"] = max(0.0, ended - began)
        metrics[f"perf/{name}_ago_seconds"] = max(0.0, now - ended)
    return metrics
