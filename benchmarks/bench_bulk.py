"""Actions on many runs: how long one request takes with as many runs as it may have.

    .venv/bin/python -m benchmarks.bench_bulk [--runs 1000]

Starts an embedded PostgreSQL in a temporary folder, inserts runs, and sends each action once through Django's test
client: middleware, permissions, queries and the report included, the network not. Goal: at most 5 s.
"""

import argparse
import time
from functools import partial
from typing import Any

from benchmarks.home import USER, bare_home

GOAL_SECONDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    options = parser.parse_args()
    with bare_home():
        measure(options.runs)


def measure(runs: int) -> None:
    from django.contrib.auth import get_user_model
    from django.db import connection
    from django.test import Client

    from webapp.identity.accounts.services import create_token, default_project
    from webapp.record.runs.bulk import most_for
    from webapp.record.runs.models import Attempt, Run, State

    project = default_project()
    token = create_token(user=get_user_model().objects.get(username=USER), project=project, scope="launch")

    def make(origin: str, state: str) -> list[str]:
        made = Run.objects.bulk_create(
            Run(project=project, name=f"run {i}", task="math", model="8b", origin=origin, state=state)
            for i in range(runs)
        )
        Attempt.objects.bulk_create(
            Attempt(run=run, number=1, submission_id=f"run-{run.pk}-a1", state=state) for run in made
        )
        return [run.pk for run in made]

    ended = make(Run.Origin.TRACKED, State.SUCCEEDED)
    queued = make(Run.Origin.LAUNCHED, State.QUEUED)
    running = make(Run.Origin.LAUNCHED, State.RUNNING)[: most_for("stop")]
    failed = make(Run.Origin.LAUNCHED, State.FAILED)[: most_for("resume")]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    headers = {"Authorization": f"Bearer {token}", "host": "localhost"}
    send = partial(Client(headers=headers).post, "/api/v1/runs/bulk", content_type="application/json")
    changes = {
        "name": "another",
        "task": "code",
        "model": "70b",
        "seed": 3,
        "tags": ["paper"],
        "notes": "Node 3.",
    }
    asked: dict[str, dict[str, Any]] = {
        "change": {"runs": ended, "changes": changes},
        "delete": {"runs": ended},
        "restore": {"runs": ended},
        "priority": {"runs": queued, "priority": "low"},
        "tag": {"runs": ended, "tag": "paper2"},
        "archive": {"runs": ended},
        "stop": {"runs": running},
        "resume": {"runs": failed},
    }
    send({"action": "tag", "runs": ended[:1], "tag": "first"})  # what a server has loaded by then
    print(f"{runs:,} runs; goal {GOAL_SECONDS} s")
    for action, body in asked.items():
        began = time.perf_counter()
        answer = send({"action": action} | body)
        took = time.perf_counter() - began
        print(
            f"{action:10}{took:7.2f} s  {answer.status_code} {answer.json().get('sentence', answer.content[:200])}"
        )


if __name__ == "__main__":
    main()
