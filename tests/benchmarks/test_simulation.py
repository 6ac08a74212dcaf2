"""Trainers as the simulation plays them lose nothing, and what they saw is put together and shown."""

import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from benchmarks.bench_simulation import Played, row, show
from benchmarks.trainers import METRICS, Plan, Seen, logged_at, play
from benchmarks.watching import Look, Watched
from tests.running_stack import RunningStack

RUNS, RECORDS = 20, 4


@pytest.mark.deep
@pytest.mark.stack
@pytest.mark.timeout(240)
def test_twenty_trainers_at_once_lose_nothing(stack: RunningStack, tmp_path: Path) -> None:
    task = "played by a test"
    offsets = tuple(i / 10 for i in range(RUNS))
    seen = play(Plan(stack.url, stack.token("write"), tmp_path, task, time.time(), offsets, RECORDS))

    with httpx.Client(
        base_url=f"{stack.url}/api/v1/",
        headers={"Authorization": f"Bearer {stack.token('read')}"},
        timeout=60,
    ) as client:
        runs = client.get("runs", params={"task": task, "limit": 100}).json()["items"]
        records = [client.get(f"runs/{run['id']}/records").json()["items"] for run in runs]
    assert (seen.logged, seen.unfinished, dict(seen.errors)) == (RUNS * RECORDS, 0, {})
    assert [run["state"] for run in runs] == ["succeeded"] * RUNS
    assert [[record["step"] for record in each] for each in records] == [list(range(RECORDS))] * RUNS
    assert {len(record["metrics"]) for each in records for record in each} == {METRICS}
    assert len(seen.delays) == RUNS * RECORDS
    assert sum(1 for _ in tmp_path.glob("*.rejected")) == 0


def test_what_processes_saw_is_put_together() -> None:
    one, other = Seen(3, 0, [(1.0, 0.1)], gather_seconds=2.0), Seen(4, 1, [(2.0, 0.2)], late_seconds=0.5)
    one.errors["batch: 503"] += 1
    other.errors["batch: 503"] += 2

    both = one + other

    assert (both.logged, both.unfinished, both.gather_seconds, both.late_seconds) == (7, 1, 2.0, 0.5)
    assert both.batches == [(1.0, 0.1), (2.0, 0.2)]
    assert both.errors == {"batch: 503": 3}


def test_the_time_of_a_record_is_read_without_the_rest_of_it() -> None:
    assert logged_at(b'{"attempt":1,"step":0,"time":"1970-01-01T00:01:00.250+00:00","metrics":{}}') == 60.25


def test_a_group_that_is_gone_uses_nothing() -> None:
    program = [sys.executable, "-c", "print('here', flush=True); input()"]
    child = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline()  # before that the program may not be loaded
    watched = Watched({"child": [child.pid]})
    watched.look()
    child.communicate(b"\n")
    watched.look()

    first, last = watched.looks
    assert first.memory["child"] > 1e6
    assert last.memory["child"] == 0


@pytest.fixture
def played() -> Played:
    """Two runs from second 10 to 20; what came before and after does not belong to it."""
    watched = Watched({})
    for at, memory, cpu in ((0.0, 1e8, 0.0), (10.0, 2e8, 1.0), (15.0, 2e8, 3.0), (20.0, 3e8, 6.0)):
        same = {"web": memory, "PostgreSQL": 5e7, "load": 1e7}
        watched.looks.append(Look(at, same, {"web": cpu, "PostgreSQL": cpu, "load": 0.0}))
    batches = [(5.0, 9.0), *((10.0 + i / 10, 0.02) for i in range(100)), (25.0, 9.0)]
    delays = [(at, 10 * took) for at, took in batches]
    seen = Seen(120, 0, batches, delays, gather_seconds=2.5)
    return Played(2, 2, seen, 118, 118 * METRICS, watched, 10.0, 20.0)


def test_a_row_of_the_table_is_of_the_time_in_which_all_runs_logged(played: Played) -> None:
    assert row(played) == "| 2 | 2 | 10 | 20, 20 ms | 0.2 s | 300 MB | 50 MB | 1.00 |"


def test_loss_growth_and_missed_goals_are_said(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    show(played)
    printed = capsys.readouterr().out

    assert "logged 120, stored 118, lost 2 (goal 0)" in printed
    assert "batch to its answer, all runs log: 100, p50 20.0 ms, p99 20.0 ms, goal 1000: reached" in printed
    assert "batch to its answer, whole time: 102, p50 20.0 ms, p99 8910.2 ms, goal 1000: missed" in printed
    assert "100 MB at first, 200 when all runs had begun, 200 in the middle, 300 at the end (grew)" in printed
    assert "50 at the end (flat)" in printed
    assert "web 0.50, PostgreSQL 0.50, load 0.00" in printed
    assert "due" not in printed
