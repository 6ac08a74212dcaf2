"""32 threads log 1000 times each, through our client and through trackio's, each to its own server on this machine.

    .venv/bin/python -m benchmarks.bench_clients [--threads 32] [--logs 1000] [--metrics 2]

Two metrics a log, as trackio's own test of its throughput has; with `--metrics 20` as trainers have.

From the first `init` until every `finish` has returned; what the server holds then is counted. Each client runs in a
process of its own, with a run for each thread; trackio's comes with its server out of .venv-trackers (`make trackers`
makes it). Goal: 5 times trackio.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench_ingest_clients import GOAL, SECRET, trackio_server
from benchmarks.bench_pages import web_server
from benchmarks.home import USER, bare_home

TIMEOUT = 600
LOAD = """
import json, sys, threading, time
settings = json.loads(sys.argv[1])
{imports}

def work(number):
    {begin}
    for step in range(settings["logs"]):
        {log}
    {finish}

threads = [threading.Thread(target=work, args=(i,)) for i in range(settings["threads"])]
began = time.perf_counter()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("seconds", time.perf_counter() - began)
"""
METRICS = '{f"train/metric_{i}": 0.1234567 * i + step for i in range(settings["metrics"])}'
OURS = LOAD.format(
    imports="import headroom",
    begin='run = headroom.init(name=f"thread {number}", journal=f"{settings[\'folder\']}/{number}.jsonl")',
    log=f"run.log({METRICS}, step=step)",
    finish="assert run.finish(timeout=500)",
)
TRACKIO = LOAD.format(
    imports="import trackio",
    begin='trackio.init(project="bench", name=f"thread {number}", auto_log_cpu=False, auto_log_gpu=False)',
    log=f"trackio.log({METRICS}, step=step)",
    finish="trackio.finish()",
)


@dataclass(frozen=True)
class Ran:
    """Seconds until everything had been sent, and lines that the server holds then."""

    seconds: float
    lines: int


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--metrics", type=int, default=2)
    parser.add_argument("--trackio", type=Path, default=Path(".venv-trackers"), help="its environment")
    options = parser.parse_args(arguments)
    settings = {name: getattr(options, name) for name in ("threads", "logs", "metrics")}
    with bare_home() as folder:
        with web_server(folder) as url:
            ours = run_ours(url, folder, settings)
        show("Headroom", ours, settings)
        binaries = options.trackio.resolve() / "bin"
        if not (binaries / "trackio").exists():
            print("trackio is not installed: not measured")
            return
        with trackio_server(binaries, folder) as url:
            theirs = run_trackio(url, binaries, folder, settings)
        show("trackio", theirs, settings)
    print(f"Headroom is {theirs.seconds / ours.seconds:.1f} times as fast (goal {GOAL:g})")


def run_ours(url: str, folder: Path, settings: dict[str, Any]) -> Ran:
    from webapp.accounts.models import User
    from webapp.accounts.services import create_token, default_project
    from webapp.runs.models import Record

    user = User.objects.get(username=USER)
    token = create_token(user=user, project=default_project(), scope="write")
    variables = {"HEADROOM_URL": url, "HEADROOM_TOKEN": token, "PYTHONPATH": str(Path.cwd())}
    seconds = _seconds(sys.executable, OURS, settings | {"folder": str(folder)}, variables)
    return Ran(seconds, Record.objects.count())


def run_trackio(url: str, binaries: Path, folder: Path, settings: dict[str, Any]) -> Ran:
    variables = {
        "TRACKIO_SERVER_URL": url,
        "TRACKIO_WRITE_TOKEN": SECRET,
        "TRACKIO_DIR": str(folder / "trackio-client"),
    }
    seconds = _seconds(str(binaries / "python"), TRACKIO, settings, variables)
    return Ran(seconds, _stored_by_trackio(folder / "trackio"))


def _seconds(python: str, program: str, settings: dict[str, Any], variables: dict[str, str]) -> float:
    done = subprocess.run(
        [python, "-c", program, json.dumps(settings)],
        env=os.environ | variables, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("seconds "))
    return float(line.removeprefix("seconds "))


def _stored_by_trackio(folder: Path) -> int:
    """Lines in the databases of its server."""
    import sqlite3

    counts = []
    for path in folder.glob("*.db"):
        with sqlite3.connect(path) as database:
            counts.append(database.execute("SELECT count(*) FROM metrics").fetchone()[0])
    return sum(counts)


def show(name: str, ran: Ran, settings: dict[str, Any]) -> None:
    wanted = settings["threads"] * settings["logs"]
    lost = "" if ran.lines == wanted else f", of {wanted:,}"
    rate = wanted / ran.seconds
    print(
        f"{name:10} {ran.seconds:8.1f} s {rate:10,.0f} logs/s, {ran.lines:,} lines stored{lost}", flush=True
    )


if __name__ == "__main__":
    main()
