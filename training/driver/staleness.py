"""How far generation may run ahead: an accounting identity, not an age check afterwards. No torch, no Ray.

Groups of samples are numbered in the order in which they start; a group that starts with weights of version v may be
trained at version v + depth at the latest. Batch s, trained at version s, is made of the P oldest groups that have
finished (P prompts a step), so a straggler holds nobody up. Two rules keep the bound, with g the version of the weights
in the generator and "waiting" all groups that have started and are not trained:

    start    group n may start while n < (g + depth + 1) * P
    take     batch s may be taken while it leaves, for every v,
             at most P * (v + depth - s) waiting groups that started with v or before

Why no group is trained later than its bound, and nothing stands still:

* Before batch s, for every v, at most P * (v + depth + 1 - s) groups wait that started with v or before (I). At s = 0
  none waits. A start counts for v >= g alone, and the rule of starting is (I) for g, since s * P groups are trained.
  Taking a batch gives (I) for s + 1 by its rule. By (I) none waits at s > v + depth: it was trained at v + depth or
  earlier.
* Where the P oldest waiting groups have finished, they may be taken: of those that started with v or before P are gone,
  or none is left. So the rule waits for running groups alone, and these finish.
* Fewer than P wait and none may start only where g + depth < s: then a push is due.

So with depth 0 a batch is the P groups of its version: synchronous. PipelineRL-k is depth k with a push after every
update. PPO-off-policy-k is depth k - 1 with a push after every k updates, whose k batches have all finished before the
first: no other group can start until then, and the batches are in the order of the numbers.

Nothing here depends on when an attempt of the run began: a restored buffer goes on with the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Ticket:
    """Permission to generate one group: its number and the weights' version at its start."""

    number: int
    version: int


@dataclass(frozen=True)
class BufferState(Generic[T]):
    """Everything in a buffer. Groups that were being trained count as finished; all by number."""

    trainer_version: int = 0
    generator_version: int = 0
    finished: Sequence[tuple[Ticket, T]] = ()
    running: Sequence[Ticket] = ()


class WorkBuffer(Generic[T]):
    """Counts groups from start to training. Misuse raises RuntimeError.

    >>> buffer = WorkBuffer(prompts_per_step=1, depth=0)
    >>> ticket = buffer.start()
    >>> buffer.may_start()  # synchronous: nothing more until the next version is in the generator
    False
    >>> buffer.finish(ticket, "group")
    >>> buffer.take()
    [(Ticket(number=0, version=0), 'group')]
    >>> buffer.trained()
    >>> buffer.pushed(1)
    >>> buffer.may_start()
    True
    """

    def __init__(
        self,
        *,
        prompts_per_step: int,
        depth: int,
        push_every: int = 1,
        state: BufferState[T] = BufferState(),  # noqa: B008 - frozen
    ) -> None:
        """ValueError where the settings are impossible, or the state is none that such a buffer can be in."""
        if prompts_per_step < 1 or depth < 0 or push_every < 1 or depth < push_every - 1:
            raise ValueError("needs prompts_per_step >= 1, push_every >= 1 and depth >= push_every - 1")
        self._prompts, self._depth, self._push_every = prompts_per_step, depth, push_every
        self.trainer_version, self.generator_version = state.trainer_version, state.generator_version
        self._finished = {ticket.number: (ticket, group) for ticket, group in state.finished}
        self._running = {ticket.number: ticket for ticket in state.running}
        self._taken: list[tuple[Ticket, T]] = []
        self._next = self.trainer_version * prompts_per_step + len(state.finished) + len(state.running)
        self._check_restored()

    @property
    def is_lockstep(self) -> bool:
        """Whether generation and training take turns: synchronous, or PPO-off-policy-k."""
        return self._depth == self._push_every - 1

    @property
    def num_running(self) -> int:
        """Groups that are being generated."""
        return len(self._running)

    @property
    def num_untrained(self) -> int:
        """Groups that are being generated or wait for the trainer."""
        return len(self._running) + len(self._finished)

    def state(self) -> BufferState[T]:
        """What a buffer with the same settings needs to go on from here."""
        waiting = [*self._finished.values(), *self._taken]
        return BufferState(
            trainer_version=self.trainer_version,
            generator_version=self.generator_version,
            finished=sorted(waiting, key=lambda pair: pair[0].number),
            running=sorted(self._running.values(), key=lambda ticket: ticket.number),
        )

    def may_start(self) -> bool:
        """Whether one more group keeps the bound."""
        return self._next < (self.generator_version + self._depth + 1) * self._prompts

    def start(self) -> Ticket:
        """Begin a group with the weights that the generator has now."""
        if not self.may_start():
            raise RuntimeError(
                f"group {self._next} would be more than {self._depth} versions old when trained"
            )
        ticket = Ticket(self._next, self.generator_version)
        self._running[ticket.number] = ticket
        self._next += 1
        return ticket

    def finish(self, ticket: Ticket, group: T) -> None:
        """Hand in what was generated."""
        if self._running.get(ticket.number) != ticket:
            raise RuntimeError(f"group {ticket.number} is not being generated")
        del self._running[ticket.number]
        self._finished[ticket.number] = (ticket, group)

    def is_ready(self) -> bool:
        """Whether the next batch, or at the start of a block the whole block, has finished, and those that it leaves
        behind can still be trained in time."""
        is_block_start = self.trainer_version % self._push_every == 0
        wanted = self._prompts * (self._push_every if is_block_start else 1)
        if self._taken or len(self._finished) < wanted:
            return False
        oldest = set(self._oldest_finished())
        left = [ticket for ticket in self._waiting() if ticket.number not in oldest]
        return self._can_be_trained(left, self.trainer_version + 1)

    def take(self) -> list[tuple[Ticket, T]]:
        """The next batch, by number. Its groups stay counted until `trained`."""
        if not self.is_ready():
            raise RuntimeError("the next batch is not complete, or one is being trained")
        self._taken = [self._finished.pop(number) for number in self._oldest_finished()]
        return self._taken

    def trained(self) -> None:
        """The update on the batch taken is done."""
        if not self._taken:
            raise RuntimeError("no batch is being trained")
        self._taken = []
        self.trainer_version += 1

    def wants_push(self) -> bool:
        """Whether the trainer's weights should go to the generator now."""
        is_block_end = self.trainer_version % self._push_every == 0
        return self.generator_version < self.trainer_version and is_block_end

    def pushed(self, version: int) -> None:
        """The generator has these weights; groups that start from now on count from there."""
        if not self.generator_version < version <= self.trainer_version:
            raise RuntimeError(f"version {version} is not between generator and trainer")
        self.generator_version = version

    def _oldest_finished(self) -> list[int]:
        """Numbers of the groups that the next batch would be made of."""
        return sorted(self._finished)[: self._prompts]

    def _waiting(self) -> list[Ticket]:
        """Running and finished, by number, which is by version too."""
        tickets = [*self._running.values(), *(ticket for ticket, _ in self._finished.values())]
        return sorted(tickets, key=lambda ticket: ticket.number)

    def _can_be_trained(self, tickets: Sequence[Ticket], first: int) -> bool:
        """Whether batches from number `first` on can take all of these, oldest first, each within its bound."""
        return all(
            place < self._prompts * (ticket.version + self._depth + 1 - first)
            for place, ticket in enumerate(tickets)
        )

    def _check_restored(self) -> None:
        """Numbers and versions are of groups that have started, each is there once, and the bound can be kept."""
        tickets = self._waiting()
        numbers = [ticket.number for ticket in tickets]
        num_waiting = self._next - self.trainer_version * self._prompts
        if len(set(numbers)) < num_waiting or not all(0 <= number < self._next for number in numbers):
            raise ValueError("the groups of the state are not those that its updates have left")
        versions = [0, *(ticket.version for ticket in tickets), self.generator_version, self.trainer_version]
        if versions != sorted(versions):
            raise ValueError("the versions of the state do not fit together")
        if not self._can_be_trained(tickets, self.trainer_version):
            raise ValueError(f"a group of the state would be more than {self._depth} versions old")
