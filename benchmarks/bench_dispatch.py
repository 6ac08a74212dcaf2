"""From the click on Launch to the job's submission: our own time, over the web page, Redis and the Celery worker.

    .venv/bin/python -m benchmarks.bench_dispatch [--launches 50]

The launch form is sent as a browser sends it, to the web server as the supervisor starts it; a server in the place of
Ray's Jobs API notes when the submission comes. Goal: a median under 1 s. Starts PostgreSQL, Redis, web server, worker
and beat in a temporary folder.
"""

import argparse
import os
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.bench_pages import web_server
from benchmarks.home import bare_home, session_key
from benchmarks.jobs_server import JobsServer, jobs_server
from benchmarks.timing import percentiles
from stack import parts
from stack.part import Part

LAUNCHES = 50
GOAL_MS = 1000.0
READY_SECONDS = 60.0
ARRIVAL_SECONDS = 30.0
TOKEN = "benchmark"
RECIPE, MODEL = "tiny-scalerl", "tiny-arithmetic"


@dataclass(frozen=True)
class Launch:
    """Milliseconds from the click to the page's answer, and to the submission."""

    answered: float
    submitted: float


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--launches", type=int, default=LAUNCHES)
    options = parser.parse_args(arguments)
    os.environ["RAY_AUTH_TOKEN"] = TOKEN
    with ExitStack() as held:
        jobs = held.enter_context(jobs_server(status="SUCCEEDED"))
        home = held.enter_context(bare_home())
        make_model(home)
        os.environ["RAY_ADDRESS"] = jobs.address
        held.enter_context(running(redis_of(home)))
        url = held.enter_context(web_server(home))
        os.environ["HEADROOM_URL"] = url
        for part in (parts.worker_part(home, home / "logs", {}), parts.beat_part(home / "logs", {})):
            held.enter_context(running(part))
        browser = held.enter_context(signed_in(url))
        one_launch(browser, jobs, seed=0)  # imports and connections
        found = [one_launch(browser, jobs, seed) for seed in range(1, max(2, options.launches) + 1)]
    show(found)


def show(found: Sequence[Launch]) -> None:
    """The table."""
    rows = {
        "click to the page's answer": [each.answered for each in found],
        "click to the submitted job": [each.submitted for each in found],
    }
    print(f"{f'{len(found)} launches, milliseconds':34}{'median':>9}{'p95':>9}{'most':>9}")
    for name, times in rows.items():
        median, (p95,) = statistics.median(times), percentiles(times, 95)
        print(f"{name:34}{median:9.0f}{p95:9.0f}{max(times):9.0f}")
    print(f"{median / GOAL_MS:.2f} of the goal of {GOAL_MS:.0f} ms at the median")


def one_launch(browser: httpx.Client, jobs: JobsServer, seed: int) -> Launch:
    """Send the form and wait for the job. Raises RuntimeError where none comes."""
    form = {
        "recipe": RECIPE, "revision": "1", "task": "arithmetic", "model": MODEL, "seed": str(seed),
        "budget_hours": "0.01", "name": "", "idempotency_key": f"bench-{seed}",
        "csrfmiddlewaretoken": browser.cookies["csrftoken"],
    }  # fmt: skip
    clicked = time.time()
    response = browser.post("/runs/new", data=form)
    answered = time.time()
    if response.status_code != 302:
        raise RuntimeError(f"the form was not taken: {response.status_code} {response.text[:2000]}")
    job = f"run-{response.headers['location'].rstrip('/').rpartition('/')[2]}-a1"
    while job not in (arrivals := jobs.arrivals()):
        if time.time() - answered > ARRIVAL_SECONDS:
            raise RuntimeError(f"{job} was not submitted within {ARRIVAL_SECONDS:.0f} s")
        time.sleep(0.05)
    return Launch(1000 * (answered - clicked), 1000 * (arrivals[job] - clicked))


@contextmanager
def signed_in(url: str) -> Iterator[httpx.Client]:
    """A browser's session on the launch form."""
    from webapp.identity.accounts.services import default_project

    cookies = {"sessionid": session_key(default_project().slug)}
    with httpx.Client(
        base_url=url, cookies=cookies, timeout=30, headers={"Referer": f"{url}/runs/new"}
    ) as browser:
        browser.get("/runs/new", params={"recipe": RECIPE}).raise_for_status()
        yield browser


@contextmanager
def running(part: Part) -> Iterator[None]:
    """The part's process, once it is ready. Raises RuntimeError where it is not in time."""
    part.log_folder.mkdir(exist_ok=True)
    with part.log_path.open("ab") as log:
        process = subprocess.Popen(
            part.command(), env=os.environ | part.environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not part.ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{part.name} did not start:\n{part.log_tail()}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(20)


def redis_of(home: Path) -> Part:
    """The broker; from here on it is this process's and its children's."""
    from stack.parts import redis_url
    from stack.ports import free_port

    port = free_port()
    os.environ["REDIS_URL"] = redis_url(port)
    return parts.redis_part(home, home / "logs", port)


def make_model(home: Path) -> None:
    """An untaught one: a launch looks at its files."""
    from training.pretrain import Lessons, new_model, save

    save(new_model(Lessons()), Lessons(), home / "models" / MODEL)


if __name__ == "__main__":
    main()
