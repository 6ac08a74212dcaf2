"""Values a second that 32 trainers bring in over HTTP, against MLflow's `log-batch` in the same PostgreSQL.

    bash scripts/mlflow.sh benchmarks.bench_writers [--writers 32] [--seconds 20]

Ours: batches of 500 records of 20 metrics to `POST runs/{id}/records`, each writer its own run. MLflow's: `log-batch`
of 1000 metrics, the most that it takes. Both servers run as they come (two workers), one after the other; the load
comes from processes of their own on the same cores. What was acknowledged is counted in the database afterwards.
Without MLflow's environment ours is measured alone.
"""

import argparse
import asyncio
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench_mlflow import make_tables, mlflow_server
from benchmarks.bench_pages import web_server
from benchmarks.home import bare_home

WRITERS, SECONDS = 32, 20.0
RECORDS, METRICS = 500, 20
MLFLOW_METRICS = 1000
LOAD_PROCESSES = 2
GOAL_VALUES, GOAL_RATIO = 100_000, 5.0
TIMEOUT = 60.0


@dataclass(frozen=True)
class Writer:
    """Where one writer sends: address, headers, and the id of its run."""

    url: str
    headers: dict[str, str]
    run: str


@dataclass(frozen=True)
class Sent:
    """What was acknowledged in how many seconds."""

    values: int
    seconds: float
    errors: int

    @property
    def rate(self) -> float:
        return self.values / self.seconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--writers", type=int, default=WRITERS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--mlflow", type=Path, default=Path(".venv-mlflow"), help="its environment")
    options = parser.parse_args(arguments)
    binaries = options.mlflow.resolve() / "bin"
    with bare_home() as folder:
        print(f"{'':44}{'values/s':>12}{'stored':>14}{'errors':>8}")
        with web_server(folder) as url:
            ours = measured(our_writers(url, options.writers), our_body, RECORDS * METRICS, options.seconds)
        show(f"Headroom, {options.writers} writers", ours, our_points())
        if not (binaries / "mlflow").exists():
            print(f"{options.mlflow} has no MLflow: bash scripts/mlflow.sh makes it; ours is measured alone")
            return
        experiment = make_tables(binaries, folder)
        for writers in (options.writers, 8, 1):
            with mlflow_server(binaries, folder) as url:
                before = their_values()
                targets = their_writers(url, experiment, writers)
                theirs = measured(targets, their_body, MLFLOW_METRICS, options.seconds)
            show(f"MLflow's log-batch of 1000, {writers} writers", theirs, their_values() - before)
            print(f"  ratio {ours.rate / theirs.rate:.1f} (goal {GOAL_RATIO:g})")


def measured(writers: list[Writer], body: Callable[[str, int], bytes], values: int, seconds: float) -> Sent:
    """All writers at once, for some seconds, from processes of their own."""
    parts = [writers[i::LOAD_PROCESSES] for i in range(LOAD_PROCESSES)]
    work = [(part, body, values, seconds) for part in parts if part]
    with multiprocessing.get_context("spawn").Pool(len(work)) as pool:
        found = pool.starmap(load, work)
    return Sent(sum(s.values for s in found), max(s.seconds for s in found), sum(s.errors for s in found))


def load(writers: list[Writer], body: Callable[[str, int], bytes], values: int, seconds: float) -> Sent:
    return asyncio.run(_load(writers, body, values, seconds))


async def _load(
    writers: list[Writer], body: Callable[[str, int], bytes], values: int, seconds: float
) -> Sent:
    import httpx

    limits = httpx.Limits(max_connections=len(writers), max_keepalive_connections=len(writers))
    async with httpx.AsyncClient(timeout=TIMEOUT, limits=limits, trust_env=False) as client:
        start = time.perf_counter()
        counts = await asyncio.gather(*(_write(client, w, body, start + seconds) for w in writers))
        lasted = time.perf_counter() - start
    return Sent(values * sum(good for good, _ in counts), lasted, sum(bad for _, bad in counts))


async def _write(
    client: Any, writer: Writer, body: Callable[[str, int], bytes], end: float
) -> tuple[int, int]:
    """Batches that were stored, and answers that were none."""
    good = bad = 0
    while time.perf_counter() < end:
        answer = await client.post(writer.url, content=body(writer.run, good), headers=writer.headers)
        good, bad = good + answer.is_success, bad + (not answer.is_success)
    return good, bad


def our_writers(url: str, count: int) -> list[Writer]:
    from webapp.accounts.services import create_token, default_project
    from webapp.runs.launch import track_run

    project = default_project()
    token = create_token(user=None, project=project, scope="write")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    runs = [track_run(user=None, project=project, name=f"writer {i}") for i in range(count)]
    return [Writer(f"{url}/api/v1/runs/{run.pk}/records", headers, run.pk) for run in runs]


def our_body(run: str, batch: int) -> bytes:
    """Consecutive records: only their numbers differ from batch to batch."""
    return b'{"records":[' + b",".join(_record(batch * RECORDS + i) for i in range(RECORDS)) + b"]}"


_METRICS = json.dumps({f"train/metric_{i}": 0.123456789 * (i + 1) for i in range(METRICS)}).encode()
_RECORD = (
    b'{"attempt":1,"seq":%d,"step":%d,"time":"2026-01-01T00:00:00Z",'
    b'"compute":{"device_hours":%d,"flops":1e12,"tokens":1000},"metrics":'
    + _METRICS.replace(b"%", b"%%")
    + b"}"
)


def _record(seq: int) -> bytes:
    return _RECORD % (seq, seq, seq)


def our_points() -> int:
    from webapp.runs.models import Point

    return Point.objects.count()


def their_writers(url: str, experiment: str, count: int) -> list[Writer]:
    import httpx

    base = f"{url}/api/2.0/mlflow/runs"
    made = [
        httpx.post(
            f"{base}/create", json={"experiment_id": experiment}, timeout=TIMEOUT, trust_env=False
        ).json()
        for _ in range(count)
    ]
    headers = {"Content-Type": "application/json"}
    return [Writer(f"{base}/log-batch", headers, run["run"]["info"]["run_id"]) for run in made]


def their_body(run: str, batch: int) -> bytes:
    steps = MLFLOW_METRICS // METRICS
    metrics = b",".join(
        b'{"key":"train/metric_%d","value":%d.123456789,"timestamp":1760000000000,"step":%d}'
        % (i, i, batch * steps + step)
        for step in range(steps)
        for i in range(METRICS)
    )
    return b'{"run_id":"' + run.encode() + b'","metrics":[' + metrics + b"]}"


def their_values() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM mlflow.metrics")
        return int(cursor.fetchone()[0])


def show(name: str, sent: Sent, stored: int) -> None:
    lost = "" if stored == sent.values else f"  ACKNOWLEDGED {sent.values:,}"
    print(f"{name:44}{sent.rate:12,.0f}{stored:14,}{sent.errors:8}{lost}", flush=True)


if __name__ == "__main__":
    main()
