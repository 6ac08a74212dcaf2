"""Launches on a machine that holds one of them: a driver at a time, the others cost no process and say why."""

import re
from pathlib import Path

import httpx
import psutil
import pytest

from tests.pretrained import MODEL
from tests.running_stack import STORY, RunningStack
from tests.waiting import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.stack, pytest.mark.timeout(400)]

ENDED = {"succeeded", "failed", "cancelled", "lost"}
LAUNCHES, WATCHED = 9, 3
DRIVER = re.compile(r"--run-dir (\S+)")


def drivers(home: Path) -> set[str]:
    """Ids of the runs that have a driver process."""
    found = set()
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if (match := DRIVER.search(line)) and Path(match[1]).parent == home / "runs":
            found.add(Path(match[1]).name)
    return found


def states(api: httpx.Client, runs: list[str]) -> dict[str, str]:
    return {run: api.get(f"runs/{run}").json()["state"] for run in runs}


def test_launches_have_one_driver_and_two_while_one_ends(api: httpx.Client, stack_with_model: RunningStack):
    cores = psutil.cpu_count() or 1
    body = {"recipe": STORY, "task": "arithmetic", "model": MODEL, "budget_hours": 0.002}
    wait_until(
        lambda: not any(api.get("status").json()["runs"].values()), 60, "end of what others have launched"
    )
    runs = [api.post("runs", json=body | {"seed": 100 + seed}).json()["id"] for seed in range(LAUNCHES)]
    seen: list[set[str]] = []

    def some_have_ended() -> bool:
        here = drivers(stack_with_model.home) & set(runs)
        now = states(api, runs)
        seen.append({run for run in here if now[run] not in ENDED})
        assert len(here) <= cores, here
        assert len(seen[-1]) <= max(1, cores // 2), now
        return sum(state in ENDED for state in now.values()) >= WATCHED

    try:
        wait_until(some_have_ended, 240, "end of the first runs")
        answers = [api.get(f"runs/{run}").json() for run in runs]
        waiting = [answer for answer in answers if answer["state"] == "queued"]
        counts = api.get("status").json()["runs"]
    finally:
        api.post("runs/bulk", json={"action": "stop", "runs": runs})
    assert any(seen), "no driver was seen"
    assert len(waiting) >= LAUNCHES - WATCHED - cores // 2
    reasons = [answer["state_reason"] for answer in waiting]
    assert all(reason.startswith("waits for the cluster: needs ") for reason in reasons), reasons
    assert counts["waiting"] in (len(waiting), len(waiting) - 1)  # one may have gone meanwhile
    wait_until(lambda: set(states(api, runs).values()) <= ENDED, 60, "end of all runs")
