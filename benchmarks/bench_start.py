"""How long the server takes from its command to /healthz that says well, on an empty data folder and once more on it.

    .venv/bin/python -m benchmarks.bench_start [--program FOLDER/bin/headroom-server] [--repeats 3] [--ray]

`--program`: an installed server, as `pip install headroom[server]` leaves it; without it, this checkout's `manage.py`.
Without Ray, unless `--ray` says so.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import httpx

from stack.environment import ROOT
from stack.ports import free_port

GOAL_SECONDS = 20.0
GIVE_UP_SECONDS = 180.0
OURS = ("HEADROOM_", "DATABASE_URL", "REDIS_URL", "RAY_", "PYTHON")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, help="headroom-server of an installation")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ray", action="store_true", help="with an embedded Ray")
    options = parser.parse_args(arguments)
    program = (
        [str(options.program.absolute())] if options.program else [sys.executable, str(ROOT / "manage.py")]
    )
    more = [] if options.ray else ["--no-ray"]
    empty, again = [], []
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory(prefix="headroom-start-") as home:
            empty.append(seconds_to_start(program, Path(home), more))
            again.append(seconds_to_start(program, Path(home), more))
    for what, seconds in (("empty data folder", empty), ("once more", again)):
        each = ", ".join(f"{one:.1f}" for one in seconds)
        ratio = statistics.median(seconds) / GOAL_SECONDS
        print(f"{what:18} {each} s; median {ratio:.2f} of the goal of {GOAL_SECONDS:.0f} s")


def seconds_to_start(program: list[str], home: Path, more: list[str]) -> float:
    """From the command to the first good answer; the server is stopped afterwards. Raises SystemExit with its words."""
    port, log = free_port(), home / "start.log"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    command = [*program, "up", "--home", str(home / "data"), "--port", str(port), *more]
    began = time.perf_counter()
    with (
        log.open("wb") as file,
        subprocess.Popen(command, stdout=file, stderr=file, env=kept, cwd=home) as server,
    ):
        try:
            while not is_well(port):
                if server.poll() is not None or time.perf_counter() - began > GIVE_UP_SECONDS:
                    raise SystemExit(f"the server did not start: {log.read_text()[-2000:]}")
                time.sleep(0.05)
            return time.perf_counter() - began
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)


def is_well(port: int) -> bool:
    try:
        return (
            httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5, trust_env=False).json()["status"] == "ok"
        )
    except httpx.HTTPError:
        return False


if __name__ == "__main__":
    main()
