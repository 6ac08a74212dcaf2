"""What machines do: measured in pieces that may fail, recorded between the steps of the training."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headroom import system
from headroom.run import Run
from tests.headroom.conftest import killed
from tests.headroom.fake_server import FakeServer

Begin = Callable[..., Run]


class FakeLibrary:
    """nvidia-ml-py on a machine with two GPUs, of which the second tells nothing of its power."""

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetHandleByUUID(self, name: str) -> int:  # noqa: N802
        return {"GPU-b": 1}[name]

    def nvmlDeviceGetIndex(self, handle: int) -> int:  # noqa: N802
        return handle

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=(90, 10)[handle])

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(used=(40, 60)[handle], total=80)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        if handle:
            raise RuntimeError("not supported")
        return 312_000


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(system.socket, "gethostname", lambda: "node/1")
    modules = {"pynvml": FakeLibrary(), "psutil": system._module("psutil")}
    monkeypatch.setattr(system, "_module", modules.get)


def test_a_machine_tells_its_gpus_and_one_that_is_silent_hides_no_other(library: None) -> None:
    found = system.Machine("trainer rank 0").measure()

    of_part = {name.removeprefix("system/node-1/"): value for name, value in found.items()}
    assert of_part["trainer-rank-0/gpu0/power_watts"] == 312
    assert of_part["trainer-rank-0/gpu1/busy_fraction"] == 0.1
    assert "trainer-rank-0/gpu1/power_watts" not in of_part
    assert 0 < of_part["host/memory_fraction"] <= 1
    assert of_part["trainer-rank-0/memory_bytes"] > 1e6
    assert all(value >= 0 for value in found.values())


@pytest.mark.parametrize(
    ("given", "variable", "gpus"),
    [
        (None, None, "01"),
        (None, "1", "1"),
        (None, "", ""),
        ([], "0", ""),
        (["GPU-b"], None, "1"),
        (["7x"], None, ""),
    ],
)
def test_a_part_tells_of_its_own_gpus_alone(
    library: None, monkeypatch: pytest.MonkeyPatch, given: list[str] | None, variable: str | None, gpus: str
) -> None:
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)

    found = system.Machine("client", gpus=given).measure()

    assert (
        "".join(sorted(name.split("/gpu")[1][0] for name in found if name.endswith("/busy_fraction"))) == gpus
    )


def test_without_any_library_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_module", lambda name: None)

    machine = system.Machine("client")

    assert not machine.is_known and machine.measure() == {}
    assert system.gpu_bytes() == []


def test_memory_of_the_gpus_that_this_process_may_use(library: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert system.gpu_bytes() == [80, 80]

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert system.gpu_bytes() == [80]


def test_the_gpus_of_a_machine_are_taken_together_over_its_parts() -> None:
    each = {
        "system/a/engine-0/gpu0/busy_fraction": 0.5, "system/a/rank-0/gpu1/busy_fraction": 0.1,
        "system/b/rank-1/gpu0/busy_fraction": 0.0, "system/a/engine-0/gpu0/memory_fraction": 0.9,
        "system/a/rank-0/gpu1/memory_fraction": 0.3, "system/a/host/cpu_fraction": 0.2,
    }  # fmt: skip

    totals = {name: value for name, value in system.with_totals(each).items() if name not in each}

    assert totals == {
        "system/a/host/gpu_busy_fraction": pytest.approx(0.3), "system/b/host/gpu_busy_fraction": 0.0,
        "system/a/host/gpu_memory_fraction": 0.9,
    }  # fmt: skip


def test_the_container_counts_where_it_is_fuller_than_its_machine(
    library: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    files = {"memory.max": "1000", "memory.current": "990", "memory.stat": "anon 5\ninactive_file 20"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(system, "CGROUP", tmp_path)

    found = system.Machine("client").measure()

    assert found["system/node-1/host/memory_fraction"] == 0.97
    assert system.machine_bytes() == 1000
    (tmp_path / "memory.max").write_text("max")
    assert (system.machine_bytes() or 0) > 1000


def test_figures_are_recorded_at_the_step_that_is_reached_and_are_no_step(
    begin: Begin, server: FakeServer
) -> None:
    run = begin()
    run.log_system({"system/a/host/cpu_fraction": 0.5})
    run.log({"loss": 1.0}, step=4, compute={"device_hours": 2.0})
    run.log_system({"system/a/host/cpu_fraction": 0.7})
    run.log({"loss": 0.9})

    assert run.finish()
    records = sorted(server.records.values(), key=lambda record: record["seq"])
    assert [record["step"] for record in records] == [0, 4, 4, 5]
    assert [record["compute"]["device_hours"] for record in records] == [0, 2.0, 2.0, 2.0]


def test_a_run_that_goes_on_takes_no_look_at_a_machine_for_a_step(begin: Begin) -> None:
    first = begin()
    first.log_system({"system/a/host/cpu_fraction": 0.5})
    assert first.last_step is None
    killed(first)

    again = begin()
    assert again.last_step is None
    again.log({"loss": 1.0})
    assert again.last_step == 0


def test_a_watch_goes_on_after_a_look_that_failed_and_ends_with_its_run() -> None:
    told: list[Any] = []
    twice = threading.Event()
    looks = iter([{"a": 1.0}, RuntimeError(), {"a": 2.0}])

    def measure() -> dict[str, float]:
        look = next(looks, None)
        if not isinstance(look, dict):
            raise look or LookupError
        return look

    def tell(figures: Any) -> None:
        told.append(figures)
        if len(told) == 2:
            twice.set()

    watch = system.Watch(measure, tell, seconds=0.001)
    watch.start()

    assert twice.wait(5) and told == [{"a": 1.0}, {"a": 2.0}]
    watch.close()
    watch.join(5)
    assert not watch.is_alive()


def test_nothing_is_recorded_after_the_end(begin: Begin, server: FakeServer) -> None:
    run = begin()
    run.log({"loss": 1.0})
    run.finish()
    run.log_system({"system/a/host/cpu_fraction": 0.5})

    assert len(server.records) == 1


@pytest.mark.parametrize(
    ("setting", "asked", "looks"), [("off", True, False), ("", False, False), ("", True, True)]
)
def test_looking_is_off_by_setting(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, setting: str, asked: bool, looks: bool
) -> None:
    monkeypatch.setenv("HEADROOM_SYSTEM_METRICS", setting)

    run = begin(system_metrics=asked)

    assert (run._system is not None) is looks
