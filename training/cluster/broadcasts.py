"""Weights by broadcast, as the driver sees them: who takes part, and what happens when an engine dies meanwhile.

    one round    ranks send  ──►  engines receive while they generate  ──►  all have confirmed  ──►  each engine swaps

A round has a group of the trainer's first rank and the engines that are there. Where one of them dies, the round is
given up and the next one begins with the others, from what the trainer holds then. A new engine that needs weights
between two updates gets a round of its own.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from training.addresses import Group
from training.cluster.parts import Part, first_error_or_all

BLAME_SECONDS = 3.0  # after an error: an engine whose death caused it may become known


@dataclass(frozen=True)
class Round:
    """One broadcast of all weights. `version`: what they are."""

    group: Group
    version: int
    engines: list[Part]
    calls: list[tuple[Part, Any]]  # ranks send, engines begin to receive

    async def arrive(self) -> None:
        """Returns when every engine has confirmed that it holds what was sent."""
        await first_error_or_all([part.result(reference) for part, reference in self.calls])


class Broadcasts:
    """Begins rounds.

    serving: the engines that get prompts now. version: of the trainer after the calls made so far. workers: processes
    of each engine.
    """

    def __init__(
        self,
        ranks: Sequence[Part],
        serving: Callable[[], list[Part]],
        *,
        version: Callable[[], int],
        workers: int = 1,
    ) -> None:
        self._ranks, self.serving, self.version, self._workers = list(ranks), serving, version, workers
        self._group, self._members = Group(0, 0), list[Part]()

    def begin(self, engines: list[Part]) -> Round:
        """Have ranks send to these engines, after what they have been told to do before."""
        if engines != self._members:  # who has been in a round that failed is in another group, too
            size = 1 + self._workers * len(engines)
            self._group, self._members = Group(self._group.number + 1, size), list(engines)
        group = self._group
        calls = [(rank, rank.submit("broadcast", group)) for rank in self._ranks]
        calls += [
            (engine, engine.submit("call", "receive_weights", group, 1 + number * self._workers))
            for number, engine in enumerate(engines)
        ]
        return Round(group, self.version(), engines, calls)

    async def arrived(self, round: Round | None) -> Round | None:
        """A round that has arrived, or what took its place; None where no engine of it is left."""
        while round is not None:
            arriving = asyncio.ensure_future(round.arrive())
            arriving.add_done_callback(lambda done: done.cancelled() or done.exception())
            try:
                left = await self._left_after(round, arriving)
                if left is None:
                    return round
                dead = ", ".join(str(engine) for engine in round.engines if engine.death.done())
                self._members = []
                await self._ranks[0].call("give_up_broadcast", round.group, f"{dead} died")
                await asyncio.wait({arriving})
            finally:
                arriving.cancel()
            round = self.begin(left) if left else None
        return None

    async def _left_after(self, round: Round, arriving: "asyncio.Future[None]") -> list[Part] | None:
        """The engines that are left of a round in which one died; None once it has arrived. Raises what else happened
        to it."""
        deaths: list[asyncio.Future[None]] = [engine.death for engine in round.engines]
        await asyncio.wait({arriving, *deaths}, return_when=asyncio.FIRST_COMPLETED)
        if arriving.done() and not arriving.exception():
            return None
        if not any(death.done() for death in deaths):
            await asyncio.wait(deaths, timeout=BLAME_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        left = [engine for engine in round.engines if not engine.death.done()]
        if len(left) == len(round.engines):
            arriving.result()
        return left


class BroadcastWeights:
    """The weights of one version on their way: what `RemoteTrainer.weights` gives."""

    def __init__(self, broadcasts: Broadcasts) -> None:
        self._broadcasts = broadcasts
        engines = broadcasts.serving()
        self._engines = engines
        self._arriving = asyncio.ensure_future(
            broadcasts.arrived(broadcasts.begin(engines) if engines else None)
        )

    async def deliver(self, engine: Part, version: int) -> int:
        """Have one engine take them; returns their version, at least this one, when they are in force there."""
        if engine in self._engines:
            round = await asyncio.shield(self._arriving)
        else:  # a new one
            round = await self._broadcasts.arrived(self._broadcasts.begin([engine]))
        if round is None or engine not in round.engines:
            raise engine.gone(f"{engine} has died")
        held = max(version, round.version)
        await engine.call("call", "use_weights", held)
        return held
