"""How far generation may run ahead: an accounting identity, not an age check afterwards. No torch, no Ray.

Groups of samples are numbered in the order in which they start. Batch s, trained at version s, is made of the groups
s*P ... s*P + P - 1 (P prompts a step), whichever finishes first. Group n may start only while

    n < (g + depth + 1) * P        g = version of the weights in the generator

so a group started with weights g is trained at version floor(n / P) <= g + depth: the trainer is never more than
`depth` versions ahead of a sample. depth 0 is synchronous; PipelineRL-k is depth k with a push after every update;
PPO-off-policy-k is depth k - 1 with a push after every k updates, whose k batches are complete before the first.

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
        return self._is_allowed(Ticket(self._next, self.generator_version))

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
        """Whether the next batch can be trained: it, or at the start of a block the whole block, has finished."""
        is_block_start = self.trainer_version % self._push_every == 0
        until = self.trainer_version + (self._push_every if is_block_start else 1)
        wanted = range(self.trainer_version * self._prompts, until * self._prompts)
        return not self._taken and all(number in self._finished for number in wanted)

    def take(self) -> list[tuple[Ticket, T]]:
        """The next batch, in order. Its groups stay counted until `trained`."""
        if not self.is_ready():
            raise RuntimeError("the next batch is not complete, or one is being trained")
        first = self.trainer_version * self._prompts
        self._taken = [self._finished.pop(number) for number in range(first, first + self._prompts)]
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

    def _is_allowed(self, ticket: Ticket) -> bool:
        """The bound."""
        return ticket.number < (ticket.version + self._depth + 1) * self._prompts

    def _check_restored(self) -> None:
        """Each number from the trainer's next on is there once, and keeps the bound."""
        tickets = [*self._running.values(), *(ticket for ticket, _ in self._finished.values())]
        expected = range(self.trainer_version * self._prompts, self._next)
        if sorted(ticket.number for ticket in tickets) != list(expected):
            raise ValueError("the groups of the state are not those that follow its last update")
        newest = max((ticket.version for ticket in tickets), default=0)
        if not newest <= self.generator_version <= self.trainer_version:
            raise ValueError("the versions of the state do not fit together")
        if not all(self._is_allowed(ticket) for ticket in tickets):
            raise ValueError(f"a group of the state would be more than {self._depth} versions old")
