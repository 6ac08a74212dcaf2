"""A discrete-event model of a run: driver, engines, rewards, trainer and weights, with the driver's own rules.

The order of groups, the staleness bound and what makes a batch are those of `training.driver.staleness.WorkBuffer`,
idle shares those of `training.driver.stepmetrics.StepMetrics`, whose clock is the model's. Not modelled: prefill, KV
cache that runs out, failures, evaluations, checkpoints, dynamic sampling, a network
that is shared with others.
"""

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from training.driver.staleness import Ticket, WorkBuffer
from training.driver.stepmetrics import StepMetrics


@dataclass(frozen=True)
class Rates:
    """What parts take, in seconds unless said otherwise. There are no defaults."""

    decode_seconds: float  # one decoding step of an engine, whatever its batch
    decode_seconds_per_sequence: float  # what each sequence in its batch adds
    engine_sequences: int  # that an engine decodes at a time
    engine_gpus: int
    response_tokens: float  # mean
    response_tokens_cv: float  # standard deviation over mean, log-normal
    max_response_tokens: int
    trainer_tokens_per_gpu_second: float
    trainer_fixed_seconds: float  # of each step, however many GPUs
    trainer_gpus_multiple: int  # the trainer takes a multiple of these
    weights_seconds: float  # from the update to the engines
    weights_pause_seconds: float  # of these, engines stand still
    driver_seconds_per_completion: float  # one after the other
    reward_seconds_per_completion: float
    reward_workers: int


@dataclass(frozen=True)
class Workload:
    """Of a recipe: groups a step, samples a group, bounds of what is on its way."""

    prompts_per_step: int
    generations_per_prompt: int
    max_in_flight_prompts: int
    depth: int
    push_every: int = 1


@dataclass(frozen=True)
class Step:
    """One update: its length, idle shares (0 to 1), response tokens, ages of its groups in versions."""

    seconds: float
    generator_idle: float
    trainer_idle: float
    tokens: int
    staleness: list[int]


class Events:
    """A clock and what is to happen; at one moment in the order of its calls."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Have it happen that much later."""
        self._count += 1
        heapq.heappush(self._heap, (self.now + seconds, self._count, act))

    def step(self) -> None:
        """The next one. IndexError where nothing is to happen any more."""
        self.now, _, act = heapq.heappop(self._heap)
        act()


class Servers:
    """Equal servers with one queue, first come first served."""

    def __init__(self, events: Events, count: int) -> None:
        self._events, self._free = events, [0.0] * count

    def serve(self, seconds: float, act: Callable[[], None]) -> None:
        """One job of that length; `act` happens at its end."""
        end = max(self._events.now, heapq.heappop(self._free)) + seconds
        heapq.heappush(self._free, end)
        self._events.after(end - self._events.now, act)


class Engine:
    """Decodes up to `engine_sequences` together, a token of each in every step; the others wait in order.

    `_done` counts tokens that each of its sequences has had since the beginning, so an end is known when it begins.
    """

    def __init__(self, events: Events, rates: Rates) -> None:
        self._events, self._rates = events, rates
        self._running: list[tuple[float, int, Callable[[], None]]] = []
        self._queue: deque[tuple[int, Callable[[], None]]] = deque()
        self._done, self._since, self._plan, self._count = 0.0, 0.0, 0, 0
        self._is_paused = False

    @property
    def load(self) -> int:
        """Sequences that it has, waiting ones included."""
        return len(self._running) + len(self._queue)

    def add(self, tokens: int, act: Callable[[], None]) -> None:
        """One more sequence of that many tokens; `act` happens at its end."""
        self._advance()
        self._queue.append((tokens, act))
        self._fill()

    def pause(self, is_paused: bool) -> None:
        """Stand still, or go on."""
        self._advance()
        self._is_paused = is_paused
        self._fill()

    def _step_seconds(self) -> float:
        return self._rates.decode_seconds + self._rates.decode_seconds_per_sequence * len(self._running)

    def _advance(self) -> None:
        if self._running and not self._is_paused:
            self._done += (self._events.now - self._since) / self._step_seconds()
        self._since = self._events.now

    def _fill(self) -> None:
        while self._queue and len(self._running) < self._rates.engine_sequences:
            tokens, act = self._queue.popleft()
            self._count += 1
            heapq.heappush(self._running, (self._done + tokens, self._count, act))
        self._plan += 1
        if self._running and not self._is_paused:
            plan, left = self._plan, max(0.0, self._running[0][0] - self._done)
            self._events.after(left * self._step_seconds(), lambda: self._first_ends(plan))

    def _first_ends(self, plan: int) -> None:
        if plan != self._plan:  # the batch has changed since
            return
        self._advance()
        self._done, _, act = heapq.heappop(self._running)
        self._fill()
        act()


@dataclass
class Cluster:
    """A run of `workload` on that many engines and trainer GPUs. ValueError where one is below 1."""

    rates: Rates
    workload: Workload
    engines: int
    trainer_gpus: int
    seed: int = 0
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.engines < 1 or self.trainer_gpus < 1:
            raise ValueError("engines and trainer_gpus must be at least 1")
        work = self.workload
        self._events = Events()
        self._engines = [Engine(self._events, self.rates) for _ in range(self.engines)]
        self._driver = Servers(self._events, 1)
        self._rewards = Servers(self._events, self.rates.reward_workers)
        self._buffer: WorkBuffer[int] = WorkBuffer(
            prompts_per_step=work.prompts_per_step, depth=work.depth, push_every=work.push_every
        )
        self._metrics = StepMetrics(clock=lambda: self._events.now)
        self._generating, self._is_pushing, self._is_training, self._owes_push = 0, False, False, False
        self._wait = ExitStack()

    def run(self, steps: int) -> list[Step]:
        """The first so many steps."""
        self._trainer_waits()
        self._admit()
        while len(self.steps) < steps:
            self._events.step()
        return self.steps

    def _trainer_waits(self) -> None:
        self._wait.close()
        self._wait.enter_context(self._metrics.trainer_waits())

    # -- generation ------------------------------------------------------------------------------------------

    def _admit(self) -> None:
        while self._generating < self.workload.max_in_flight_prompts and self._buffer.may_start():
            self._begin(self._buffer.start())

    def _begin(self, ticket: Ticket) -> None:
        self._generating += 1
        self._metrics.generating(self._generating)
        engine = min(self._engines, key=lambda engine: engine.load)
        lengths = self._lengths(ticket.number)
        left = len(lengths)

        def ended() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self._generated(ticket, sum(lengths))

        for tokens in lengths:
            engine.add(tokens, ended)

    def _lengths(self, number: int) -> list[int]:
        """The same for a group whatever the split, so that splits are compared on the same work."""
        rates, rng = self.rates, random.Random(f"{self.seed}/{number}")
        sigma = math.sqrt(math.log1p(rates.response_tokens_cv**2))
        mu = math.log(rates.response_tokens) - sigma**2 / 2
        drawn = [rng.lognormvariate(mu, sigma) for _ in range(self.workload.generations_per_prompt)]
        return [min(rates.max_response_tokens, max(1, round(tokens))) for tokens in drawn]

    def _generated(self, ticket: Ticket, tokens: int) -> None:
        self._generating -= 1
        self._metrics.generating(self._generating)
        self._admit()
        n = self.workload.generations_per_prompt
        judged = n * self.rates.reward_seconds_per_completion
        self._driver.serve(
            n * self.rates.driver_seconds_per_completion,
            lambda: self._rewards.serve(judged, lambda: self._judged(ticket, tokens)),
        )

    def _judged(self, ticket: Ticket, tokens: int) -> None:
        self._buffer.finish(ticket, tokens)
        self._train()

    # -- training --------------------------------------------------------------------------------------------

    def _train(self) -> None:
        if self._is_training or self._owes_push or not self._buffer.is_ready():
            return
        self._wait.close()
        self._is_training = True
        batch = self._buffer.take()
        tokens = sum(tokens for _, tokens in batch)
        ages = [self._buffer.trainer_version - ticket.version for ticket, _ in batch]
        rate = self.rates.trainer_tokens_per_gpu_second * self.trainer_gpus
        seconds = self.rates.trainer_fixed_seconds + tokens / rate
        self._events.after(seconds, lambda: self._trained(tokens, ages))

    def _trained(self, tokens: int, ages: list[int]) -> None:
        self._buffer.trained()
        self._is_training = False
        perf = self._metrics.end_step()
        idle = perf["perf/generator_idle"], perf["perf/trainer_idle"]
        self.steps.append(Step(perf["perf/step_seconds"], *idle, tokens, ages))
        self._owes_push = self._buffer.wants_push()
        self._trainer_waits()
        self._push()
        self._train()

    def _push(self) -> None:
        """Send the newest weights; one push at a time, for which the trainer waits, as in the run."""
        if not self._owes_push or self._is_pushing:
            return
        self._owes_push, self._is_pushing = False, True
        version, pause = self._buffer.trainer_version, self.rates.weights_pause_seconds
        self._events.after(self.rates.weights_seconds - pause, lambda: self._pause(True))
        self._events.after(self.rates.weights_seconds, lambda: self._pushed(version))

    def _pause(self, is_paused: bool) -> None:
        for engine in self._engines:
            engine.pause(is_paused)

    def _pushed(self, version: int) -> None:
        self._pause(False)
        self._is_pushing = False
        self._buffer.pushed(version)
        self._push()
        self._admit()
        self._train()
