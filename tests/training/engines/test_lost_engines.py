"""A pool whose engines are lost: what they owed, what the next ones get first, and when it is given up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from training.engines.pool import MOST_LOST_IN_A_ROW, EnginePool
from training.errors import EngineLost
from training.rollouts import Completion, Request


class Killed(RuntimeError, EngineLost):
    """What a dead engine's calls end with."""


class Mortal:
    """Answers with the version of its weights once the gate is open, until it is killed."""

    def __init__(self, gate: asyncio.Event | None = None) -> None:
        self.gate = gate or asyncio.Event()
        if gate is None:
            self.gate.set()
        self.dead = asyncio.Event()
        self.version = 0
        self.asked: list[Request] = []

    async def _until(self, event: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(one.wait()) for one in (event, self.dead)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self.dead.is_set():
            raise Killed("killed")

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        self.asked += requests
        await self._until(self.gate)
        return [Completion(request.tokens, [0.0], True, [self.version]) for request in requests]

    async def update_weights(self, weights: Any, version: int) -> None:
        await self._until(self.gate)
        self.version = version

    async def interrupt(self) -> None:
        await self._until(self.gate)


class Workshop:
    """Makes engines when `gate` is open; the first `broken` of them are dead."""

    def __init__(self, *, broken: int = 0) -> None:
        self.gate, self.made, self.broken = asyncio.Event(), [], broken
        self.gate.set()

    async def replace(self, seat: int, error: Exception) -> Mortal:
        await self.gate.wait()
        engine = Mortal()
        if len(self.made) < self.broken:
            engine.dead.set()
        self.made.append(engine)
        return engine


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(10):
            await work()

    asyncio.run(limited())


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


REQUESTS = [Request([number], 5, seed=number, position=0) for number in range(8)]


def test_what_a_lost_engine_owed_goes_to_the_others() -> None:
    async def work() -> None:
        shop, closed = Workshop(), asyncio.Event()
        shop.gate.clear()
        engines = [Mortal(closed), Mortal()]
        pool = EnginePool(engines, replace=shop.replace)
        running = asyncio.ensure_future(pool.generate(REQUESTS, 1.0))
        await settle()

        engines[0].dead.set()

        completions = await running
        assert [completion.tokens for completion in completions] == [[number] for number in range(8)]
        assert len(engines[0].asked) == 4
        assert sorted(r.tokens[0] for r in engines[1].asked) == list(range(8))
        assert pool.owed == [0, 0] and pool.num_lost == 1 and pool.engines == [engines[1]]
        shop.gate.set()
        await settle()
        assert pool.engines == [shop.made[0], engines[1]]

    run(work)


def test_the_only_engine_is_replaced_and_its_requests_wait() -> None:
    async def work() -> None:
        shop, engine = Workshop(), Mortal(asyncio.Event())
        pool = EnginePool([engine], replace=shop.replace)
        running = asyncio.ensure_future(pool.generate(REQUESTS, 1.0))
        await settle()

        engine.dead.set()

        assert len(await running) == 8 and shop.made[0].asked == REQUESTS

    run(work)


def test_a_new_engine_has_the_newest_weights_before_a_request() -> None:
    """Also those that come while it is made, and while it takes older ones."""

    async def work() -> None:
        shop, engine = Workshop(), Mortal()
        shop.gate.clear()
        other = Mortal()
        pool = EnginePool([engine, other], replace=shop.replace)
        await pool.update_weights(None, 3)  # type: ignore[arg-type]
        engine.dead.set()
        pool.lose(engine, Killed("noticed by itself"))
        pool.lose(engine, Killed("and once more"))
        await pool.update_weights(None, 4)  # type: ignore[arg-type]
        shop.gate.set()
        await settle()

        completions = await pool.generate(REQUESTS, 1.0)

        assert pool.num_lost == 1 and shop.made[0].asked
        assert {version for completion in completions for version in completion.versions} == {4}

    run(work)


def test_a_swap_that_kills_an_engine_ends_for_the_others() -> None:
    async def work() -> None:
        shop = Workshop()
        engines = [Mortal(), Mortal(asyncio.Event())]
        pool = EnginePool(engines, replace=shop.replace)
        swap = asyncio.ensure_future(pool.update_weights(None, 7))  # type: ignore[arg-type]
        await settle()
        assert not swap.done()

        engines[1].dead.set()

        await swap
        await settle()
        assert [engine.version for engine in pool.engines] == [7, 7]

    run(work)


def test_what_was_to_be_interrupted_begins_nowhere_else() -> None:
    async def work() -> None:
        shop, engine = Workshop(), Mortal(asyncio.Event())
        shop.gate.clear()
        pool = EnginePool([engine], replace=shop.replace)
        running = asyncio.ensure_future(pool.generate(REQUESTS, 1.0))
        await settle()
        engine.dead.set()
        await settle()

        await pool.interrupt()

        assert await running == [Completion.unstarted()] * 8
        later = asyncio.ensure_future(pool.generate(REQUESTS, 1.0))
        shop.gate.set()
        assert not any(completion.interrupted for completion in await later)

    run(work)


def test_engines_that_are_lost_in_a_row_end_the_pool() -> None:
    async def work() -> None:
        shop, told = Workshop(broken=100), []
        engine = Mortal()
        pool = EnginePool([engine, Mortal()], replace=shop.replace, on_failure=told.append)
        await pool.update_weights(None, 1)  # type: ignore[arg-type]
        engine.dead.set()

        pool.lose(engine, Killed("first"))
        while not told:
            await asyncio.sleep(0)

        assert len(shop.made) == MOST_LOST_IN_A_ROW
        with pytest.raises(Killed):
            await pool.generate(REQUESTS, 1.0)

    run(work)


def test_an_engine_that_has_answered_may_be_lost_again() -> None:
    async def work() -> None:
        shop = Workshop()
        pool = EnginePool([Mortal()], replace=shop.replace)
        for _ in range(3 * MOST_LOST_IN_A_ROW):
            (engine,) = pool.engines
            engine.dead.set()  # type: ignore[attr-defined]
            assert len(await pool.generate(REQUESTS, 1.0)) == 8
        assert pool.num_lost == 3 * MOST_LOST_IN_A_ROW

    run(work)


def test_a_closed_pool_replaces_nothing() -> None:
    async def work() -> None:
        shop, engine = Workshop(), Mortal()
        shop.gate.clear()
        pool = EnginePool([engine], replace=shop.replace)
        pool.lose(engine, Killed("killed"))
        await settle()

        pool.close()
        shop.gate.set()
        await settle()

        assert not shop.made

    run(work)
