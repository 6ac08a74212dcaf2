"""What the driver tells of the machines of its parts; no Ray: a part is whatever answers."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from training.cluster.machines import figures_of, watched


class FakePart:
    def __init__(self, name: str, answer: Any) -> None:
        self.name, self._answer = name, answer

    async def call(self, method: str, name: str) -> dict[str, float]:
        assert (method, name) == ("system", self.name)
        if self._answer is None:
            await asyncio.Event().wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_parts_that_fail_or_are_late_are_left_out() -> None:
    parts: Any = [FakePart("a", {"x": 1.0}), FakePart("b", RuntimeError("gone")), FakePart("c", None)]

    assert asyncio.run(figures_of(parts, seconds=0.01)) == {"x": 1.0}
    assert asyncio.run(figures_of([])) == {}


def _told_of(parts: Callable[[], Any], times: int) -> list[Any]:
    """What is told until it was told so often, or for half a second."""
    told: list[Any] = []

    async def run() -> None:
        enough = asyncio.Event()

        def tell(figures: Any) -> None:
            told.append(figures)
            if len(told) >= times:
                enough.set()

        with watched(parts, tell, seconds=0.001):
            await asyncio.wait_for(enough.wait(), 5)

    asyncio.run(run())
    return told


def test_the_driver_tells_of_itself_and_of_parts_as_they_are_now() -> None:
    gpu = "system/far/engine-0/gpu0/busy_fraction"
    looks = iter([RuntimeError(), [], [FakePart("engine 0", {gpu: 0.4})]])

    def parts() -> Any:
        found = next(looks, [])
        if isinstance(found, Exception):
            raise found
        return found

    alone, together, *_ = _told_of(parts, 2)

    assert any("/driver/memory_bytes" in name for name in alone)
    assert together["system/far/host/gpu_busy_fraction"] == 0.4


def test_looking_is_off_by_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_SYSTEM_METRICS", "off")

    with pytest.raises(TimeoutError):
        _impatiently()


def _impatiently() -> None:
    async def run() -> None:
        told = asyncio.Event()
        with watched(list, lambda figures: told.set(), seconds=0.001):
            await asyncio.wait_for(told.wait(), 0.05)

    asyncio.run(run())
