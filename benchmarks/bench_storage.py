"""What grows with the number of stored points, and what must not: ingest, a repeated batch, a sampled read.

    .venv/bin/python -m benchmarks.bench_storage --home DIR    # DIR: as bench_pages makes it, with 100 million points
    .venv/bin/python -m benchmarks.bench_storage               # 3 million points and 10 million of one run

Each figure is measured in a database of its own with few points, and in that of DIR, and printed as a ratio (goal: at
most 1.2). The repeated batch is of 500 records of 20 metrics, of a run with 10 thousand and with 10 million points. The
sampled read is `GET /series` of ten runs of 10,000 points each, asked inside of the server's process (goal: 50 ms).
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.bench_ingest import METRICS, make_batch, make_run
from benchmarks.home import bare_home
from benchmarks.timing import timed

BATCH = 500  # records
RUNS, STEPS = 10, 10_000
WRITERS, ROUNDS = 32, 4
LONG_POINTS = 10_000_000
REPEATS = 30
GOAL_RATIO, GOAL_MS = 1.2, 50.0


@dataclass(frozen=True)
class Figures:
    """Of one database: stored points, values a second, and medians in milliseconds."""

    points: int
    values_per_second: float
    series_ms: float


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--home", type=Path, help="folder with many points, as benchmarks.bench_pages makes it"
    )
    parser.add_argument("--long", type=int, default=LONG_POINTS, help="points of the one long run (0: none)")
    options = parser.parse_args(arguments)
    few = _in_own_process(None)
    _show("few", few)
    if options.home:
        many = _in_own_process(options.home)
        _show("many", many)
        slower = few.values_per_second / many.values_per_second
        print(f"ingest: {slower:.2f} times as long a value (goal {GOAL_RATIO:g})")
        print(f"sampled read: {many.series_ms / few.series_ms:.2f} times (goal {GOAL_RATIO:g})")
    if options.long:
        _repeated(options.long)


def _in_own_process(home: Path | None) -> Figures:
    """Django is set up for one database in a process."""
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (home,))


def measure(home: Path | None) -> Figures:
    """The figures of one database; what is made for them stays in it."""
    with bare_home(home):
        from django.db import connection

        runs = [make_run(f"sampled {i}") for i in range(RUNS)]
        for run in runs:
            for first in range(0, STEPS, BATCH):
                _store(run, make_batch(first, BATCH))
        rate = _ingest_rate()
        with connection.cursor() as cursor:
            cursor.execute(
                "VACUUM (ANALYZE) runs_point"
            )  # as the database does by itself, some minutes later
            cursor.execute("SELECT reltuples::bigint FROM pg_class WHERE relname = 'runs_point'")
            (points,) = cursor.fetchone()
        return Figures(int(points), rate, _series_ms([run.pk for run in runs]))


def _store(run: Any, batch: list[dict[str, Any]]) -> None:
    from training.records import Record
    from webapp.record.runs.ingest import store_records

    store_records(run, [Record.model_validate(row) for row in batch])


def _ingest_rate() -> float:
    """Values a second of one process that stores for 32 runs in turn."""
    from training.records import Record
    from webapp.record.runs.ingest import store_records

    runs = [make_run(f"writer {i}") for i in range(WRITERS)]
    batches = [[Record.model_validate(row) for row in make_batch(i * BATCH, BATCH)] for i in range(ROUNDS)]
    start = time.perf_counter()
    for batch in batches:
        for run in runs:
            store_records(run, batch)
    return WRITERS * ROUNDS * BATCH * METRICS / (time.perf_counter() - start)


def _series_ms(run_ids: list[str]) -> float:
    from django.test import Client

    from webapp.identity.accounts.services import create_token, default_project

    token = create_token(user=None, project=default_project(), scope="read")
    client = Client(headers={"host": "localhost", "Authorization": f"Bearer {token}"})
    address = "/api/v1/series?" + urlencode({"run": run_ids, "metric": "train/metric_3"}, doseq=True)

    def ask(_: int) -> None:
        answer = client.get(address)
        assert answer.status_code == 200, answer.content

    ask(0)
    return timed(ask, REPEATS).median_ms


def _show(name: str, figures: Figures) -> None:
    series = f"{RUNS} runs of {STEPS:,} points sampled in {figures.series_ms:.1f} ms (goal {GOAL_MS:g})"
    print(
        f"{name}: {figures.points:,} points, {figures.values_per_second:,.0f} values/s, {series}", flush=True
    )


def _repeated(points: int) -> None:
    """A committed batch again, early and late in the life of a run."""
    with bare_home():
        run = make_run("long")
        grow = _growing(run)
        grow(BATCH)
        early = timed(lambda _: _store(run, make_batch(0, BATCH)), REPEATS).median_ms
        print(f"repeated batch at {BATCH * METRICS:,} points: {early:.1f} ms", flush=True)
        steps = points // METRICS
        grow(steps)
        last = make_batch(steps - BATCH, BATCH)
        late = timed(lambda _: _store(run, last), REPEATS).median_ms
        first = timed(lambda _: _store(run, make_batch(0, BATCH)), REPEATS).median_ms
        print(
            f"repeated batch at {points:,} points: the last {late:.1f} ms, the first {first:.1f} ms: "
            f"{max(late, first) / early:.2f} times (goal {GOAL_RATIO:g})"
        )


def _growing(run: Any) -> Callable[[int], None]:
    stored = 0

    def grow(steps: int) -> None:
        nonlocal stored
        for first in range(stored, steps, BATCH):
            _store(run, make_batch(first, BATCH))
        stored = steps

    return grow


if __name__ == "__main__":
    main()
