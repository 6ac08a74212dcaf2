"""The demo as a user runs it, twice on one folder: seconds to each milestone and peak memory of the whole stack.

    .venv/bin/python -m benchmarks.bench_demo [--home DIR] [--port P]

Each figure stands beside the goal it is held against, as a ratio (under 1 is within it). Memory is the sum of the
proportional set sizes (PSS) of the demo's processes, sampled once a second: shared pages count once.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from stack.environment import ROOT
from stack.ports import free_port

MILESTONES = {
    "stack up": "Headroom is up",
    "first evaluation": "before the first update",
}
GIB = 1024**3


@dataclass
class Demo:
    """What one demo run showed: seconds from its start, peak bytes, exit status."""

    seconds: dict[str, float] = field(default_factory=dict)
    peak_bytes: int = 0
    status: int = -1


def run_demo(home: Path, port: int) -> Demo:
    command = [sys.executable, "manage.py", "demo", "--exit", "--home", str(home), "--port", str(port)]
    demo, start = Demo(), time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )
    done = threading.Event()
    sampler = threading.Thread(target=sample_memory, args=(process.pid, demo, done))
    sampler.start()
    assert process.stdout is not None
    for line in process.stdout:
        print("   ", line.rstrip(), flush=True)
        for name, text in MILESTONES.items():
            if text in line:
                demo.seconds.setdefault(name, time.monotonic() - start)
    demo.status = process.wait()
    demo.seconds["end"] = time.monotonic() - start
    done.set()
    sampler.join()
    return demo


def sample_memory(pid: int, demo: Demo, done: threading.Event) -> None:
    while not done.wait(1.0):
        demo.peak_bytes = max(demo.peak_bytes, tree_bytes(pid))


def tree_bytes(pid: int) -> int:
    """Proportional set size of a process and all its descendants."""
    total = 0
    try:
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--home", type=Path, help="keep the data here (default: a temporary folder)")
    parser.add_argument("--port", type=int, default=free_port())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headroom-demo-") as folder:
        home = options.home or Path(folder)
        demos = {"first": run_demo(home, options.port), "second": run_demo(home, options.port)}
    print(f"\n{'':34}{'measured':>10}{'goal':>8}{'ratio':>8}")
    row("first demo: to the first evaluation", demos["first"].seconds.get("first evaluation"), 60, "s")
    row("first demo: to the end", demos["first"].seconds["end"], 480, "s")
    row("second demo: stack up", demos["second"].seconds.get("stack up"), 20, "s")
    row("second demo: to the end", demos["second"].seconds["end"], 240, "s")
    row("peak memory of the stack", max(d.peak_bytes for d in demos.values()) / GIB, 8, "GiB")
    sys.exit(max(abs(demo.status) for demo in demos.values()))


def row(name: str, value: float | None, goal: float, unit: str) -> None:
    if value is None:
        print(f"{name:34}{'never':>10}{goal:6g} {unit}")
    else:
        print(f"{name:34}{value:8.1f} {unit}{goal:6g} {unit}{value / goal:8.2f}")


if __name__ == "__main__":
    main()
