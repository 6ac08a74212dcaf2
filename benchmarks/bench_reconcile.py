"""A round of reconciliation with many unfinished runs: time, queries, and requests to Ray.

    .venv/bin/python -m benchmarks.bench_reconcile [--runs 100 1000 10000] [--rounds 5]

All runs are running, and a server in the place of Ray's Jobs API says so of each. Alerts have looked at each run (200 a
round, while there are new ones), and PostgreSQL has counted its rows, as its autovacuum does within a minute. Goals:
10,000 runs in under 2 s, and as many queries as with 100. Starts PostgreSQL and Redis in a temporary folder.
"""

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from benchmarks.bench_dispatch import redis_of, running
from benchmarks.home import bare_home
from benchmarks.jobs_server import JobsServer, jobs_server

SIZES = (100, 1000, 10_000)
ROUNDS = 5
GOAL_SECONDS, GOAL_RUNS = 2.0, 10_000


@dataclass(frozen=True)
class Round:
    """What a round of reconciliation took."""

    seconds: float
    queries: int
    requests: int


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="after the first")
    options = parser.parse_args(arguments)
    with bare_home() as home, running(redis_of(home)):
        settings.CELERY_BROKER_URL = os.environ["REDIS_URL"]
        print(f"{'unfinished runs':>16}{'first round':>14}{'median round':>14}{'queries':>9}{'requests':>10}")
        counts = {}
        for size in sorted(options.runs):
            first, later = measure(size, max(1, options.rounds))
            median = statistics.median(each.seconds for each in later)
            counts[size] = max(each.queries for each in later)
            goal = f"   {median / GOAL_SECONDS:.2f} of the goal" if size == GOAL_RUNS else ""
            cells = f"{first.seconds:12.2f} s{median:12.2f} s{counts[size]:9}{later[-1].requests:10}"
            print(f"{size:16,}{cells}{goal}", flush=True)
    constant = "is" if len(set(counts.values())) == 1 else "is not"
    print(f"the number of queries {constant} constant: {counts}")


def measure(size: int, rounds: int) -> tuple[Round, list[Round]]:
    """The first round and those after it, with `size` runs in the store."""
    ids = fill(size)
    settle()
    with jobs_server(ids) as jobs:
        os.environ["RAY_ADDRESS"] = jobs.address
        first, *later = [one_round(jobs) for _ in range(rounds + 1)]
    return first, later


def settle() -> None:
    """As it is a minute after the newest run came."""
    from django.db import connection

    from webapp.reporting.alerts import firing

    while firing.check_changed():
        pass
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def one_round(jobs: JobsServer) -> Round:
    """What the worker's beat asks for every two seconds. Raises RuntimeError where it was not done."""
    from django.db import connection

    from worker.reconcile import reconcile_all

    queries = 0

    def count(execute, sql, params, many, context):
        nonlocal queries
        queries += 1
        return execute(sql, params, many, context)

    before = jobs.num_requests()
    with connection.execute_wrapper(count):
        begin = time.perf_counter()
        done = reconcile_all()
        seconds = time.perf_counter() - begin
    if not done:
        raise RuntimeError("another round is running")
    return Round(seconds, queries, jobs.num_requests() - before)


def fill(size: int) -> list[str]:
    """Bring the store to `size` running runs; the ids of their jobs."""
    from django.utils import timezone

    from webapp.identity.accounts.services import default_project
    from webapp.record.runs.models import Attempt, Dispatch, Run, State

    now, project = timezone.now(), default_project()
    lacking = size - Run.objects.count()
    common = {"project": project, "task": "arithmetic", "model": "tiny-arithmetic", "budget_hours": 1.0}
    stamps = {"state": State.RUNNING, "started_at": now}
    runs = [Run(name=f"run {i}", heartbeat_at=now, **common, **stamps) for i in range(max(0, lacking))]
    Run.objects.bulk_create(runs, batch_size=2000)
    Attempt.objects.bulk_create(
        [Attempt(run=run, number=1, submission_id=f"run-{run.pk}-a1", **stamps) for run in runs],
        batch_size=2000,
    )
    kind = Dispatch.Kind.SUBMIT
    Dispatch.objects.bulk_create(
        [Dispatch(run=run, attempt=1, kind=kind, done_at=now) for run in runs], batch_size=2000
    )
    return list(Attempt.objects.values_list("submission_id", flat=True))


if __name__ == "__main__":
    main()
