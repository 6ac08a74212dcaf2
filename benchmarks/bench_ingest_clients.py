"""Values per second of 32 writers over HTTP: ours, MLflow's server and trackio's, one after the other on one machine.

    .venv/bin/python -m benchmarks.bench_ingest_clients [--writers 32] [--batches 10]

Each gets as much in a request as its client sends at most: we 500 records of 20 metrics, MLflow a `log-batch` of 1000
metrics; trackio 50 lines of 20 metrics. Ours and MLflow's server use the same PostgreSQL with two processes each;
trackio has its SQLite. Bodies are made before the clock starts; each writer has a run of its own and makes a
connection a request. Goal: 5 times. The last line is trackio's own test of its throughput as it is, 32 threads that log
1000 times each through its client: what a client costs is in it, and is not in the others.

MLflow's server comes out of .venv-mlflow (`bash scripts/mlflow.sh` makes it), trackio's out of .venv-trackers
(`make trackers` makes it); what is missing is not measured, and said so.
"""

import argparse
import http.client
import json
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.bench_mlflow import make_tables, mlflow_server
from benchmarks.bench_pages import web_server
from benchmarks.home import USER, bare_home
from benchmarks.trackio import SECRET, run_trackio, trackio_server

GOAL = 5.0
METRICS = 20
IN_REQUEST = 1000  # values
OUR_RECORDS = 500  # as `headroom.sender` sends at most
OWN_TEST = {"threads": 32, "logs": 1000, "metrics": 2}  # as trackio measures itself
T0 = 1_760_000_000_000


@dataclass(frozen=True)
class Request:
    """One POST, ready to be sent."""

    path: str
    body: bytes
    headers: dict[str, str]
    values: int = IN_REQUEST


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--writers", type=int, default=32)
    parser.add_argument("--batches", type=int, default=10, help="requests of 1000 values of each writer")
    parser.add_argument("--mlflow", type=Path, default=Path(".venv-mlflow"))
    parser.add_argument("--trackio", type=Path, default=Path(".venv-trackers"))
    options = parser.parse_args(arguments)
    rates: dict[str, float] = {}
    with bare_home() as folder:
        with web_server(folder) as url:
            rates["Headroom"] = measured(url, ours(options.writers, options.batches))
            rates["Headroom as MLflow"] = measured(url, ours_as_mlflow(url, options.writers, options.batches))
        binaries = options.mlflow.resolve() / "bin"
        if (binaries / "mlflow").exists():
            experiment = make_tables(binaries, folder)
            with mlflow_server(binaries, folder) as url:
                rates["MLflow"] = measured(
                    url, of_mlflow(url, {}, experiment, options.writers, options.batches)
                )
        if (options.trackio / "bin" / "trackio").exists():
            with trackio_server(options.trackio.resolve() / "bin", folder) as url:
                rates["trackio"] = measured(url, of_trackio(options.writers, options.batches))
            rates["trackio's own test"] = own_test_of_trackio(options.trackio.resolve() / "bin", folder)
    show(rates)


def measured(url: str, requests: list[list[Request]]) -> float:
    """Values per second that were taken, all writers at the same time, after a first request of each. A writer that is
    refused stops, and it is said."""
    taken: list[int] = []
    refused: list[str] = []

    def write(writer: list[Request]) -> None:
        try:
            for request in writer:
                send(url, [request])
                taken.append(request.values)
        except RuntimeError as error:
            refused.append(str(error))

    for writer in requests:
        send(url, writer[:1])
    threads = [threading.Thread(target=write, args=(writer[1:],)) for writer in requests]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if refused:
        print(f"{len(refused)} of {len(requests)} writers were refused, the first one: {refused[0][:200]}")
    return sum(taken) / (time.perf_counter() - began)


def send(url: str, requests: Sequence[Request]) -> list[bytes]:
    """The answers, all of them successes."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    answers = []
    for request in requests:
        connection.request("POST", request.path, request.body, request.headers)
        response = connection.getresponse()
        answers.append(response.read())
        if response.status >= 300:
            raise RuntimeError(f"{request.path} answered {response.status}: {answers[-1][:300]!r}")
    connection.close()
    return answers


def post(path: str, body: Any, headers: dict[str, str], values: int = IN_REQUEST) -> Request:
    return Request(path, json.dumps(body).encode(), {"Content-Type": "application/json"} | headers, values)


def value(writer: int, step: int, metric: int) -> float:
    return 0.123456789 * (metric + 1) + step + writer / 100


def steps(batch: int, records: int = IN_REQUEST // METRICS) -> range:
    return range(batch * records, (batch + 1) * records)


def ours(writers: int, batches: int) -> list[list[Request]]:
    from webapp.identity.accounts.models import User
    from webapp.identity.accounts.services import create_token, default_project
    from webapp.record.runs.launch import TrackRequest, track_run

    user = User.objects.get(username=USER)
    project = default_project()
    headers = {"Authorization": f"Bearer {create_token(user=user, project=project, scope='write')}"}

    def record(writer: int, step: int) -> dict[str, Any]:
        compute = {"device_hours": 1e-3 * step, "flops": None, "tokens": 1e3 * step}
        metrics = {f"train/metric_{i}": value(writer, step, i) for i in range(METRICS)}
        place = {"attempt": 1, "seq": step, "step": step, "time": "2026-01-01T00:00:00Z"}
        return place | {"compute": compute, "metrics": metrics}

    def requests(writer: int) -> list[Request]:
        run = track_run(TrackRequest(name=f"writer {writer}"), user=user, project=project).run
        path = f"/api/v1/runs/{run.pk}/records"
        return [
            post(
                path,
                {"records": [record(writer, step) for step in steps(batch, OUR_RECORDS)]},
                headers,
                OUR_RECORDS * METRICS,
            )
            for batch in range(batches + 1)
        ]

    return [requests(writer) for writer in range(writers)]


def ours_as_mlflow(url: str, writers: int, batches: int) -> list[list[Request]]:
    from webapp.identity.accounts.models import User
    from webapp.identity.accounts.services import create_token, default_project

    token = create_token(user=User.objects.get(username=USER), project=default_project(), scope="write")
    return of_mlflow(url, {"Authorization": f"Bearer {token}"}, "0", writers, batches)


def of_mlflow(
    url: str, headers: dict[str, str], experiment: str, writers: int, batches: int
) -> list[list[Request]]:
    def line(writer: int, step: int, metric: int) -> dict[str, Any]:
        place = {"timestamp": T0 + step, "step": step}
        return {"key": f"train/metric_{metric}", "value": value(writer, step, metric)} | place

    def requests(writer: int) -> list[Request]:
        made = post("/api/2.0/mlflow/runs/create", {"experiment_id": experiment, "start_time": T0}, headers)
        run_id = json.loads(send(url, [made])[0])["run"]["info"]["run_id"]
        return [
            post(
                "/api/2.0/mlflow/runs/log-batch",
                {
                    "run_id": run_id,
                    "metrics": [line(writer, s, i) for s in steps(batch) for i in range(METRICS)],
                },
                headers,
            )
            for batch in range(batches + 1)
        ]

    return [requests(writer) for writer in range(writers)]


def of_trackio(writers: int, batches: int) -> list[list[Request]]:
    headers = {"x-trackio-write-token": SECRET}

    def line(writer: int, step: int) -> dict[str, Any]:
        metrics = {f"train/metric_{i}": value(writer, step, i) for i in range(METRICS)}
        run = {"project": "bench", "run": f"writer {writer}", "run_id": f"{writer:032x}", "config": None}
        return run | {"metrics": metrics, "step": step, "log_id": uuid.uuid4().hex}

    def body(writer: int, batch: int) -> dict[str, Any]:
        logs = [line(writer, step) for step in steps(batch)]
        return {"args": [], "kwargs": {"logs": logs, "hf_token": None}}

    return [
        [post("/api/bulk_log", body(writer, batch), headers) for batch in range(batches + 1)]
        for writer in range(writers)
    ]


def own_test_of_trackio(binaries: Path, folder: Path) -> float:
    """Values per second through its client, until its server has them."""
    apart = folder / "own test"
    (apart / "logs").mkdir(parents=True)
    with trackio_server(binaries, apart) as url:
        ran = run_trackio(url, binaries, apart, OWN_TEST)
    return ran.lines * OWN_TEST["metrics"] / ran.seconds


def show(rates: dict[str, float]) -> None:
    print(f"{'':24}{'values/s':>12}{'Headroom is':>14}")
    for name, rate in rates.items():
        times = rates["Headroom"] / rate
        goal = "" if name.startswith("Headroom") else "  reached" if times >= GOAL else f"  under {GOAL:g}"
        print(f"{name:24}{rate:12,.0f}{times:12.1f} x{goal}")
    for name in ("MLflow", "trackio"):
        if name not in rates:
            print(f"{name} is not installed: not measured")


if __name__ == "__main__":
    main()
