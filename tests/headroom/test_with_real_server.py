"""The client against the real API, on the real stack: what it sends is what is stored."""

import math
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from headroom.beginning import init
from headroom.run import Run
from tests.running_stack import RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]


def begin(stack: RunningStack, journal: Path, **settings: Any) -> Run:
    return init(journal=journal, url=stack.url, token=stack.token("write"), **settings)


def stored(stack: RunningStack, path: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {stack.token('write')}"}
    answer = httpx.get(f"{stack.url}/api/v1/{path}", headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def curve(stack: RunningStack, run: Run, metric: str, x: str) -> list[float]:
    """The x of every point that counts."""
    return [
        point["compute"] for point in stored(stack, f"runs/{run.id}/curve?metric={metric}&x={x}")["points"]
    ]


def log_curve(run: Run, steps: range) -> None:
    for step in steps:
        compute = {"device_hours": step / 10, "flops": step * 1e9, "tokens": step * 1000}
        metrics = {"eval/pass_rate": 0.1 + step / 100, "eval/pass_rate_stderr": 0.01, "train/reward": 0.5}
        run.log(metrics, step=step, compute=compute)


def test_tracked_run_is_made_filled_and_finished(stack: RunningStack, journal_path: Path) -> None:
    run = begin(stack, journal_path, name="from elsewhere", task="t", model="m", config={"lr": 1e-4})
    log_curve(run, range(30))
    assert run.finish("failed", "out of memory")

    detail = stored(stack, f"runs/{run.id}")
    assert (detail["name"], detail["state"], detail["state_reason"]) == (
        "from elsewhere",
        "failed",
        "out of memory",
    )
    assert curve(stack, run, "eval/pass_rate", "device_hours") == [step / 10 for step in range(30)]
    assert not Path(f"{journal_path}.rejected").exists()


def test_what_cannot_be_stored_costs_only_itself_and_is_counted(
    stack: RunningStack, journal_path: Path
) -> None:
    config = {"limit": math.inf, "data": Path("/data"), "seeds": {3, 1}, "hook": object()}
    run = begin(stack, journal_path, name="anything goes", seed=7, config=config)
    run.log({f"m{i}": i for i in range(2500)}, step=3_000_000_000)
    run.log({"huge": 10**400, "large": 2**70, "eval/pass_rate": 1.7, "loss": 0.5}, step=2**64)
    run.log({"loss": 0.25}, step=-1)
    done = run.finish()

    detail = stored(stack, f"runs/{run.id}")
    assert (done.sent, done.records, done.values, bool(done)) == (True, 0, 2, False)
    assert detail["refused"] == {"records": 0, "values": 2, "reason": done.reason}
    assert detail["config"] == {"limit": "inf", "data": "/data", "seeds": [1, 3]} and detail["seed"] == 7
    assert curve(stack, run, "m2499", "step") == [3_000_000_000]
    assert curve(stack, run, "loss", "step") == [3_000_000_001, -1]
    assert not Path(f"{journal_path}.rejected").read_text().count('"records": 1')


def test_restarted_trainer_supersedes_what_it_repeats(stack: RunningStack, journal_path: Path) -> None:
    first = begin(stack, journal_path, name="restarted")
    log_curve(first, range(10))
    first.finish("failed", "preempted")
    second = begin(stack, journal_path, resumed_from_step=4)
    log_curve(second, range(5, 12))
    assert second.finish()

    assert second.id == first.id
    assert curve(stack, second, "train/reward", "step") == list(range(12))


def test_restart_of_the_web_server_loses_nothing(stack: RunningStack, journal_path: Path) -> None:
    run = begin(stack, journal_path, name="through a restart")
    log_curve(run, range(5))
    (keeper,) = [
        child for child in psutil.Process(stack.process.pid).children() if "webapp.wsgi" in child.cmdline()
    ]
    printed = len(stack.output)
    keeper.children()[0].kill()
    log_curve(run, range(5, 10))
    stack.wait_for("web ended with status 137", after=printed)
    assert run.finish(timeout=60)

    assert curve(stack, run, "train/reward", "step") == list(range(10))
