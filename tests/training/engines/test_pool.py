import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.deep import examples
from training.engines.pool import EngineError, EnginePool, spread
from training.rollouts import Completion, Request


class Echo:
    """Answers each request with its own tokens once the gate is open; counts what it is asked."""

    def __init__(
        self, gate: asyncio.Event | None = None, error: Exception | None = None, name: str = ""
    ) -> None:
        self.gate, self.error = gate, error
        if name:
            self.name = name
        self.requests: list[Request] = []
        self.versions: list[int] = []
        self.was_interrupted = self.was_cancelled = False

    async def _answer(self) -> None:
        if self.error:
            raise self.error
        try:
            if self.gate:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        self.requests += requests
        await self._answer()
        return [Completion([request.max_tokens], [temperature], True, [0]) for request in requests]

    async def update_weights(self, weights: Any, version: int) -> None:
        await self._answer()
        self.versions.append(version)

    async def interrupt(self) -> None:
        await self._answer()
        self.was_interrupted = True


REQUESTS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 40), st.integers(1, 20)).map(
        lambda drawn: [Request([drawn[0]], drawn[1])] * drawn[2]
    ),
    max_size=12,
).map(lambda groups: [request for group in groups for request in group])


@settings(max_examples=examples(200), deadline=None)
@given(num_engines=st.integers(1, 7), requests=REQUESTS)
def test_all_are_answered_once_in_order(num_engines: int, requests: list[Request]) -> None:
    numbered = [Request(request.tokens, index + 1) for index, request in enumerate(requests)]
    engines = [Echo() for _ in range(num_engines)]
    pool = EnginePool(engines)

    completions = asyncio.run(pool.generate(numbered, 0.5))

    assert completions == [Completion([index + 1], [0.5], True, [0]) for index in range(len(numbered))]
    assert sum(len(engine.requests) for engine in engines) == len(numbered)
    assert pool.owed == [0] * num_engines


@settings(max_examples=examples(300), deadline=None)
@given(owed=st.lists(st.integers(0, 500), min_size=1, max_size=7), requests=REQUESTS)
def test_load_is_balanced(owed: list[int], requests: list[Request]) -> None:
    """No engine that gets something ends further above its fair share than one request, and 5 %, allow."""
    shares = spread(requests, owed)

    assert sorted(index for share in shares for index in share) == list(range(len(requests)))
    total = sum(owed) + sum(request.max_tokens for request in requests)
    longest = max((request.max_tokens for request in requests), default=0)
    for before, share in zip(owed, shares, strict=True):
        after = before + sum(requests[index].max_tokens for index in share)
        assert share == sorted(share)
        assert after <= 1.05 * max(total / len(owed), *owed) + longest


def test_groups_stay_together_where_the_balance_allows() -> None:
    requests = [Request([prompt], 10) for prompt in range(8) for _ in range(4)]

    shares = spread(requests, [0, 0, 0, 0])

    assert [len(share) for share in shares] == [8] * 4
    assert all(len({requests[index].tokens[0] for index in share}) == 2 for share in shares)
    assert [len(share) for share in spread(requests[:4], [0, 0, 0, 0])] == [1] * 4  # one group alone does not


class Long(Echo):
    """Makes as many tokens as it may, each the place in the response, and is never finished by itself."""

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        self.requests += requests
        return [
            Completion([tokens % 7 + r.tokens[0] for tokens in range(r.max_tokens)], [], False, [])
            for r in requests
        ]


def test_what_goes_on_goes_to_the_engine_that_made_it_and_new_ones_elsewhere() -> None:
    async def work() -> None:
        engines = [Long(), Long(), Long()]
        pool = EnginePool(engines)
        requests = [Request([number * 10, 1], 80 + number) for number in range(9)]
        made = await pool.generate(requests, 1.0)
        before = {r.tokens[0]: place for place, engine in enumerate(engines) for r in engine.requests}
        rest = [
            Request(r.tokens + c.tokens + [3, 3], 20, position=len(c.tokens) + 2)
            for r, c in zip(requests, made, strict=True)
        ]
        for engine in engines:
            engine.requests.clear()

        await pool.generate(rest[::-1], 1.0)

        after = {r.tokens[0]: place for place, engine in enumerate(engines) for r in engine.requests}
        assert after == before and set(before.values()) == {0, 1, 2}

    asyncio.run(work())


def test_balance_comes_before_the_engine_that_made_it() -> None:
    requests = [Request([5] * 100, 10, position=90)] * 4

    assert [len(share) for share in spread(requests, [0, 0], [0] * 4)] == [2, 2]
    assert [len(share) for share in spread(requests, [0, 30], [1] * 4)] == [4, 0]


def test_a_busy_engine_gets_less() -> None:
    async def work() -> list[Echo]:
        gate = asyncio.Event()
        engines = [Echo(gate), Echo(gate)]
        pool = EnginePool(engines)
        first = asyncio.ensure_future(pool.generate([Request([1], 100)], 1.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pool.owed == [100, 0]
        second = asyncio.ensure_future(pool.generate([Request([i], 10) for i in range(10)], 1.0))
        gate.set()
        await asyncio.gather(first, second)
        return engines

    engines = asyncio.run(work())
    assert [len(engine.requests) for engine in engines] == [1, 10]


def test_weights_are_in_force_when_all_have_them() -> None:
    async def work() -> None:
        gate = asyncio.Event()
        engines = [Echo(), Echo(gate), Echo()]
        update = asyncio.ensure_future(EnginePool(engines).update_weights(None, 3))  # type: ignore[arg-type]
        while not all(engines[i].versions for i in (0, 2)):
            await asyncio.sleep(0)
        assert not update.done()
        gate.set()
        await update
        assert [engine.versions for engine in engines] == [[3]] * 3

    asyncio.run(asyncio.wait_for(work(), 10))


def test_interrupt_reaches_all() -> None:
    engines = [Echo(), Echo()]
    asyncio.run(EnginePool(engines).interrupt())
    assert all(engine.was_interrupted for engine in engines)


CALLS = {
    "generate": lambda pool: pool.generate([Request([i], 5) for i in range(6)], 1.0),
    "update_weights": lambda pool: pool.update_weights(None, 4),
    "interrupt": lambda pool: pool.interrupt(),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_engines_error_ends_the_call_and_names_it(call: str) -> None:
    async def work() -> None:
        waiting = Echo(asyncio.Event())
        pool = EnginePool([waiting, Echo(error=OSError("no memory"), name="right")])
        with pytest.raises(EngineError, match=r"^right failed \(.+\): no memory"):
            await CALLS[call](pool)
        assert waiting.was_cancelled and pool.owed == [0, 0]

    asyncio.run(asyncio.wait_for(work(), 10))


@pytest.mark.parametrize("call", CALLS)
def test_an_engine_that_does_not_answer_is_named(call: str) -> None:
    async def work() -> None:
        pool = EnginePool(
            [Echo(), Echo(asyncio.Event())], generate_timeout_seconds=0.01, update_timeout_seconds=0.01
        )
        with pytest.raises(EngineError, match=r"generator 1 of 2 has not answered for 0.01 s \(.+\)"):
            await CALLS[call](pool)

    asyncio.run(asyncio.wait_for(work(), 10))


def test_an_engine_that_forgets_a_request_is_named() -> None:
    class Forgetful(Echo):
        async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
            return (await super().generate(requests, temperature))[1:]

    with pytest.raises(EngineError, match="generator 0 of 1 gave 2 completions for 3 requests"):
        asyncio.run(EnginePool([Forgetful()]).generate([Request([1], 5)] * 3, 1.0))


def test_a_pool_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one engine"):
        EnginePool([])
