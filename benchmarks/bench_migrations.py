"""How long a writer of points waits while the newest migrations are applied to a database with many of them.

    .venv/bin/python -m benchmarks.bench_migrations                     # 10 million points
    .venv/bin/python -m benchmarks.bench_migrations --points 1000000 --reader 3

A database of its own is brought to the migration `--before`, filled, and then migrated as `prepare_stack` does it,
while one connection stores twenty points in each transaction and looks at their run. For `--reader` seconds another
holds the tables of runs and points with a long query. Printed: how long the migrations took, and the longest and the
99th percentile of the writer's transactions (goal: at most 3 s: a lock is waited for 2 s). The migrations before
`--before` met no points.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from stack.environment import ROOT

POINTS, BEFORE = 10_000_000, "runs.0001_squashed_0012_dispatch_origin"  # 0.1.0
SERIES = 2_000
GOAL_SECONDS = 3.0
FILL = """
INSERT INTO runs_point (series_id, attempt, seq, step, "time", device_hours, value)
SELECT i %% %(series)s, 1, i / %(series)s, i / %(series)s, now(), i, random() FROM generate_series(1, %(points)s) AS i
"""
WRITE = """
INSERT INTO runs_point (series_id, attempt, seq, step, "time", device_hours, value)
SELECT -i, 1, %(seq)s, %(seq)s, now(), 1, 0.5 FROM generate_series(1, 20) AS i
WHERE NOT EXISTS (SELECT 1 FROM runs_run JOIN runs_series ON run_id = runs_run.id WHERE runs_run.id = '')
"""


class Writer:
    """Stores twenty points a transaction until it is told to stop. `seconds`: of each."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.seconds: list[float] = []
        self.error: Exception | None = None
        self.wrote = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    @property
    def points(self) -> int:
        return 20 * len(self.seconds)

    def wait_for_more(self, timeout: float = 60.0) -> bool:
        """Whether it stored something from now on."""
        with self.wrote:
            before = len(self.seconds)
            return self.wrote.wait_for(lambda: len(self.seconds) > before, timeout)

    def _write(self) -> None:
        try:
            with psycopg.connect(self.url, autocommit=True) as connection:
                while not self._stopping.is_set():
                    began = time.perf_counter()
                    connection.execute(WRITE, {"seq": len(self.seconds)})
                    with self.wrote:
                        self.seconds.append(time.perf_counter() - began)
                        self.wrote.notify_all()
        except psycopg.Error as error:
            self.error = error


def command(url: str, *words: str) -> "subprocess.Popen[str]":
    """A command of ours on this database; what it says goes to its stderr and stdout, line by line."""
    variables = os.environ | {
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "PYTHONUNBUFFERED": "1",
    }
    return subprocess.Popen(
        [sys.executable, "manage.py", *words], cwd=ROOT, env=variables, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip


def bring_to(url: str, migration: str) -> None:
    """The tables as this migration (app.name) leaves them. Raises RuntimeError."""
    app, _, name = migration.partition(".")
    process = command(url, "migrate", app, name, "--verbosity", "0")
    said, _ = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(said)


def fill(url: str, points: int, series: int = SERIES) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILL, {"points": points, "series": series})


@contextmanager
def long_query(url: str) -> "Iterator[psycopg.Connection]":
    """A transaction that has read points and their runs, and holds the tables as a long query does."""
    with psycopg.connect(url) as connection:
        connection.execute("SELECT 1 FROM runs_point, runs_series, runs_run LIMIT 1")
        yield connection


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--points", type=int, default=POINTS)
    parser.add_argument(
        "--before", default=BEFORE, help="the last migration that is applied before the points come"
    )
    parser.add_argument(
        "--reader", type=float, default=10.0, help="seconds that a long query holds the table"
    )
    options = parser.parse_args(arguments)
    from stack.postgres import start_postgres

    with tempfile.TemporaryDirectory(prefix="headroom-bench-") as folder:
        server = start_postgres(Path(folder) / "postgres")
        try:
            _measure(server.url, options)
        finally:
            server.stop()


def _measure(url: str, options: argparse.Namespace) -> None:
    bring_to(url, options.before)
    fill(url, options.points)
    print(f"{options.points:,} points stored, migrated to {options.before}")
    with Writer(url) as writer:
        began = time.perf_counter()
        process = command(url, "migrate")
        assert process.stdout is not None
        with long_query(url):
            try:
                said, _ = process.communicate(timeout=options.reader)
            except subprocess.TimeoutExpired:
                said = ""
        rest, _ = process.communicate()
        seconds = time.perf_counter() - began
    if process.returncode != 0 or writer.error:
        raise SystemExit(f"{said}{rest}\n{writer.error or ''}")
    ordered = sorted(writer.seconds)
    late = ordered[int(0.99 * len(ordered))]
    print(f"migrated in {seconds:.1f} s, {(said + rest).count('waits for a lock')} times stepped back")
    print(
        f"{len(ordered):,} transactions of the writer: 99th percentile {late * 1e3:.1f} ms, "
        f"longest {ordered[-1]:.2f} s (goal {GOAL_SECONDS:.0f} s)"
    )
    if ordered[-1] > GOAL_SECONDS:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
