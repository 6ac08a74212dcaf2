import asyncio
import threading

import pytest

from training.waiting import PartFailed, Stopped, Switchboard, WaitTimeout, blame, in_thread, within


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


@pytest.mark.parametrize("kind", ["until", "result"])
def test_error_of_a_watched_task_ends_every_wait(kind: str) -> None:
    async def fail() -> None:
        raise KeyError("broken")

    async def scenario() -> None:
        switch = Switchboard()
        switch.watch(fail(), name="something")
        if kind == "until":
            await switch.until(lambda: False, what="nothing", timeout=10)
        else:
            await switch.result(asyncio.Event().wait(), what="nothing", timeout=10, stoppable=False)

    with pytest.raises(KeyError, match="broken"):
        asyncio.run(scenario())


def test_watched_task_that_ends_by_a_stop_or_cancellation_is_no_failure() -> None:
    async def stop() -> None:
        raise Stopped

    async def scenario() -> None:
        switch = Switchboard()
        tasks = [switch.watch(stop(), name="one"), switch.watch(asyncio.Event().wait(), name="two")]
        tasks[1].cancel()
        await asyncio.wait(tasks)
        await asyncio.sleep(0)
        switch.check()

    asyncio.run(scenario())


def test_what_must_not_be_stopped_is_not() -> None:
    async def scenario() -> str:
        switch = Switchboard()
        asyncio.get_running_loop().call_soon(switch.stop)
        work = asyncio.sleep(0.01, "done")
        return await switch.result(work, what="it", timeout=10, stoppable=False)

    assert asyncio.run(scenario()) == "done"


def test_within_gives_up_and_cancels() -> None:
    async def scenario() -> bool:
        work = asyncio.ensure_future(asyncio.Event().wait())
        with pytest.raises(WaitTimeout, match="waited 0.01 s for the moon"):
            await within(work, what="the moon", timeout=0.01)
        await asyncio.wait({work})
        return work.cancelled()

    assert asyncio.run(scenario())


def test_blame_names_the_part_once_and_keeps_the_last_line() -> None:
    message = "^the trainer failed: ValueError: no idea$"
    with pytest.raises(PartFailed, match=message), blame("the run"), blame("the trainer"):
        raise RuntimeError("Traceback:\n  File ...\nValueError: no idea\n")
    with pytest.raises(PartFailed, match="^the trainer failed: KeyError$"), blame("the trainer"):
        raise KeyError


def test_call_that_blocks_is_left_behind_in_a_thread_that_ends_with_the_process() -> None:
    async def scenario() -> None:
        assert await in_thread(lambda: 3, 10) == 3
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: 1 // 0, 10)
        with pytest.raises(TimeoutError):
            await in_thread(threading.Event().wait, 0.01)

    asyncio.run(scenario())
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "call")


def test_a_cancellation_that_comes_with_the_result_is_not_lost() -> None:
    async def work() -> None:
        loop, begun, go = asyncio.get_running_loop(), threading.Event(), threading.Event()

        def call() -> None:
            begun.set()
            go.wait()
            loop.call_soon_threadsafe(loop.call_soon, task.cancel)

        others = set(threading.enumerate())
        task = asyncio.create_task(in_thread(call, 10))
        await asyncio.to_thread(begun.wait)
        (thread,) = [each for each in set(threading.enumerate()) - others if each.name == "call"]
        go.set()
        thread.join()  # while the loop stands still: cancellation and result come in one turn of it
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
