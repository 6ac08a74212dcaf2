"""What machines do meanwhile: GPUs (where nvidia-ml-py is installed), memory, CPU, disk and network (psutil).

    system/NODE/host/memory_fraction      of a machine
    system/NODE/PART/memory_bytes         of a part of the run: its client or driver, an engine, a trainer's rank
    system/NODE/PART/gpu0/busy_fraction   of a GPU that the part uses

A probe that fails is left out and stops no other; where there is no GPU nothing is said of any.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

from headroom.adapters.naming import SYSTEM
from headroom.configuration import file_name
from headroom.warned import log

EVERY_SECONDS = 15.0
OFF = ("0", "off", "false", "no")
CGROUP = Path("/sys/fs/cgroup")


def is_on() -> bool:
    """Whether machines are looked at: unless HEADROOM_SYSTEM_METRICS is off."""
    return os.environ.get("HEADROOM_SYSTEM_METRICS", "").strip().lower() not in OFF


class Machine:
    """This machine, and this process as a part of a run."""

    def __init__(
        self, part: str, *, gpus: Sequence[str] | None = None, folder: str | os.PathLike = "."
    ) -> None:
        """gpus: those that the part uses, as CUDA_VISIBLE_DEVICES names them; what that variable says, if nothing is
        given. folder: on the disk whose room is looked at."""
        node = f"{SYSTEM}{_plain(socket.gethostname())}"
        self._host, self._part = f"{node}/host", f"{node}/{_plain(part)}"
        self._psutil, self._nvml = _module("psutil"), _module("pynvml")
        self._gpus, self._folder = gpus, folder
        self._before: tuple[float, dict[str, int]] = (0.0, {})
        self._handles: dict[str, Any] | None = None
        self.measure()  # loads and rates are of the time between two looks

    @property
    def is_known(self) -> bool:
        """Whether there is anything to measure with."""
        return self._psutil is not None or self._nvml is not None

    def measure(self) -> dict[str, float]:
        """Name -> value now; shares lie between 0 and 1, rates are bytes a second. Never raises."""
        found: dict[str, float] = {}
        probes = {
            self._host: (self._load, self._memory, self._disk, self._rates) if self._psutil else (),
            self._part: (*((self._process,) if self._psutil else ()), *((self._gpu,) if self._nvml else ())),
        }
        for where, of_it in probes.items():
            for probe in of_it:
                with suppress(Exception):
                    found |= {f"{where}/{name}": value for name, value in probe().items()}
        return found

    def _load(self) -> dict[str, float]:
        return {"cpu_fraction": self._psutil.cpu_percent() / 100}

    def _memory(self) -> dict[str, float]:
        """Of the container where it has less than its machine: it is what the kernel ends the run for."""
        memory = self._psutil.virtual_memory()
        used, total = memory.total - memory.available, memory.total
        with suppress(OSError, ValueError):
            limit = _container_bytes()
            cached = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
            own = int((CGROUP / "memory.current").read_text()) - int(cached.get("inactive_file", 0))
            used, total = max((used, total), (own, limit), key=lambda pair: pair[0] / pair[1])
        return {"memory_fraction": used / total, "memory_bytes": float(used)}

    def _disk(self) -> dict[str, float]:
        usage = self._psutil.disk_usage(os.fspath(self._folder))
        return {"disk_fraction": usage.used / usage.total}

    def _rates(self) -> dict[str, float]:
        disk, network = self._psutil.disk_io_counters(), self._psutil.net_io_counters()
        totals = {"disk_read": disk.read_bytes, "disk_written": disk.write_bytes} if disk else {}
        if network:
            totals |= {"network_received": network.bytes_recv, "network_sent": network.bytes_sent}
        (then, before), now = self._before, time.monotonic()
        self._before = now, totals
        return {
            f"{name}_bytes_per_second": max(0, total - before[name]) / (now - then)
            for name, total in totals.items()
            if name in before and now > then
        }

    def _process(self) -> dict[str, float]:
        """With its children: an engine's work is done by them."""
        own = self._psutil.Process()
        total = own.memory_info().rss
        for child in own.children(recursive=True):
            with suppress(self._psutil.Error):  # it has just ended
                total += child.memory_info().rss
        return {"memory_bytes": float(total)}

    def _gpu(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, handle in self._found_gpus().items():
            for probe in (_busy, _gpu_memory, _power):
                with suppress(Exception):  # not every device tells everything
                    found |= {f"{name}/{key}": value for key, value in probe(self._nvml, handle).items()}
        return found

    def _found_gpus(self) -> dict[str, Any]:
        """Name -> handle of the library; empty where there is no driver."""
        if self._handles is None:
            self._handles = {}
            self._nvml.nvmlInit()
            said = os.environ.get("CUDA_VISIBLE_DEVICES")
            names = self._gpus if self._gpus is not None else None if said is None else said.split(",")
            if names is None:
                names = [str(index) for index in range(self._nvml.nvmlDeviceGetCount())]
            for name in filter(None, map(str.strip, names)):
                handle = self._handle(name)
                self._handles[f"gpu{self._nvml.nvmlDeviceGetIndex(handle)}"] = handle
        return self._handles

    def _handle(self, name: str) -> Any:
        if name.isdigit():
            return self._nvml.nvmlDeviceGetHandleByIndex(int(name))
        return self._nvml.nvmlDeviceGetHandleByUUID(name)


def gpu_bytes() -> list[int]:
    """Memory of each GPU that this process may use; empty where nothing tells of any."""
    with suppress(Exception):
        machine = Machine("gpus")
        return [machine._nvml.nvmlDeviceGetMemoryInfo(gpu).total for gpu in machine._found_gpus().values()]
    return []


def machine_bytes() -> int | None:
    """Memory of this machine, or of the container where that has less; None where nothing tells."""
    if (psutil := _module("psutil")) is None:
        return None
    total: int = psutil.virtual_memory().total
    with suppress(OSError, ValueError):
        total = min(total, _container_bytes())
    return total


def _container_bytes() -> int:
    """Memory that this container may take. OSError or ValueError where it is all that there is."""
    return int((CGROUP / "memory.max").read_text())


def _busy(nvml: Any, handle: Any) -> dict[str, float]:
    return {"busy_fraction": nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100}


def _gpu_memory(nvml: Any, handle: Any) -> dict[str, float]:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return {"memory_fraction": memory.used / memory.total, "memory_bytes": float(memory.used)}


def _power(nvml: Any, handle: Any) -> dict[str, float]:
    return {"power_watts": nvml.nvmlDeviceGetPowerUsage(handle) / 1000}


def with_totals(figures: Mapping[str, float]) -> dict[str, float]:
    """With the GPUs of each machine together, which alarms look at: how busy on average, and the fullest memory."""
    together: dict[str, list[float]] = {}
    for name, value in figures.items():
        device, _, key = name.rpartition("/")
        if "/gpu" in device and key in ("busy_fraction", "memory_fraction"):
            together.setdefault(f"{SYSTEM}{name.split('/')[1]}/host/gpu_{key}", []).append(value)
    totals = {name: (fmean if "busy" in name else max)(values) for name, values in together.items()}
    return {**figures, **totals}


class Watch(threading.Thread):
    """Looks at this machine every 15 s until it is closed; what fails is left out."""

    def __init__(
        self, measure: Callable[[], Mapping[str, float]], tell: Callable[[Mapping[str, float]], None],
        seconds: float = EVERY_SECONDS,
    ) -> None:  # fmt: skip
        super().__init__(name="headroom-system", daemon=True)
        self._measure, self._tell, self._seconds = measure, tell, seconds
        self._closed = threading.Event()

    def run(self) -> None:
        while not self._closed.wait(self._seconds):
            try:
                self._tell(with_totals(self._measure()))
            except Exception as error:  # tracking never stops training
                log.debug("headroom: the machine could not be looked at: %r", error)

    def close(self) -> None:
        """Without waiting for a look under way."""
        self._closed.set()


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except Exception:  # not installed, or not for this machine
        return None


def _plain(name: str) -> str:
    """As a part of a metric's name."""
    return file_name(name)[:60] or "unnamed"
