"""32 threads log 1000 times each, through our client and through trackio's, each to its own server on this machine.

    .venv/bin/python -m benchmarks.bench_clients [--threads 32] [--logs 1000] [--metrics 2]

Two metrics a log, as trackio's own test of its throughput has; with `--metrics 20` as trainers have.

From the first `init` until every `finish` has returned; what the server holds then is counted. Each client runs in a
process of its own, with a run for each thread; trackio's comes with its server out of .venv-trackers (`make trackers`
makes it). Goal: 5 times trackio.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench_pages import web_server
from benchmarks.home import USER, bare_home
from benchmarks.trackio import LOAD, METRICS, Ran, run_trackio, seconds_of, trackio_server

GOAL = 5.0
OURS = LOAD.format(
    imports="import headroom",
    begin='run = headroom.init(name=f"thread {number}", journal=f"{settings[\'folder\']}/{number}.jsonl")',
    log=f"run.log({METRICS}, step=step)",
    finish="assert run.finish(timeout=500)",
)


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
    from webapp.identity.accounts.models import User
    from webapp.identity.accounts.services import create_token, default_project
    from webapp.record.runs.models import Record

    user = User.objects.get(username=USER)
    token = create_token(user=user, project=default_project(), scope="write")
    variables = {"HEADROOM_URL": url, "HEADROOM_TOKEN": token, "PYTHONPATH": str(Path.cwd())}
    seconds = seconds_of(sys.executable, OURS, settings | {"folder": str(folder)}, variables)
    return Ran(seconds, Record.objects.count())


def show(name: str, ran: Ran, settings: dict[str, Any]) -> None:
    wanted = settings["threads"] * settings["logs"]
    lost = "" if ran.lines == wanted else f", of {wanted:,}"
    rate = wanted / ran.seconds
    print(
        f"{name:10} {ran.seconds:8.1f} s {rate:10,.0f} logs/s, {ran.lines:,} lines stored{lost}", flush=True
    )


if __name__ == "__main__":
    main()
