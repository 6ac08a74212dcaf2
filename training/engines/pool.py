"""Several engines as one: requests are spread by load, weights go to all at the same time. No torch, no Ray.

generate ─► split into prefix groups ─► each to the engine that owes the fewest tokens ─► answers in order
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from training.rollouts import Completion, Generator, Request

if TYPE_CHECKING:
    from training.transfer import Weights

GENERATE_TIMEOUT_SECONDS = 3600.0
UPDATE_TIMEOUT_SECONDS = 600.0
_ALLOWED_IMBALANCE = 1.05  # of an engine's load, so that a group of equal prompts may stay together


class EngineError(RuntimeError):
    """An engine failed or did not answer; the message names it."""


class EnginePool:
    """A `training.rollouts.Generator` over several others, here or behind Ray actors."""

    def __init__(
        self,
        engines: Sequence[Generator],
        names: Sequence[str] | None = None,
        *,
        generate_timeout_seconds: float = GENERATE_TIMEOUT_SECONDS,
        update_timeout_seconds: float = UPDATE_TIMEOUT_SECONDS,
    ) -> None:
        if not engines:
            raise ValueError("a pool needs at least one engine")
        self._engines = list(engines)
        self._names = list(names or (f"generator {i} of {len(engines)}" for i in range(len(engines))))
        self._generate_timeout, self._update_timeout = generate_timeout_seconds, update_timeout_seconds
        self._owed = [0] * len(engines)  # tokens that each engine may still have to make

    @property
    def owed_tokens(self) -> list[int]:
        """At most so many tokens has each engine still to make."""
        return list(self._owed)

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        """All requests, in order. Raises EngineError at the first engine that fails; the others' work is dropped."""
        shares = spread(requests, self._owed)
        calls = [
            self._generate(engine, [requests[index] for index in share], temperature)
            for engine, share in enumerate(shares)
            if share
        ]
        parts = await _all(calls)
        completions: dict[int, Completion] = {}
        for share, part in zip(filter(None, shares), parts, strict=True):
            completions.update(zip(share, part, strict=True))
        return [completions[index] for index in range(len(requests))]

    async def _generate(self, engine: int, requests: list[Request], temperature: float) -> list[Completion]:
        owed = sum(request.max_tokens for request in requests)
        self._owed[engine] += owed
        try:
            completions = await self._ask(
                engine,
                lambda g: g.generate(requests, temperature),
                self._generate_timeout,
                f"{len(requests)} completions",
            )
        finally:
            self._owed[engine] -= owed
        if len(completions) != len(requests):
            raise EngineError(
                f"{self._names[engine]} gave {len(completions)} completions for {len(requests)} requests"
            )
        return completions

    async def update_weights(self, weights: "Weights", version: int) -> None:
        """To all engines at the same time; returns when all have them in force. Raises EngineError."""
        await self._ask_all(
            lambda g: g.update_weights(weights, version),
            self._update_timeout,
            f"weights of version {version}",
        )

    async def interrupt(self) -> None:
        """End all running calls of `generate` now, with what they have. Raises EngineError."""
        await self._ask_all(lambda g: g.interrupt(), self._update_timeout, "an interrupt")

    async def _ask_all(self, ask: Callable[[Generator], Awaitable[Any]], timeout: float, what: str) -> None:
        await _all([self._ask(engine, ask, timeout, what) for engine in range(len(self._engines))])

    async def _ask(
        self, engine: int, ask: Callable[[Generator], Awaitable[Any]], timeout: float, what: str
    ) -> Any:
        """One engine's answer. An error says which engine, and what it was asked for."""
        name = self._names[engine]
        try:
            async with asyncio.timeout(timeout) as limit:
                return await ask(self._engines[engine])
        except TimeoutError as error:
            if limit.expired():
                raise EngineError(f"{name} has not answered for {timeout:g} s ({what})") from error
            raise EngineError(f"{name} failed ({what}): {error}") from error
        except Exception as error:
            raise EngineError(f"{name} failed ({what}): {error}") from error


def spread(requests: Sequence[Request], owed: Sequence[int]) -> list[list[int]]:
    """Indices of the requests that each engine gets, given the tokens that it owes already.

    Neighbours with equal prompts stay together where no engine gets more than its fair share by that; others go one
    by one to the engine that owes the fewest tokens.
    """
    load, shares = list(owed), [[] for _ in owed]  # type: list[int], list[list[int]]
    total = sum(load) + sum(request.max_tokens for request in requests)
    fair = _ALLOWED_IMBALANCE * max(total / len(load), *load, 0)
    for _, indices in groupby(range(len(requests)), key=lambda index: requests[index].tokens):
        group = list(indices)
        size = sum(requests[index].max_tokens for index in group)
        parts = [group] if min(load) + size <= fair else [[index] for index in group]
        for part in parts:
            engine = min(range(len(load)), key=load.__getitem__)
            load[engine] += sum(requests[index].max_tokens for index in part)
            shares[engine].extend(part)
    return [sorted(share) for share in shares]


async def _all(calls: list[Any]) -> list[Any]:
    """Results of all; at the first error the others are cancelled."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
