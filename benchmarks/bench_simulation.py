"""Many runs that log at once through the real client, against the web server as `manage.py up` starts it.

    .venv/bin/python -m benchmarks.bench_simulation [--runs 1000] [--seconds 60] [--web 1 2]

Each run logs a record of 20 metrics a second, from a thread of its own, into a journal of its own; its client sends
them. Runs begin one after the other (`--starts` a second) and end in the same order, so that all of them log at the
same time for `--seconds`. The load comes from processes of their own on the same cores; workers are not started, so
fits and alarms are not in the figures. Goals at 1,000 runs on two cores: nothing lost, 99 % of the requests that bring
records answered within 1 s, memory flat while all runs log. The last lines are rows for docs/capacity.md.
"""

import argparse
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from benchmarks.bench_pages import web_server
from benchmarks.home import USER, bare_home
from benchmarks.timing import percentiles
from benchmarks.trainers import METRICS, Plan, Seen, play
from benchmarks.watching import Watched, web_root

GOAL_SECONDS = 1.0
FLAT = 1.1  # memory at the end against that when all runs had begun
LOOK_SECONDS = 5.0
READY_SECONDS = 5.0  # until the processes of the load are up


@dataclass(frozen=True)
class Played:
    """One simulation. `since`, `until`: between them all runs logged (Unix time)."""

    web: int
    runs: int
    seen: Seen
    stored: int
    points: int
    watched: Watched
    since: float
    until: float

    @property
    def lost(self) -> int:
        return self.seen.logged - self.stored

    def during(self, pairs: list[tuple[float, float]]) -> list[float]:
        """The values of (moment, value) while all runs logged."""
        return [value for moment, value in pairs if self.since <= moment <= self.until]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0, help="while all runs log")
    parser.add_argument(
        "--web", type=int, nargs="+", default=[1, 2], help="web processes, one after the other"
    )
    parser.add_argument("--clients", type=int, default=4, help="processes that the runs are in")
    parser.add_argument("--starts", type=float, default=10.0, help="runs that begin in a second")
    options = parser.parse_args(arguments)
    with bare_home() as folder:
        played = [simulate(folder, web, options) for web in options.web]
    for one in played:
        show(one)
    print(
        "| runs | web processes | records/s stored | batch p50, p99 | log to stored p99 | web | PostgreSQL | cores |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for one in played:
        print(row(one))


def simulate(folder: Path, web: int, options: argparse.Namespace) -> Played:
    """Play the runs against a web server of so many processes."""
    journals = Path(tempfile.mkdtemp(prefix="headroom-journals-"))
    task = f"simulation-{web}-{time.time():.0f}"
    with web_server(folder, web) as url:
        began = time.time() + READY_SECONDS
        offsets = [i / options.starts for i in range(options.runs)]
        last = offsets[-1]
        plans = [
            Plan(
                url,
                token(),
                journals,
                task,
                began,
                tuple(offsets[i :: options.clients]),
                last + options.seconds,
            )
            for i in range(options.clients)
        ]
        with multiprocessing.get_context("spawn").Pool(options.clients) as pool:
            postmaster = int((folder / "postgres" / "postmaster.pid").read_text().split()[0])
            load = [child.pid for child in multiprocessing.active_children() if child.pid is not None]
            groups = {"web": [web_root(url)], "PostgreSQL": [postmaster], "load": load}
            watched = Watched(groups)
            asked = [pool.apply_async(play, (plan,)) for plan in plans]
            watched.until(lambda: all(one.ready() for one in asked), LOOK_SECONDS)
            seen = reduce(add, (one.get() for one in asked))
    shutil.rmtree(journals)
    records, points = stored(task)
    return Played(
        web, options.runs, seen, records, points, watched, began + last, began + last + options.seconds
    )


def token() -> str:
    from webapp.identity.accounts.models import User
    from webapp.identity.accounts.services import create_token, default_project

    return create_token(user=User.objects.get(username=USER), project=default_project(), scope="write")


def stored(task: str) -> tuple[int, int]:
    """Records and points of the runs of the task that are in the database."""
    from webapp.record.runs.models import Point, Record

    return (
        Record.objects.filter(run__task=task).count(),
        Point.objects.filter(series__run__task=task).count(),
    )


def show(one: Played) -> None:
    seen = one.seen
    print(f"{one.runs} runs, a record of {METRICS} metrics a second each; web processes: {one.web}")
    complete = "" if one.points == one.stored * METRICS else f", where {one.stored * METRICS:,} were due"
    print(f"  records logged {seen.logged:,}, stored {one.stored:,}, lost {one.lost} (goal 0)")
    print(f"  points stored {one.points:,}{complete}")
    print(f"  runs whose end was not taken in time {seen.unfinished}; failed requests {said(seen.errors)}")
    print(f"  the server asked clients to gather for up to {seen.gather_seconds:.1f} s")
    print(f"  a trainer was behind its second by at most {seen.late_seconds:.2f} s")
    times("  batch to its answer", one, seen.batches, 1000, "ms", GOAL_SECONDS)
    times("  log to stored", one, seen.delays, 1, "s")
    print(f"  {rate(one):,.0f} records/s stored while all runs logged, {rate(one) * METRICS:,.0f} values/s")
    for name in ("web", "PostgreSQL"):
        memory = [look.memory[name] / 1e6 for look in looks(one)]
        flat = "flat" if memory[3] <= FLAT * memory[1] else "grew"
        print(
            f"  memory of {name}: {memory[0]:.0f} MB at first, {memory[1]:.0f} when all runs had begun,"
            f" {memory[2]:.0f} in the middle, {memory[3]:.0f} at the end ({flat})"
        )
    busy = ", ".join(f"{name} {one.watched.cores(name, one.since, one.until):.2f}" for name in groups(one))
    print(f"  cores busy while all runs logged: {busy}")


def said(errors: Any) -> str:
    return f"{sum(errors.values())}{''.join(f'; {what} {n}' for what, n in errors.most_common(5))}"


def times(
    what: str, one: Played, pairs: list[tuple[float, float]], scale: int, unit: str, goal: float | None = None
) -> None:
    """Percentiles while all runs logged, and of the whole time: while runs began and ended, too."""
    for when, values in (("all runs log", one.during(pairs)), ("whole time", [value for _, value in pairs])):
        if not values:
            print(f"{what}, {when}: none")
            continue
        half, most = percentiles(values, 50, 99)
        verdict = (
            "" if goal is None else f", goal {goal * scale:.0f}: {'reached' if most < goal else 'missed'}"
        )
        print(
            f"{what}, {when}: {len(values):,}, p50 {half * scale:.1f} {unit}, p99 {most * scale:.1f} {unit}{verdict}"
        )


def rate(one: Played) -> float:
    """Records a second that were stored while all runs logged."""
    return len(one.during(one.seen.delays)) / (one.until - one.since)


def looks(one: Played) -> list[Any]:
    """At first, when all runs had begun, in the middle of their time, and at its end."""
    moments = (0.0, one.since, (one.since + one.until) / 2, one.until)
    return [one.watched.at(moment) for moment in moments]


def groups(one: Played) -> list[str]:
    return list(one.watched.looks[0].cpu)


def row(one: Played) -> str:
    """A row of the table in docs/capacity.md, of the time in which all runs logged."""
    batches, delays = one.during(one.seen.batches), one.during(one.seen.delays)
    if not batches or not delays:
        return f"| {one.runs:,} | {one.web} | nothing came while all runs logged | | | | | |"
    half, most = percentiles(batches, 50, 99)
    (delay,) = percentiles(delays, 99)
    last = looks(one)[3].memory
    cores = sum(one.watched.cores(name, one.since, one.until) for name in ("web", "PostgreSQL"))
    return (
        f"| {one.runs:,} | {one.web} | {rate(one):,.0f} | {1000 * half:.0f}, {1000 * most:.0f} ms | {delay:.1f} s"
        f" | {last['web'] / 1e6:.0f} MB | {last['PostgreSQL'] / 1e6:.0f} MB | {cores:.2f} |"
    )


if __name__ == "__main__":
    main()
