"""The same questions to MLflow's server and to ours, about the same runs in the same PostgreSQL: times and ratios.

    bash scripts/mlflow.sh [--home DIR] [--runs 500] [--points 2000000] [--repeats 20]

MLflow makes its own tables, in a schema of their own; they are then filled from ours, every value of every series.
Both servers run as they come (ours as `manage.py up` starts it, MLflow's with two workers, too), one request at a time
over one connection. Goal: at least 3 times faster for the same answer. Where a run crashed, MLflow's histories also
have the values past the checkpoint that it resumed from, which ours leave out.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.bench_pages import web_server
from benchmarks.home import PROJECT, USER, add_options, made_home
from benchmarks.timing import Times, timed

GOAL = 3.0
MANY = 100
SERVER_SECONDS = 120.0
TASK = "math"
METRIC = "eval/pass_rate"

# Run by MLflow's own Python: its tables, and an experiment whose id is printed.
MAKE_TABLES = """
import sys
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
store = SqlAlchemyStore(sys.argv[1], sys.argv[2])
found = store.get_experiment_by_name(sys.argv[3])
print("experiment", found.experiment_id if found else store.create_experiment(sys.argv[3]))
"""
RUNS = """
INSERT INTO mlflow.runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status,
    start_time, end_time, source_version, lifecycle_stage, artifact_uri, experiment_id)
SELECT r.id, r.name, 'LOCAL', '', '', '', CASE r.state WHEN 'succeeded' THEN 'FINISHED' WHEN 'running' THEN 'RUNNING'
        WHEN 'queued' THEN 'SCHEDULED' WHEN 'cancelled' THEN 'KILLED' ELSE 'FAILED' END,
    extract(epoch FROM r.created_at) * 1000, extract(epoch FROM r.ended_at) * 1000,
    '', 'active', '', %(experiment)s
FROM runs_run AS r JOIN accounts_project AS p ON p.id = r.project_id WHERE p.slug = %(project)s
"""
PARAMS = """
INSERT INTO mlflow.params (key, value, run_uuid)
SELECT said.key, said.value, r.id FROM runs_run AS r JOIN accounts_project AS p ON p.id = r.project_id
LEFT JOIN recipes_revision AS v ON v.id = r.revision_id LEFT JOIN recipes_recipe AS c ON c.id = v.recipe_id
CROSS JOIN LATERAL (
    VALUES ('task', r.task), ('model', r.model), ('seed', r.seed::text), ('recipe', c.slug)
) AS said (key, value)
WHERE p.slug = %(project)s AND said.value IS NOT NULL
"""
METRICS = """
INSERT INTO mlflow.metrics (key, value, timestamp, run_uuid, step, is_nan)
SELECT s.metric, t.value, extract(epoch FROM t."time") * 1000, s.run_id, t.step, false
FROM runs_run AS r JOIN accounts_project AS p ON p.id = r.project_id JOIN runs_series AS s ON s.run_id = r.id
JOIN runs_point AS t ON t.series_id = s.id WHERE p.slug = %(project)s AND r.id = ANY(%(runs)s)
    AND (s.metric LIKE 'eval/%%' OR NOT %(curves_only)s)
ON CONFLICT DO NOTHING
"""
LATEST = """
INSERT INTO mlflow.latest_metrics (key, value, timestamp, run_uuid, step, is_nan)
SELECT s.metric, t.value, extract(epoch FROM t."time") * 1000, s.run_id, t.step, false
FROM runs_run AS r JOIN accounts_project AS p ON p.id = r.project_id JOIN runs_series AS s ON s.run_id = r.id
JOIN LATERAL (
    SELECT * FROM runs_point WHERE series_id = s.id ORDER BY attempt DESC, seq DESC LIMIT 1
) AS t ON true WHERE p.slug = %(project)s
"""
WARM_UP = 6  # questions: each server has two workers
CHUNK = 200  # runs whose values are copied in one statement


@dataclass(frozen=True)
class Question:
    """The same thing asked of both; each answers how many rows it got."""

    name: str
    theirs: Callable[[Any], int]
    ours: Callable[[Any], int]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_options(parser)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument(
        "--mlflow", type=Path, default=Path(".venv-mlflow"), help="its environment (.venv-mlflow)"
    )
    parser.add_argument(
        "--curves-only",
        action="store_true",
        help="of the histories copy only those of evaluations (350 bytes a value otherwise); newest values of all",
    )
    options = parser.parse_args(arguments)
    binaries = options.mlflow.resolve() / "bin"
    if not (binaries / "mlflow").exists():
        print(f"{options.mlflow} has no MLflow: bash scripts/mlflow.sh makes it; nothing is measured")
        return
    with made_home(options) as folder:
        experiment = fill(binaries, folder, options.curves_only)
        token = make_token()
        with mlflow_server(binaries, folder) as theirs, web_server(folder) as ours:
            ask_all(theirs, ours, token, questions(experiment), options.repeats)


def mlflow_url() -> str:
    """The same database for SQLAlchemy, with MLflow's schema first."""
    where = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg2://", 1)
    return f"{where}{'&' if '?' in where else '?'}options={quote('-csearch_path=mlflow')}"


def fill(binaries: Path, folder: Path, curves_only: bool) -> str:
    """MLflow's tables with our runs in them, made once; the id of their experiment."""
    from django.db import connection

    experiment = make_tables(binaries, folder)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM mlflow.latest_metrics")
        if cursor.fetchone()[0] == 0:
            copy_runs(cursor, experiment, curves_only)
    return experiment


def make_tables(binaries: Path, folder: Path) -> str:
    """MLflow's own tables, in their schema; the id of an experiment there."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS mlflow")
    command = [
        str(binaries / "python"),
        "-c",
        MAKE_TABLES,
        mlflow_url(),
        f"file://{folder}/mlflow-artifacts",
        PROJECT,
    ]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    return made.stdout.strip().splitlines()[-1].removeprefix("experiment ")


def copy_runs(cursor: Any, experiment: str, curves_only: bool) -> None:
    """Fill the tables of an empty experiment, the newest values last: they tell that all is there."""
    for table in ("metrics", "params", "runs"):
        cursor.execute(f"TRUNCATE mlflow.{table} CASCADE")
    values: dict[str, Any] = {"experiment": int(experiment), "project": PROJECT, "curves_only": curves_only}
    cursor.execute(RUNS, values)
    cursor.execute(PARAMS, values)
    cursor.execute("SELECT run_uuid FROM mlflow.runs ORDER BY start_time")
    ids = [row[0] for row in cursor.fetchall()]
    for first in range(0, len(ids), CHUNK):
        cursor.execute(METRICS, values | {"runs": ids[first : first + CHUNK]})
        print(f"{min(first + CHUNK, len(ids)):,} of {len(ids):,} runs copied to MLflow", flush=True)
    cursor.execute(LATEST, values)
    cursor.execute("VACUUM (ANALYZE)")


def make_token() -> str:
    """A token for our REST API."""
    from webapp.identity.accounts.models import Project, User
    from webapp.identity.accounts.services import create_token

    project = Project.objects.get(slug=PROJECT)
    return create_token(user=User.objects.get(username=USER), project=project, scope="read")


@contextlib.contextmanager
def mlflow_server(binaries: Path, folder: Path) -> Iterator[str]:
    """MLflow's own server; its URL."""
    import httpx

    from stack.ports import free_port

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(binaries / "mlflow"), "server", "--backend-store-uri", mlflow_url(), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--workers", "2", "--no-serve-artifacts"]
    command += ["--default-artifact-root", f"file://{folder}/mlflow-artifacts"]
    log_path = folder / "logs" / "mlflow.log"
    log_path.parent.mkdir(exist_ok=True)
    variables = os.environ | {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # its job runners would share the cores
    }
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, env=variables, stdout=log, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True
        )
    try:
        deadline = time.monotonic() + SERVER_SECONDS
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{url}/health", timeout=5, trust_env=False).status_code == 200:
                    break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"MLflow's server did not start; its log is {log_path}")
            time.sleep(0.2)
        yield url
    finally:
        stop_group(process)


def stop_group(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)


def questions(experiment: str) -> list[Question]:
    """What is asked of both."""
    from webapp.record.runs.models import Run

    finished = Run.objects.filter(project__slug=PROJECT, state="succeeded", task=TASK)
    ids = list(finished.order_by("-created_at", "id").values_list("pk", flat=True)[:MANY])
    chosen = [("run_id", run_id) for run_id in ids]
    ours_many = [*(("run", run_id) for run_id in ids), ("metric", METRIC), ("x", "step")]
    ours_many += [("column", name) for name in ("step", "value", "time")]  # what MLflow answers

    def search(order: str) -> dict[str, Any]:
        return {
            "experiment_ids": [experiment],
            "filter": f"attributes.status = 'FINISHED' and params.task = '{TASK}'",
            "max_results": MANY,
            "order_by": [order],
        }

    return [
        Question(
            f"{MANY} finished runs of a task, newest first",
            lambda client: len(post(client, "runs/search", search("attributes.start_time DESC"))["runs"]),
            lambda client: len(
                get(client, f"/api/v1/runs?state=succeeded&task={TASK}&limit={MANY}")["items"]
            ),
        ),
        Question(
            f"histories of {METRIC} of {len(ids)} runs",
            lambda client: len(
                get(
                    client,
                    "/ajax-api/2.0/mlflow/metrics/get-history-bulk",
                    [*chosen, ("metric_key", METRIC), ("max_results", "25000")],
                )["metrics"]
            ),
            lambda client: sum(
                len(item["value"]) for item in get(client, "/api/v1/curves", ours_many)["items"]
            ),
        ),
    ]


def get(client: Any, path: str, parameters: Any = None) -> Any:
    """JSON of a GET that must succeed."""
    response = client.get(path, params=parameters)
    response.raise_for_status()
    return response.json()


def post(client: Any, path: str, body: dict[str, Any]) -> Any:
    """JSON of a POST to MLflow's API that must succeed."""
    response = client.post(f"/api/2.0/mlflow/{path}", json=body)
    response.raise_for_status()
    return response.json()


def ask_all(theirs: str, ours: str, token: str, asked: Sequence[Question], repeats: int) -> None:
    """Ask and print; the answers must have the same number of rows."""
    import httpx

    authorization = {"Authorization": f"Bearer {token}"}
    print(f"{'milliseconds':44}{'MLflow':>16}{'Headroom':>16}{'ratio':>8}")
    print(f"{'':44}{'median':>8}{'p95':>8}{'median':>8}{'p95':>8}")
    with (
        httpx.Client(base_url=theirs, timeout=120, trust_env=False) as their_client,
        httpx.Client(base_url=ours, timeout=120, trust_env=False, headers=authorization) as our_client,
    ):
        for question in asked:
            for _ in range(WARM_UP):
                rows = question.theirs(their_client), question.ours(our_client)
            their_times = timed(lambda _, q=question: q.theirs(their_client), repeats)  # type: ignore[misc]
            our_times = timed(lambda _, q=question: q.ours(our_client), repeats)  # type: ignore[misc]
            print(line(question.name, rows, their_times, our_times))


def line(name: str, rows: tuple[int, int], theirs: Times, ours: Times) -> str:
    """One line of the table; says where the answers are not the same."""
    ratio = theirs.median_ms / ours.median_ms
    verdict = "reached" if ratio >= GOAL else f"under {GOAL:g}"
    same = "" if rows[0] == rows[1] else f"  (answers differ: {rows[0]} and {rows[1]} rows)"
    cells = f"{theirs.median_ms:8.1f}{theirs.p95_ms:8.1f}{ours.median_ms:8.1f}{ours.p95_ms:8.1f}"
    return f"{name:44}{cells}{ratio:8.1f}  {verdict}{same}"


if __name__ == "__main__":
    main()
