"""A decision on a long queue: the pure function, and the whole step with what is read and written.

    .venv/bin/python -m benchmarks.bench_admission [--queued 100 1000 10000] [--rounds 9]

The cluster has 100 nodes of 8 GPUs and 64 cores, full of runs of one to four nodes; the queue is of three projects. A
step that hands over nothing is measured, as nearly all are, then one run ends and the step after it is. Goal: 10,000
queued runs in under 100 ms. Starts PostgreSQL in a temporary folder.
"""

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.home import bare_home

SIZES = (100, 1000, 10_000)
ROUNDS = 9
GOAL_SECONDS, GOAL_RUNS = 0.1, 10_000
NODES, GPUS = 100, 8
PROJECTS = 3


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--queued", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    with bare_home():
        fill_cluster()
        print(f"{'queued':>8}{'order and decision':>20}{'whole step, nothing goes':>26}{'one goes':>12}")
        for size in sorted(options.queued):
            fill_queue(size)
            pure, idle, busy = measure(max(1, options.rounds))
            goal = f"   {idle / GOAL_SECONDS:.2f} of the goal" if size == GOAL_RUNS else ""
            print(
                f"{size:8,}{pure * 1e3:17.1f} ms{idle * 1e3:23.1f} ms{busy * 1e3:9.1f} ms{goal}", flush=True
            )


def measure(rounds: int) -> tuple[float, float, float]:
    """Medians of seconds: order and decision alone; a step that hands over nothing; one that hands over a run."""
    from webapp.record.runs import lifecycle
    from webapp.record.runs.models import Run, State

    see_nodes()
    lifecycle.claim_dispatches()  # says once what each waits for
    pure = [decide_once() for _ in range(rounds)]
    idle, busy = [], []
    for _ in range(rounds):
        idle.append(seconds_of(lifecycle.claim_dispatches))
        lifecycle.report_finished(
            Run.objects.filter(state=State.RUNNING).earliest("pk"), attempt=1, state="succeeded"
        )
        begin = time.perf_counter()
        for dispatch in lifecycle.claim_dispatches():
            busy.append(time.perf_counter() - begin)
            lifecycle.dispatch_done(dispatch)
            lifecycle.report_started(dispatch.run, attempt=1)
    return statistics.median(pure), statistics.median(idle), statistics.median(busy or [0.0])


def decide_once() -> float:
    from django.db.models import Q
    from django.utils import timezone

    from webapp.record.runs.admission import reading
    from webapp.record.runs.admission.deciding import decide, in_order

    runs, seen = reading.runs_at_work(), reading.cluster_seen()
    rows, now = reading.due_submissions(Q(done_at=None)), timezone.now()
    shares = reading.shares_of((row.queued.project for row in rows), runs)
    at_work, queue = reading.at_work(runs, seen), reading.queue_of((row.queued for row in rows), shares, now)
    begin = time.perf_counter()
    decide(in_order(queue, shares, now), at_work, seen.cluster, shares)
    return time.perf_counter() - begin


def seconds_of(step: Any) -> float:
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def see_nodes() -> None:
    """As the worker does every 15 s."""
    from webapp.record.health.services import note_cluster

    node = {"address": "", "alive": True, "is_head": False, "cpus": 64, "gpus": GPUS}
    note_cluster([node | {"id": f"n{number}"} for number in range(NODES)])


def fill_cluster() -> None:
    from webapp.identity.accounts.services import create_project
    from webapp.record.runs.models import State

    see_nodes()
    for number in range(PROJECTS):
        create_project(slug=f"p{number}", name=f"P{number}")
    dice, left = random.Random(0), NODES * GPUS
    sizes = []
    while left > 0:
        sizes.append(min(left, dice.choice((8, 8, 16, 32))))
        left -= sizes[-1]
    make(sizes, State.RUNNING)


def fill_queue(size: int) -> None:
    from webapp.record.runs.models import Run, State

    dice = random.Random(size)
    lacking = size - Run.objects.filter(state=State.QUEUED).count()
    make([dice.choice((8, 8, 16, 32, 64)) for _ in range(max(0, lacking))], State.QUEUED)


def make(sizes: Sequence[int], state: str) -> None:
    """Runs of so many GPUs each, with the configuration of a committed recipe."""
    from django.utils import timezone

    from training.recipe import load_recipe
    from webapp.identity.accounts.models import Project
    from webapp.record.runs.models import Attempt, Dispatch, Run

    projects, now = list(Project.objects.filter(slug__startswith="p").order_by("pk")), timezone.now()
    config = load_recipe("scalerl").model_dump(mode="json")
    runs = [
        Run(
            project=projects[number % len(projects)], name=f"run {number}", task="math", model="8b", state=state,
            budget_hours=float(size), config=config | {"resources": resources(size)}, started_at=now,
        )
        for number, size in enumerate(sizes)
    ]  # fmt: skip
    Run.objects.bulk_create(runs, batch_size=1000)
    attempts = [Attempt(run=run, number=1, submission_id=f"run-{run.pk}-a1", state=state) for run in runs]
    Attempt.objects.bulk_create(attempts, batch_size=1000)
    done = None if state == "queued" else now
    rows = [Dispatch(run=run, attempt=1, kind=Dispatch.Kind.SUBMIT, done_at=done) for run in runs]
    Dispatch.objects.bulk_create(rows, batch_size=1000)


def resources(gpus: int) -> dict[str, int]:
    """Half for engines of four GPUs, half for ranks."""
    half = gpus // 2
    return {
        "generator_gpus": half,
        "generators": half // 4,
        "generator_cpus": half,
        "trainer_gpus": half,
        "trainer_cpus": half,
    }


if __name__ == "__main__":
    main()
