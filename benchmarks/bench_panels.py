"""Any metrics over many runs: server time and bytes of 12 panels x 100 runs, against the same for a single run.

    .venv/bin/python -m benchmarks.bench_panels [--runs 100] [--metrics 12] [--steps 2000] [--repeats 20]

Starts an embedded PostgreSQL in a temporary folder, inserts runs of three recipes that report every metric at every
step, and asks through Django's test client: middleware, permissions, queries, thinning and JSON included, the network
not. Goal: at most 800 ms and 1.5 MB for 12 x 100.
"""

import argparse
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.bench_run_page import timed

GOAL_MS, GOAL_BYTES = 800, 1_500_000
FILL = """
INSERT INTO runs_point (series_id, attempt, seq, step, time, device_hours, flops, tokens, value)
SELECT s.id, 1, i, i, now() + i * interval '30 s', i * 0.01, i * 1e12, i * 1e4, sin(s.id + i / 50.0) + random() / 5
FROM runs_series AS s CROSS JOIN generate_series(0, %s - 1) AS i
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("runs", 100), ("metrics", 12), ("steps", 2000), ("repeats", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headroom-bench-"))
    os.environ |= {"HEADROOM_HOME": str(folder), "DJANGO_SETTINGS_MODULE": "webapp.settings"}
    from stack.postgres import start_postgres

    postgres = start_postgres(folder / "postgres")
    os.environ["DATABASE_URL"] = postgres.url
    try:
        measure(options)
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def measure(options: argparse.Namespace) -> None:
    import logging

    import django

    django.setup()
    logging.disable(logging.INFO)
    from django.core.cache import caches
    from django.core.management import call_command
    from django.test import Client

    from webapp.base.requests import OWN

    call_command("migrate", verbosity=0)
    user, ids = make_runs(options.runs, options.metrics, options.steps)
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    few = {"run": ids[:1], "m": "train/*"}
    many = {"run": ids, "m": "train/*"}
    rows = {
        "1 run (baseline)": few,
        f"{options.runs} runs over steps": many,
        f"{options.runs} runs over tokens": many | {"x": "tokens"},
        f"{options.runs} runs over the wall clock": many | {"x": "wall_clock"},
        f"{options.runs} runs over a metric": many | {"x": "train/m00"},
        f"{options.runs} runs, 200 of the steps": many | {"lo": 900, "hi": 1100},
        f"{options.runs} runs, 2 of the hours": many | {"x": "device_hours", "lo": 9, "hi": 11},
        f"{options.runs} runs, a part of a metric": many | {"x": "train/m00", "lo": 0.5, "hi": 0.6},
        f"{options.runs} runs by recipe": many | {"by": "recipe"},
    }
    print(
        f"{options.metrics} panels, {options.steps:,} points a series; goal {GOAL_MS} ms, {GOAL_BYTES / 1e6} MB"
    )
    print(f"{'':30}{'median ms':>10}{'p95 ms':>10}{'bytes':>12}{'ratio':>8}")
    baseline = None
    for name, query in rows.items():
        caches[OWN].clear()  # what counts requests against their limit
        size = len(client.get("/compare/panels", query).content)
        median, p95 = timed(partial(client.get, "/compare/panels", query), options.repeats)
        baseline = baseline or median
        print(f"{name:30}{median:10.1f}{p95:10.1f}{size:12,}{median / baseline:8.2f}")


def make_runs(runs: int, metrics: int, steps: int):
    """A member, and the ids of runs that report so many metrics at so many steps."""
    from django.contrib.auth import get_user_model
    from django.db import connection
    from django.utils import timezone

    from webapp.identity.accounts.models import Role
    from webapp.identity.accounts.services import create_project, set_role
    from webapp.record.runs.models import Attempt, Record, Run, Series, State

    user = get_user_model().objects.create_user("bench", password="not-used-anywhere")
    project = create_project(slug="bench", name="Bench")
    set_role(project, user, Role.ADMIN)
    made = Run.objects.bulk_create(
        Run(project=project, name=f"recipe {i % 3}", task="math", model="8b", seed=i, state=State.RUNNING)
        for i in range(runs)
    )
    Attempt.objects.bulk_create(
        Attempt(run=run, number=1, submission_id=f"run-{run.pk}-a1", state=State.RUNNING) for run in made
    )
    Series.objects.bulk_create(
        Series(run=run, metric=f"train/m{j:02}") for run in made for j in range(metrics)
    )
    began = timezone.now()  # only when each began is read of the records
    Record.objects.bulk_create(
        Record(run=run, attempt=1, seq=0, step=0, time=began, compute={}, metrics={}) for run in made
    )
    with connection.cursor() as cursor:
        cursor.execute(FILL, [steps])
        cursor.execute("VACUUM ANALYZE")
    return user, [run.pk for run in made]


if __name__ == "__main__":
    main()
