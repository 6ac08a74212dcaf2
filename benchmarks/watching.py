"""Memory and processor time of groups of processes while something goes on."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Look:
    """At a moment (Unix time): memory of each group in bytes, what processes share counted once, and the seconds of
    processor time that it has used so far."""

    at: float
    memory: dict[str, float]
    cpu: dict[str, float]


class Watched:
    """Groups of processes: each of some roots and what they start. What a root's ended children used counts as well."""

    def __init__(self, groups: dict[str, list[int]]) -> None:
        self._roots = {name: [psutil.Process(pid) for pid in pids] for name, pids in groups.items()}
        self.looks: list[Look] = []

    def look(self) -> None:
        memory, cpu = {}, {}
        for name, roots in self._roots.items():
            used, seconds = 0.0, 0.0
            for root in roots:
                for process in _with_children(root):
                    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                        used += process.memory_full_info().pss
                        times = process.cpu_times()
                        seconds += times.user + times.system
                        if process == root:
                            seconds += times.children_user + times.children_system
            memory[name], cpu[name] = used, seconds
        self.looks.append(Look(time.time(), memory, cpu))

    def until(self, done: Callable[[], bool], every_seconds: float) -> None:
        """Look now and again until it is done, and once more then."""
        self.look()
        while not done():
            waited = time.monotonic() + every_seconds
            while time.monotonic() < waited and not done():
                time.sleep(0.1)
            self.look()

    def at(self, moment: float) -> Look:
        """The look that was nearest to the moment (Unix time)."""
        return min(self.looks, key=lambda look: abs(look.at - moment))

    def cores(self, name: str, since: float, until: float) -> float:
        """Processors that the group kept busy between two moments, on average."""
        first, last = self.at(since), self.at(until)
        return (last.cpu[name] - first.cpu[name]) / (last.at - first.at) if last.at > first.at else 0.0


def web_root(url: str) -> int:
    """The process that the web server's other processes descend from."""
    port = int(url.rsplit(":", 1)[1])
    listening = (c.pid for c in psutil.net_connections("tcp") if c.laddr and c.laddr.port == port and c.pid)
    one = psutil.Process(min(listening))
    return next((p for p in reversed(one.parents()) if "gunicorn" in p.name()), one).pid


def _with_children(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
