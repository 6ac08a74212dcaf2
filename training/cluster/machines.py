"""What the machines of a run's parts do, every 15 s: for its page, never for its training."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from headroom import system
from training.cluster.parts import Part

log = logging.getLogger("training")

ANSWER_SECONDS = 5.0  # a part that is later is left out this time


@contextmanager
def watched(
    parts: Callable[[], Sequence[Part]],
    tell: Callable[[Mapping[str, float]], None],
    seconds: float = system.EVERY_SECONDS,
) -> Iterator[None]:
    """`tell` what the machines of the driver and of its `parts`, as they are at the time, do while the block runs.
    Nothing of it can end the block."""
    if not system.is_on():
        yield
        return
    task = asyncio.create_task(_watch(parts, tell, seconds))
    try:
        yield
    finally:
        task.cancel()


async def _watch(
    parts: Callable[[], Sequence[Part]], tell: Callable[[Mapping[str, float]], None], seconds: float
) -> None:
    here = system.Machine("driver", gpus=())
    while True:
        await asyncio.sleep(seconds)
        try:
            tell(system.with_totals(await figures_of(parts()) | here.measure()))
        except Exception as error:
            log.debug("the machines could not be looked at: %r", error)


async def figures_of(parts: Sequence[Part], seconds: float = ANSWER_SECONDS) -> dict[str, float]:
    """What all parts say of themselves and of their machines; one that is late or fails is left out."""
    if asked := [asyncio.ensure_future(part.call("system", part.name)) for part in parts]:
        await asyncio.wait(asked, timeout=seconds)
    found: dict[str, float] = {}
    for answer in asked:
        if not answer.done():
            answer.cancel()
        elif not answer.cancelled() and answer.exception() is None:
            found |= answer.result()
    return found
