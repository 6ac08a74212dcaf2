"""When a cluster counts as lost, with a head that answers as it is told."""

import asyncio
import re
import threading
from collections.abc import Callable

import pytest

from training.cluster.placement import Pulse, watch_head

FAST = Pulse(every=0.01, answer=0.05, local=0.5, remote=60)


def watch(ask: Callable[[], str], *, is_local: bool = True, is_stopping: bool = False) -> str:
    """What ends the run; TimeoutError if nothing does within two seconds."""

    async def work() -> str:
        watching = watch_head(is_local=is_local, is_stopping=lambda: is_stopping, pulse=FAST, ask=ask)
        return str(await asyncio.wait_for(watching, 2))

    return asyncio.run(work())


def silent() -> str:
    threading.Event().wait()
    return ""


def refusing() -> str:
    raise ConnectionError("details\nGCS is down")


def test_lost_node_ends_the_run_at_once() -> None:
    assert watch(lambda: "raylet is gone", is_local=False) == "the Ray cluster is lost: raylet is gone"


@pytest.mark.parametrize(("ask", "why"), [(silent, "no answer"), (refusing, "GCS is down")])
def test_head_that_stays_silent_is_given_up(ask: Callable[[], str], why: str) -> None:
    assert re.fullmatch(rf"the Ray cluster is lost: its head has not answered for \d s \({why}\)", watch(ask))


def test_head_elsewhere_may_come_back_unless_the_run_is_to_stop() -> None:
    with pytest.raises(TimeoutError):
        watch(refusing, is_local=False)
    assert "has not answered" in watch(refusing, is_local=False, is_stopping=True)


def test_answer_in_between_starts_the_clock_again() -> None:
    answers = iter(range(10_000))

    def now_and_then() -> str:
        return "" if next(answers) % 5 == 0 else refusing()

    with pytest.raises(TimeoutError):
        watch(now_and_then)
