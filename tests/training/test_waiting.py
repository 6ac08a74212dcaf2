import asyncio

import pytest

from training.waiting import Stopped, Switchboard, WaitTimeout


def test_until_looks_again_when_something_changed() -> None:
    async def scenario() -> list[str]:
        switch, seen = Switchboard(), []

        async def waiter() -> None:
            await switch.until(lambda: len(seen) == 1, what="a sign", timeout=10)
            seen.append("woken")

        task = asyncio.create_task(waiter())
        await asyncio.sleep(0)
        seen.append("sign")
        switch.changed()
        await task
        return seen

    assert asyncio.run(scenario()) == ["sign", "woken"]


def test_wait_that_takes_too_long_names_what_it_waited_for() -> None:
    async def scenario() -> None:
        await Switchboard().until(lambda: False, what="the moon", timeout=0.01)

    with pytest.raises(WaitTimeout, match="for the moon"):
        asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["until", "result"])
def test_stop_ends_a_wait(kind: str) -> None:
    async def scenario() -> None:
        switch = Switchboard()
        asyncio.get_running_loop().call_soon(switch.stop)
        if kind == "until":
            await switch.until(lambda: False, what="nothing", timeout=10)
        else:
            await switch.result(asyncio.Event().wait(), what="nothing", timeout=10)

    with pytest.raises(Stopped):
        asyncio.run(scenario())


def test_result_gives_the_result_and_raises_its_errors() -> None:
    async def fail() -> None:
        raise KeyError("broken")

    async def scenario() -> None:
        switch = Switchboard()
        assert await switch.result(asyncio.sleep(0, "done"), what="it", timeout=10) == "done"
        with pytest.raises(WaitTimeout, match="for it"):
            await switch.result(asyncio.Event().wait(), what="it", timeout=0.01)
        await switch.result(fail(), what="it", timeout=10)

    with pytest.raises(KeyError):
        asyncio.run(scenario())
