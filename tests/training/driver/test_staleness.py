import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.deep import examples
from training.driver.staleness import BufferState, Ticket, WorkBuffer


class Schedules(RuleBasedStateMachine):
    """Any order of what the loops may do, held against a model that knows nothing of the buffer's arithmetic.

    The model keeps, for each group that was ever started, what has become of it and the weights it began with. A stop
    and resume, and an evaluation pause, may come at any point, with groups running; a group may take as long as it
    likes.
    """

    @initialize(prompts=st.integers(1, 4), depth=st.integers(0, 4), push_every=st.integers(1, 4))
    def begin(self, prompts: int, depth: int, push_every: int) -> None:
        self.settings = {
            "prompts_per_step": prompts,
            "depth": max(depth, push_every - 1),
            "push_every": push_every,
        }
        self.buffer: WorkBuffer[str] = WorkBuffer(**self.settings)
        self.running: list[Ticket] = []
        self.begun_with: dict[int, int] = {}  # group -> version of the generator when it began
        self.trained: list[int] = []
        self.taken: list[int] = []
        self.versions = {"trainer": 0, "generator": 0}
        self.is_paused = False

    @precondition(lambda self: not self.is_paused and self.buffer.may_start())
    @rule()
    def start(self) -> None:
        ticket = self.buffer.start()
        assert ticket.number not in self.begun_with
        self.begun_with[ticket.number] = self.versions["generator"]
        self.running.append(ticket)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        ticket = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        self.buffer.finish(ticket, f"group {ticket.number}")

    @precondition(lambda self: self.buffer.is_ready())
    @rule()
    def take(self) -> None:
        for ticket, group in self.buffer.take():
            assert group == f"group {ticket.number}"
            assert ticket.version == self.begun_with[ticket.number]
            age = self.versions["trainer"] - self.begun_with[ticket.number]
            assert 0 <= age <= self.settings["depth"]
            self.taken.append(ticket.number)

    @precondition(lambda self: self.taken)
    @rule()
    def train(self) -> None:
        self.buffer.trained()
        self.versions["trainer"] += 1
        self.trained += self.taken
        self.taken = []

    @precondition(lambda self: self.buffer.wants_push())
    @rule()
    def push(self) -> None:
        self.buffer.pushed(self.versions["trainer"])
        self.versions["generator"] = self.versions["trainer"]

    @rule()
    def pause_for_an_evaluation(self) -> None:
        self.is_paused = True

    @precondition(lambda self: self.is_paused)
    @rule()
    def end_of_the_evaluation(self) -> None:
        self.is_paused = False

    @rule()
    def stop_and_resume(self) -> None:
        """The batch that was being trained is untrained again."""
        self.buffer = WorkBuffer(**self.settings, state=self.buffer.state())
        self.taken, self.is_paused = [], False
        assert sorted(self.buffer.state().running, key=lambda t: t.number) == sorted(
            self.running, key=lambda t: t.number
        )

    @invariant()
    def each_group_is_trained_once_and_where_phases_alternate_in_order(self) -> None:
        if hasattr(self, "buffer"):
            trained = self.trained if self.buffer.is_lockstep else sorted(self.trained)
            assert trained == sorted(set(trained))
            assert not self.buffer.is_lockstep or trained == list(range(len(trained)))

    @invariant()
    def nobody_waits_without_need(self) -> None:
        """Not ready with a batch finished: then the oldest that still run could no longer be trained in time."""
        if not hasattr(self, "buffer") or self.taken or self.settings["push_every"] > 1:
            return
        prompts, depth = self.settings["prompts_per_step"], self.settings["depth"]
        finished = sorted(ticket.number for ticket, _ in self.buffer.state().finished)
        if len(finished) >= prompts and not self.buffer.is_ready():
            step = self.versions["trainer"]
            left = set(finished[prompts:]) | {ticket.number for ticket in self.running}
            due = {v: sum(self.begun_with[n] <= v for n in left) for v in range(step + 1)}
            assert any(count > prompts * (v + depth - step) for v, count in due.items())

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "buffer"):
            state = self.buffer.state()
            there = {ticket.number for ticket in state.running} | {t.number for t, _ in state.finished}
            assert there == self.begun_with.keys() - set(self.trained)
            assert self.buffer.num_running == len(self.running)

    @invariant()
    def something_can_be_done(self) -> None:
        """No schedule ends in a deadlock."""
        if hasattr(self, "buffer") and not self.is_paused:
            can = [self.buffer.may_start(), self.buffer.is_ready(), self.buffer.wants_push()]
            assert any(can) or self.running or self.taken

    def teardown(self) -> None:
        """From wherever a schedule has led, running groups finish and each group is trained in time."""
        if not hasattr(self, "buffer"):
            return
        missing, steps = self.begun_with.keys() - set(self.trained), 0
        while missing & (self.begun_with.keys() - set(self.trained)) and steps < 200:
            steps += 1
            while self.buffer.may_start():
                self.start()
            for ticket in self.running:
                self.buffer.finish(ticket, f"group {ticket.number}")
            self.running = []
            if not self.taken and self.buffer.is_ready():
                self.take()
            if self.taken:
                self.train()
            if self.buffer.wants_push():
                self.push()
        assert missing <= set(self.trained)


Schedules.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=60, deadline=None)
TestSchedules = Schedules.TestCase


def drive(buffer: WorkBuffer[int], actions: int, rng: random.Random) -> int:
    """Do random allowed things in random order. Returns the steps made."""
    running = list(buffer.state().running)
    for _ in range(actions):
        action = rng.choice(["start", "start", "start", "finish", "finish", "train", "push"])
        if action == "start" and buffer.may_start():
            running.append(buffer.start())
        elif action == "finish" and running:
            ticket = running.pop(rng.randrange(len(running)))
            buffer.finish(ticket, ticket.number)
        elif action == "train" and buffer.is_ready():
            buffer.take()
            buffer.trained()
        elif action == "push" and buffer.wants_push():
            buffer.pushed(buffer.trainer_version)
    return buffer.trainer_version


class Timeline:
    """A pipeline in time: groups of any length generate beside each other; the trainer and each push take theirs."""

    def __init__(self, prompts: int, depth: int, lengths: list[int], training: int, pushing: int) -> None:
        self.buffer: WorkBuffer[int] = WorkBuffer(prompts_per_step=prompts, depth=depth)
        self._lengths, self._training, self._pushing = lengths, training, pushing
        self._ends: dict[Ticket, int] = {}
        self._trained_at = self._pushed_at = -1  # -1: nothing is under way
        self._sent = 0
        self.ages: list[int] = []
        self.numbers: list[int] = []

    def tick(self, now: int) -> None:
        """All that happens at one time."""
        buffer = self.buffer
        for ticket in [ticket for ticket, end in self._ends.items() if end <= now]:
            del self._ends[ticket]
            buffer.finish(ticket, ticket.number)
        if self._trained_at == now:
            buffer.trained()
            self._trained_at = -1
        if self._pushed_at == now:
            buffer.pushed(self._sent)
            self._pushed_at = -1
        if self._pushed_at < 0 and buffer.wants_push():
            self._sent, self._pushed_at = buffer.trainer_version, now + self._pushing
        if self._trained_at < 0 and buffer.is_ready():
            batch = buffer.take()
            self.ages += [buffer.trainer_version - ticket.version for ticket, _ in batch]
            self.numbers += [ticket.number for ticket, _ in batch]
            self._trained_at = now + self._training
        while buffer.may_start():
            ticket = buffer.start()
            self._ends[ticket] = now + self._lengths[ticket.number % len(self._lengths)]


@settings(max_examples=examples(300), deadline=None)
@given(
    prompts=st.integers(1, 4),
    depth=st.integers(0, 8),
    lengths=st.lists(st.one_of(st.integers(1, 4), st.integers(1, 60)), min_size=1, max_size=20),
    training=st.integers(1, 6),
    pushing=st.integers(1, 12),
)
def test_no_group_is_trained_too_late_and_none_for_ever(
    prompts: int, depth: int, lengths: list[int], training: int, pushing: int
) -> None:
    """Whatever takes how long: each step comes in time for the slowest group, and no group is passed over for ever."""
    line = Timeline(prompts, depth, lengths, training, pushing)
    for now in range(1500):
        line.tick(now)

    assert max(line.ages) <= depth
    assert len(line.numbers) == len(set(line.numbers))
    slowest = max(lengths) + training + pushing + 3
    assert line.buffer.trainer_version >= 1500 // slowest - 2
    assert set(range(len(line.numbers) - (depth + 2) * prompts)) <= set(line.numbers)


@pytest.mark.parametrize(("depth", "push_every"), [(0, 1), (3, 1), (2, 3)])
def test_every_schedule_gets_somewhere(depth: int, push_every: int) -> None:
    buffer: WorkBuffer[int] = WorkBuffer(prompts_per_step=2, depth=depth, push_every=push_every)

    assert drive(buffer, 2000, random.Random(0)) > 20


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 10**6), actions=st.integers(0, 120), k=st.integers(1, 3))
def test_restored_buffer_is_the_same_buffer(seed: int, actions: int, k: int) -> None:
    shape: dict[str, Any] = {"prompts_per_step": 2, "depth": k, "push_every": k}
    buffer: WorkBuffer[int] = WorkBuffer(**shape)
    drive(buffer, actions, random.Random(seed))
    restored: WorkBuffer[int] = WorkBuffer(**shape, state=buffer.state())

    drive(buffer, 50, random.Random(seed + 1))
    drive(restored, 50, random.Random(seed + 1))

    assert restored.state() == buffer.state()


def test_depth_bounds_what_starts_before_the_first_step() -> None:
    buffer: WorkBuffer[str] = WorkBuffer(prompts_per_step=2, depth=3)
    started = 0
    while buffer.may_start():
        buffer.start()
        started += 1

    assert started == 2 * (3 + 1)


def test_batch_is_the_oldest_that_have_finished() -> None:
    buffer: WorkBuffer[str] = WorkBuffer(prompts_per_step=2, depth=1)
    tickets = [buffer.start() for _ in range(4)]
    for ticket in reversed(tickets[1:]):
        buffer.finish(ticket, str(ticket.number))

    assert buffer.take() == [(tickets[1], "1"), (tickets[2], "2")]


def test_straggler_holds_a_step_up_only_where_it_would_come_too_late() -> None:
    buffer: WorkBuffer[str] = WorkBuffer(prompts_per_step=1, depth=2)
    straggler = buffer.start()
    versions = []
    for _ in range(5):
        if buffer.may_start():
            buffer.finish(buffer.start(), "quick")
        if buffer.is_ready():
            versions.append(buffer.take()[0][0].version)
            buffer.trained()
            buffer.pushed(buffer.trainer_version)

    assert buffer.trainer_version == 2  # the last version at which the straggler may be trained
    assert versions == [0, 1]
    buffer.finish(straggler, "slow")
    assert buffer.take() == [(straggler, "slow")]


def test_lockstep_never_overtakes() -> None:
    for depth, push_every in [(0, 1), (1, 2)]:
        buffer: WorkBuffer[str] = WorkBuffer(prompts_per_step=1, depth=depth, push_every=push_every)
        tickets = [buffer.start() for _ in range(push_every)]
        for ticket in reversed(tickets):
            assert not buffer.is_ready()
            buffer.finish(ticket, "a")

        assert buffer.take()[0][0] == tickets[0]


def test_ppo_trains_on_complete_blocks_also_after_a_resume() -> None:
    shape: dict[str, Any] = {"prompts_per_step": 1, "depth": 1, "push_every": 2}
    buffer: WorkBuffer[str] = WorkBuffer(**shape)
    first, second = buffer.start(), buffer.start()
    buffer.finish(first, "a")
    assert not buffer.is_ready()

    buffer.finish(second, "b")
    buffer.take()
    buffer.trained()
    assert not buffer.wants_push()
    buffer = WorkBuffer(**shape, state=buffer.state())
    assert buffer.is_ready() and not buffer.may_start() and not buffer.wants_push()
    assert buffer.take() == [(second, "b")]
    buffer.trained()
    assert buffer.wants_push()


@pytest.mark.parametrize(
    ("depth", "push_every", "is_lockstep"), [(0, 1, True), (1, 1, False), (2, 3, True), (3, 3, False)]
)
def test_phases_alternate_where_nothing_runs_ahead(depth: int, push_every: int, is_lockstep: bool) -> None:
    buffer: WorkBuffer[str] = WorkBuffer(prompts_per_step=1, depth=depth, push_every=push_every)

    assert buffer.is_lockstep is is_lockstep


def test_misuse_is_refused() -> None:
    buffer: WorkBuffer[str] = WorkBuffer(prompts_per_step=1, depth=0)
    ticket = buffer.start()
    with pytest.raises(RuntimeError, match="more than 0 versions old"):
        buffer.start()
    with pytest.raises(RuntimeError, match="not complete"):
        buffer.take()
    with pytest.raises(RuntimeError, match="no batch"):
        buffer.trained()
    with pytest.raises(RuntimeError, match="not between"):
        buffer.pushed(1)
    with pytest.raises(RuntimeError, match="not being generated"):
        buffer.finish(Ticket(0, version=1), "a")
    buffer.finish(ticket, "a")
    with pytest.raises(RuntimeError, match="not being generated"):
        buffer.finish(ticket, "a")


@pytest.mark.parametrize("wrong", [{"prompts_per_step": 0}, {"depth": -1}, {"push_every": 3}])
def test_impossible_settings(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="depth >= push_every - 1"):
        WorkBuffer(**{"prompts_per_step": 1, "depth": 0, **wrong})


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (BufferState(running=[Ticket(1, 0)]), "not those that its updates have left"),
        (BufferState(finished=[(Ticket(0, 0), "a")], running=[Ticket(0, 0)]), "not those that its updates"),
        (BufferState(1, 1, running=[Ticket(0, 0)] * 2), "not those that its updates have left"),
        (BufferState(1, 1, running=[Ticket(-1, 0)]), "not those that its updates have left"),
        (BufferState(1, 2), "do not fit together"),
        (BufferState(2, 1, running=[Ticket(2, 2)]), "do not fit together"),
        (BufferState(2, 2, running=[Ticket(2, 2), Ticket(3, 1)]), "do not fit together"),
        (BufferState(1, 1, running=[Ticket(0, 0), Ticket(1, 0)]), "more than 1 versions old"),
        (BufferState(2, 2, running=[Ticket(2, 0)]), "more than 1 versions old"),
    ],
)
def test_impossible_state_is_refused(state: BufferState[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        WorkBuffer(prompts_per_step=1, depth=1, state=state)
