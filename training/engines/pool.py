"""Several engines as one: requests are spread by load, weights go to all at the same time. No torch, no Ray.

    generate ─► split into prefix groups ─► each to the engine that owes the fewest tokens ─► answers in order

A request that goes on with an interrupted response goes to the engine that made it, where the balance allows: its cache
may hold what there is.

An engine that is lost (`training.errors.EngineLost`) leaves its seat. What it owed goes to the others, from the tokens
that the requests bring; without another engine it waits. `replace` makes a new engine, which gets the newest weights
before it gets a request. A seat whose engines are lost again and again without having answered ends the pool.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any

from training.errors import is_engine_lost, telling_line
from training.rollouts import Completion, Generator, Request

if TYPE_CHECKING:
    from training.transfer import Weights

log = logging.getLogger("training")

GENERATE_TIMEOUT_SECONDS = 3600.0
UPDATE_TIMEOUT_SECONDS = 600.0
MOST_LOST_IN_A_ROW = 3  # engines of one seat, none of which has completed a request
_KNOWN_BY_TOKENS = 64  # of a response: it and the prompt tell which one it is
_MOST_KNOWN = 65_536  # responses whose engines are remembered
_ALLOWED_IMBALANCE = 1.05  # of an engine's load, so that a group of equal prompts may stay together


class EngineError(RuntimeError):
    """An engine failed or did not answer; the message names it."""


class _Lost(Exception):
    """An engine was lost in a call."""


class EnginePool:
    """A `training.rollouts.Generator` over others, here or behind Ray actors; an engine may have a `name`.

    replace: makes another engine for a seat whose engine was lost; without it, losing one is an error.
    on_failure: is told when the pool is at its end, and of what.
    num_lost: engines that were lost.
    """

    def __init__(
        self,
        engines: Sequence[Generator],
        *,
        replace: Callable[[int, Exception], Awaitable[Generator]] | None = None,
        on_failure: Callable[[Exception], None] = lambda error: None,
        generate_timeout_seconds: float = GENERATE_TIMEOUT_SECONDS,
        update_timeout_seconds: float = UPDATE_TIMEOUT_SECONDS,
    ) -> None:
        if not engines:
            raise ValueError("a pool needs at least one engine")
        self._seats: list[Generator | None] = list(engines)
        self._replace, self._on_failure = replace, on_failure
        self._generate_timeout, self._update_timeout = generate_timeout_seconds, update_timeout_seconds
        self.owed = [0] * len(engines)  # tokens that each engine may still have to make
        self._in_a_row = [0] * len(engines)  # lost without an answer
        self._replacing: set[asyncio.Task[None]] = set()
        self._made_by: dict[
            int, Generator
        ] = {}  # responses that may be gone on with -> their engine, oldest first
        self._newest: tuple[Weights, int] | None = None
        self._interrupts = 0
        self._changed = asyncio.Event()
        self._failure: Exception | None = None
        self.num_lost = 0

    @property
    def engines(self) -> list[Generator]:
        """Those that can be asked now."""
        return [engine for engine in self._seats if engine is not None]

    # -- what a generator does -------------------------------------------------------------------------------

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        """All requests, in order. Raises EngineError at the first engine that fails; the others' work is dropped."""
        return await self._complete(requests, temperature, self._interrupts)

    async def _complete(
        self, requests: list[Request], temperature: float, interrupts: int
    ) -> list[Completion]:
        """`interrupts`: as many as there had been when the requests came; what was to be ended begins nowhere else."""
        if not requests:
            return []
        await self._until(lambda: bool(self._filled()) or self._interrupts != interrupts)
        if self._interrupts != interrupts:
            return [Completion.unstarted() for _ in requests]
        seats = self._filled()
        shares = spread(requests, [self.owed[seat] for seat in seats], self._makers(requests, seats))
        given = [(seat, share) for seat, share in zip(seats, shares, strict=True) if share]
        parts = await _all(
            [
                self._share(seat, [requests[index] for index in share], temperature, interrupts)
                for seat, share in given
            ]
        )
        completions: dict[int, Completion] = {}
        for (_, share), part in zip(given, parts, strict=True):
            completions.update(zip(share, part, strict=True))
        return [completions[index] for index in range(len(requests))]

    async def _share(
        self, seat: int, requests: list[Request], temperature: float, interrupts: int
    ) -> list[Completion]:
        """One engine's, or, where it is lost, that of the engines that are left."""
        owed = sum(request.max_tokens for request in requests)
        what = f"{len(requests)} completions"
        self.owed[seat] += owed
        try:
            completions = await self._ask(
                seat, lambda g: g.generate(requests, temperature), self._generate_timeout, what
            )
        except _Lost:
            completions = None
        finally:
            self.owed[seat] -= owed
        if completions is None:
            return await self._complete(requests, temperature, interrupts)
        self._in_a_row[seat] = 0
        if len(self._seats) > 1:
            self._remember(seat, requests, completions)
        if len(completions) != len(requests):
            raise EngineError(
                f"{self._name(seat)} gave {len(completions)} completions for {len(requests)} requests"
            )
        return completions

    def _makers(self, requests: Sequence[Request], seats: Sequence[int]) -> list[int | None]:
        """For each request the place among `seats` of the engine that made the beginning of its response."""
        places = {id(self._seats[seat]): place for place, seat in enumerate(seats)}
        made_by = (self._made_by.get(known) if (known := _known_by(r)) else None for r in requests)
        return [places.get(id(engine)) for engine in made_by]

    def _remember(self, seat: int, requests: list[Request], completions: list[Completion]) -> None:
        """Who made the responses that are not finished."""
        engine = self._seats[seat]
        for request, completion in zip(requests, completions, strict=False):
            known = None if completion.finished else _known_by(request, completion.tokens)
            if known is not None and engine is not None:
                self._made_by[known] = engine
        while len(self._made_by) > _MOST_KNOWN:
            del self._made_by[next(iter(self._made_by))]

    async def update_weights(self, weights: "Weights", version: int) -> None:
        """To all engines at the same time; returns when all that are there, at least one, have them in force. One that
        is made later gets them first. Raises EngineError."""
        self._newest = weights, version
        await self._ask_all(
            lambda g: g.update_weights(weights, version),
            self._update_timeout,
            f"weights of version {version}",
        )
        await self._until(lambda: bool(self._filled()))

    async def interrupt(self) -> None:
        """End all running calls of `generate` now, with what they have. Raises EngineError."""
        self._interrupts += 1
        self._has_changed()
        await self._ask_all(lambda g: g.interrupt(), self._update_timeout, "an interrupt")

    # -- losing engines --------------------------------------------------------------------------------------

    def lose(self, engine: Generator, error: Exception) -> None:
        """An engine is gone, of which nobody needs to have asked anything. Told twice it counts once."""
        if self._replace is None or engine not in self._seats:
            return
        seat = self._seats.index(engine)
        self._seats[seat] = None
        self.num_lost += 1
        task = asyncio.ensure_future(self._fill(seat, error))
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    def close(self) -> None:
        """Replace no engine any more."""
        for task in self._replacing:
            task.cancel()

    async def _fill(self, seat: int, error: Exception) -> None:
        """Have a new engine in an empty seat, with the newest weights."""
        assert self._replace is not None
        engine = None
        while engine is None:
            self._in_a_row[seat] += 1
            if self._in_a_row[seat] > MOST_LOST_IN_A_ROW:
                self._failure = error
                self._on_failure(error)
                break
            try:
                made = await self._replace(seat, error)
                await self._bring_up_to_date(made)
                engine = made
            except Exception as problem:
                log.warning("the engine in its place is of no use: %s", telling_line(problem))
                error = problem
        self._seats[seat] = engine
        self._has_changed()

    async def _bring_up_to_date(self, engine: Generator) -> None:
        """Newer weights may be sent to the others meanwhile; what it holds may be newer than what they hold."""
        held = -1
        while self._newest is not None and held < self._newest[1]:
            weights, version = self._newest
            async with asyncio.timeout(self._update_timeout):
                got = await engine.update_weights(weights, version)
            held = version if got is None else got

    def _filled(self) -> list[int]:
        return [seat for seat, engine in enumerate(self._seats) if engine is not None]

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Raises what the pool has ended of."""
        while True:
            if self._failure is not None:
                raise self._failure
            if condition():
                return
            await self._changed.wait()

    def _has_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # -- asking ----------------------------------------------------------------------------------------------

    async def _ask_all(self, ask: Callable[[Generator], Awaitable[Any]], timeout: float, what: str) -> None:
        """All that are there; those that are lost by it need not answer."""

        async def of(seat: int) -> None:
            with suppress(_Lost):
                await self._ask(seat, ask, timeout, what)

        await _all([of(seat) for seat in self._filled()])

    async def _ask(
        self, seat: int, ask: Callable[[Generator], Awaitable[Any]], timeout: float, what: str
    ) -> Any:
        """One engine's answer. An error says which engine, of several, and what it was asked for. Raises _Lost."""
        engine, name = self._seats[seat], self._name(seat)
        if engine is None:  # lost since it was chosen
            raise _Lost
        try:
            async with asyncio.timeout(timeout) as limit:
                return await ask(engine)
        except Exception as error:
            if self._replace is not None and is_engine_lost(error):
                self.lose(engine, error)
                raise _Lost from error
            if isinstance(error, TimeoutError) and limit.expired():
                raise EngineError(f"{name} has not answered for {timeout:g} s ({what})") from error
            if len(self._seats) == 1:
                raise
            raise EngineError(f"{name} failed ({what}): {error}") from error

    def _name(self, seat: int) -> str:
        return getattr(self._seats[seat], "name", f"generator {seat} of {len(self._seats)}")


def spread(
    requests: Sequence[Request], owed: Sequence[int], makers: Sequence[int | None] | None = None
) -> list[list[int]]:
    """Indices of the requests that each engine gets, given the tokens that it owes already.

    makers: the engine that has made the beginning of each request's response, if any. That engine gets it, and
    neighbours with equal prompts stay together, where no engine gets more than its fair share by that; others go one by
    one to the engine that owes the fewest tokens.
    """
    load, shares = list(owed), [[] for _ in owed]  # type: list[int], list[list[int]]
    total = sum(load) + sum(request.max_tokens for request in requests)
    fair = _ALLOWED_IMBALANCE * max(total / len(load), *load, 0)
    known = makers or [None] * len(requests)

    def give(engine: int, indices: list[int]) -> None:
        load[engine] += sum(requests[index].max_tokens for index in indices)
        shares[engine].extend(indices)

    others = []
    for index, maker in enumerate(known):
        if maker is not None and load[maker] + requests[index].max_tokens <= fair:
            give(maker, [index])
        else:
            others.append(index)
    for _, indices in groupby(others, key=lambda index: requests[index].tokens):
        group = list(indices)
        size = sum(requests[index].max_tokens for index in group)
        parts = [group] if min(load) + size <= fair else [[index] for index in group]
        for part in parts:
            give(min(range(len(load)), key=load.__getitem__), part)
    return [sorted(share) for share in shares]


def _known_by(request: Request, made: Sequence[int] = ()) -> int | None:
    """What tells the response of a request, with what it has `made` since, from others; None where it is short."""
    if request.position + len(made) < _KNOWN_BY_TOKENS:
        return None
    end = len(request.tokens) - request.position + _KNOWN_BY_TOKENS
    return hash((*request.tokens[:end], *made[: max(0, end - len(request.tokens))]))


async def _all(calls: list[Any]) -> list[Any]:
    """Results of all; at the first error the others are cancelled."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
