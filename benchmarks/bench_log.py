"""What `log()` of 20 metrics costs the trainer that calls it, beside a plain line of JSON written to the same disk.

    .venv/bin/python -m benchmarks.bench_log [--calls 20000] [--home DIR]

The run is online: a server that answers is in another process, so that sending happens while `log` is timed, as it does
in a training. Goal: 20 microseconds in the median.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import headroom
from tests.headroom.fake_server import FakeServer

GOAL_US = 20.0
METRICS = {f"train/metric_{number:02}": 0.1234567 * (number + 1) for number in range(20)}
COMPUTE = {"device_hours": 12.25, "flops": 1.5e18, "tokens": 123_456_789}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between calls (0)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, answering() as url:
        plain = timed(plain_writer(Path(folder) / "plain.jsonl"), options.calls, options.pause)
        offline = headroom.init(name="bench", journal=Path(folder) / "offline.jsonl", mode="offline")
        online = headroom.init(name="bench", journal=Path(folder) / "online.jsonl", url=url, token="none")
        rows = {"a line of JSON, written": plain}
        for name, run in (("log(), offline", offline), ("log(), a server answers", online)):
            rows[name] = timed(partial(log_once, run), options.calls, options.pause)
            run.finish(timeout=60)
    print(f"{'microseconds':28}{'median':>9}{'p99':>9}{'ratio':>8}   goal {GOAL_US:g}")
    for name, (median, p99) in rows.items():
        verdict = "" if name.startswith("a line") else "  reached" if median <= GOAL_US else "  missed"
        print(f"{name:28}{median:9.1f}{p99:9.1f}{median / plain[0]:8.2f}{verdict}")


def log_once(run: headroom.Run, step: int) -> None:
    run.log(METRICS, step=step, compute=COMPUTE)


def timed(write: Callable[[int], Any], calls: int, pause: float) -> tuple[float, float]:
    """Median and 99th percentile of one call, microseconds."""
    spent = []
    for step in range(calls):
        began = time.perf_counter()
        write(step)
        spent.append(1e6 * (time.perf_counter() - began))
        if pause:
            time.sleep(pause)
    return statistics.median(spent), statistics.quantiles(spent, n=100)[98]


def plain_writer(path: Path) -> Callable[[int], Any]:
    """The least that a record on disk takes."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    return lambda step: os.write(
        file, json.dumps({"step": step, "compute": COMPUTE, "metrics": METRICS}).encode() + b"\n"
    )


class answering:  # noqa: N801  # used like a function
    """A server in a process of its own."""

    def __enter__(self) -> str:
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(theirs,), daemon=True
        )
        self._process.start()
        return str(ours.recv())

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.join()


def _serve(pipe: Any) -> None:
    pipe.send(FakeServer().url)
    time.sleep(3600)


if __name__ == "__main__":
    main()
