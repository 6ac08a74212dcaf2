"""What eight waiting runs cost the one that trains: seconds a step alone, and with eight queued, in turn.

    .venv/bin/python -m benchmarks.bench_waiting [--home DIR] [--rounds 3] [--budget 0.02]

Starts the stack and launches by REST. A run ends by its budget (device-hours); the eight are cancelled before the next.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stack import demo
from stack.environment import ROOT
from stack.ports import free_port

WAITING = 8
FIRST = 10  # steps that are left out: compiling, filling the queue of batches


@contextmanager
def running_stack(home: Path) -> Iterator[demo.Api]:
    """`manage.py up` on the folder."""
    os.environ["HEADROOM_HOME"] = str(home)
    port = free_port()
    command = [sys.executable, "manage.py", "up", "--home", str(home), "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as stack:
        assert stack.stdout is not None
        try:
            if not any("Headroom is up" in line for line in stack.stdout):
                raise SystemExit("the stack did not start")
            yield demo.Api(f"http://127.0.0.1:{port}", demo.launch_token("admin"))
        finally:
            stack.send_signal(signal.SIGTERM)
            stack.communicate()


def trained(api: demo.Api, run: str) -> list[float]:
    """Seconds of each step of a run, once it has ended."""
    while (state := api.get(f"runs/{run}")["state"]) not in demo.ENDED:
        time.sleep(demo.POLL_SECONDS)
    if state != "succeeded":
        raise SystemExit(f"run {run} {state}")
    points = api.get(f"runs/{run}/series", metric="perf/step_seconds", points=10_000)["points"]
    return [point["value"] for point in points][FIRST:]


def launch(api: demo.Api, seed: int, hours: float) -> str:
    body = {
        "recipe": demo.RECIPES[0],
        "task": demo.TASK,
        "model": demo.MODEL,
        "seed": seed,
        "budget_hours": hours,
    }
    return api.post("runs", body)["id"]


def measure(api: demo.Api, seed: int, hours: float, waiting: int) -> list[float]:
    """Of one run, while so many wait behind it."""
    first, *others = [launch(api, seed + number, hours) for number in range(1 + waiting)]
    steps = trained(api, first)
    for run in reversed(others):  # the one that comes next last: what is behind it is not to start meanwhile
        api.post(f"runs/{run}/cancel", {})
    while any(api.get(f"runs/{run}")["state"] not in demo.ENDED for run in others):
        time.sleep(demo.POLL_SECONDS)
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--home", type=Path, help="keep the data here (default: a temporary folder)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=0.02, help="device-hours of each run")
    options = parser.parse_args()
    seconds: dict[int, list[list[float]]] = {0: [], WAITING: []}
    with (
        tempfile.TemporaryDirectory(prefix="headroom-waiting-") as folder,
        running_stack(options.home or Path(folder)) as api,
    ):
        for turn in range(options.rounds):
            for waiting, found in seconds.items():
                found.append(measure(api, 100 * turn + 10 * waiting, options.budget, waiting))
                print(
                    f"{waiting} waiting: {len(found[-1])} steps, median {statistics.median(found[-1]):.4f} s",
                    flush=True,
                )
    alone, beside = (statistics.median([step for run in seconds[count] for step in run]) for count in seconds)
    print(f"a step takes {beside / alone:.3f} times as long with {WAITING} waiting (goal at most 1.03)")


if __name__ == "__main__":
    main()
