"""Records per second through the ingest service and through the API, 20 metrics a record, one writer.

    .venv/bin/python -m benchmarks.bench_ingest [--batches 20] [--size 500]

The baseline is the same rows stored by Django's bulk_create. Starts an embedded PostgreSQL in a temporary folder.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

METRICS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--size", type=int, default=500)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headroom-bench-"))
    os.environ |= {"HEADROOM_HOME": str(folder), "DJANGO_SETTINGS_MODULE": "webapp.settings"}
    from stack.postgres import start_postgres

    postgres = start_postgres(folder / "postgres")
    os.environ["DATABASE_URL"] = postgres.url
    try:
        measure(options.batches, options.size)
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def measure(batches: int, size: int) -> None:
    import logging

    import django

    django.setup()
    logging.disable(logging.WARNING)
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    ways = {
        "bulk_create (baseline)": baseline_writer(),
        "ingest service": service_writer(),
        "POST runs/{id}/records": api_writer(),
    }
    print(f"{'':28}{'records/s':>12}{'values/s':>12}{'ms a batch':>12}{'ratio':>8}")
    baseline = None
    for name, write in ways.items():
        seconds = timed(write, batches, size)
        baseline = baseline or seconds
        rate = size / seconds
        print(f"{name:28}{rate:12,.0f}{rate * METRICS:12,.0f}{1000 * seconds:12.1f}{baseline / seconds:8.2f}")


def timed(write: Callable[[list[dict[str, Any]]], object], batches: int, size: int) -> float:
    """Seconds a batch, after one warm-up batch."""
    payload = [make_batch(i * size, size) for i in range(batches + 1)]
    write(payload[0])
    start = time.perf_counter()
    for batch in payload[1:]:
        write(batch)
    return (time.perf_counter() - start) / batches


def make_batch(first: int, size: int) -> list[dict[str, Any]]:
    """Records of consecutive steps as JSON objects."""
    return [
        {
            "attempt": 1,
            "seq": step,
            "step": step,
            "time": "2026-01-01T00:00:00Z",
            "compute": {"device_hours": 1e-3 * step, "flops": 1e12 * step, "tokens": 1e3 * step},
            "metrics": {f"train/metric_{i}": 0.123456789 * (i + 1) + step for i in range(METRICS)},
        }
        for step in range(first, first + size)
    ]


def make_run(name: str):
    from webapp.identity.accounts.services import default_project
    from webapp.record.runs.launch import TrackRequest, track_run

    return track_run(TrackRequest(name=name), user=None, project=default_project()).run


def service_writer() -> Callable[[list[dict[str, Any]]], object]:
    from training.records import Record
    from webapp.record.runs.ingest import store_records

    run = make_run("service")
    return lambda batch: store_records(run, [Record.model_validate(row) for row in batch])


def api_writer() -> Callable[[list[dict[str, Any]]], object]:
    from django.test import Client

    from webapp.record.runs.tokens import create_job_token

    run = make_run("api")
    token = create_job_token(run)
    client = Client(headers={"host": "localhost", "Authorization": f"Bearer {token}"})

    def write(batch: list[dict[str, Any]]) -> None:
        body = json.dumps({"records": batch})
        response = client.post(f"/api/v1/runs/{run.pk}/records", body, content_type="application/json")
        assert response.status_code == 200, response.content

    return write


def baseline_writer() -> Callable[[list[dict[str, Any]]], object]:
    from django.db import transaction

    from webapp.record.runs.models import Point, Record, Series

    run = make_run("baseline")
    series = {name: Series.objects.create(run=run, metric=name) for name in make_batch(0, 1)[0]["metrics"]}

    @transaction.atomic
    def write(batch: list[dict[str, Any]]) -> None:
        Record.objects.bulk_create([Record(run=run, **row) for row in batch], ignore_conflicts=True)
        points = [
            Point(
                series=series[name],
                value=value,
                **{key: row[key] for key in ("attempt", "seq", "step", "time")},
                **row["compute"],
            )
            for row in batch
            for name, value in row["metrics"].items()
        ]
        Point.objects.bulk_create(points, ignore_conflicts=True)

    return write


if __name__ == "__main__":
    main()
