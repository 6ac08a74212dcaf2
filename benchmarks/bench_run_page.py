"""Server time of the run page with 500 evaluation points, against a page of the same shell without points.

    .venv/bin/python -m benchmarks.bench_run_page [--points 500] [--repeats 30]

Starts an embedded PostgreSQL in a temporary folder, inserts one run, and calls the views through Django's test client:
middleware, permissions, queries, fit, payload and template included; the network is not.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--points", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headroom-bench-"))
    os.environ |= {"HEADROOM_HOME": str(folder), "DJANGO_SETTINGS_MODULE": "webapp.settings"}
    from stack.postgres import start_postgres

    postgres = start_postgres(folder / "postgres")
    os.environ["DATABASE_URL"] = postgres.url
    try:
        measure(options.points, options.repeats)
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def measure(points: int, repeats: int) -> None:
    import logging

    import django

    django.setup()
    logging.disable(logging.INFO)
    from django.core.management import call_command
    from django.test import Client

    from webapp.science.curves import fitting

    call_command("migrate", verbosity=0)
    user, run, empty = make_runs(points)
    client = Client(headers={"host": "localhost"})
    client.force_login(user)

    def cold_cutoff() -> None:
        fitting._cached_fit.cache_clear()
        client.get(f"/runs/{run.pk}/figure", {"cutoff": "4.0"})

    rows = {
        "run page, no points (baseline)": lambda: client.get(f"/runs/{empty.pk}"),
        f"run page, {points} points": lambda: client.get(f"/runs/{run.pk}"),
        f"figure, {points} points, fit cached": lambda: client.get(f"/runs/{run.pk}/figure"),
        f"figure, {points} points, new cutoff (refit)": cold_cutoff,
        "figure, nothing new (204)": lambda: client.get(f"/runs/{run.pk}/figure", {"since": run.version}),
    }
    baseline = None
    print(f"{'':46}{'median ms':>10}{'p95 ms':>10}{'ratio':>8}")
    for name, call in rows.items():
        median, p95 = timed(call, repeats)
        baseline = baseline or median
        print(f"{name:46}{median:10.1f}{p95:10.1f}{median / baseline:8.2f}")


def timed(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median and 95th percentile in milliseconds, after one warm-up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times), statistics.quantiles(times, n=20)[-1]


def make_runs(points: int):
    """A member, a run with that many evaluations along Eq. 1, and a run without any."""
    import numpy as np
    from django.contrib.auth import get_user_model
    from django.utils import timezone

    from webapp.identity.accounts.models import Role
    from webapp.identity.accounts.services import create_project, set_role
    from webapp.record.runs.models import Point, Run, Series, State

    user = get_user_model().objects.create_user("bench", password="not-used-anywhere")
    project = create_project(slug="bench", name="Bench")
    set_role(project, user, Role.ADMIN)
    run, empty = (
        Run.objects.create(
            project=project, name=name, task="math", model="8b", budget_hours=16, state=State.RUNNING
        )
        for name in ("with points", "without")
    )
    series = Series.objects.create(run=run, metric="eval/pass_rate")
    rng = np.random.default_rng(0)
    hours = np.linspace(0.02, 8.0, points)
    rates = 0.2 + 0.4 / (1 + hours**-2.0) + 0.01 * rng.standard_normal(points)
    Point.objects.bulk_create(
        Point(
            series=series,
            attempt=1,
            seq=i,
            step=i,
            time=timezone.now(),
            device_hours=c,
            flops=c,
            tokens=c,
            value=r,
        )
        for i, (c, r) in enumerate(zip(hours, rates, strict=True))
    )
    return user, run, empty


if __name__ == "__main__":
    main()
