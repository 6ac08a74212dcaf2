"""People on the pages while writers log, for a while, against the web server as `manage.py up` starts it.

    .venv/bin/python -m benchmarks.bench_load [--people 200] [--writers 32] [--seconds 60]

A person opens a page of a mix, stays on it for some seconds (exponential, 10 s on average) and, on the page of a run,
asks for news every second, as its script does. A writer reports a record of 20 metrics twice a second and an evaluation
every tenth. The load comes from processes of their own on the same cores. Every answer but 200, 204 and 304 is an
error, and so is one that takes more than 30 s. Memory is that of all web processes together.
"""

import argparse
import asyncio
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.bench_pages import web_server
from benchmarks.home import PROJECT, add_options, made_home, session_key
from benchmarks.timing import percentiles
from benchmarks.watching import Watched, web_root

PEOPLE, WRITERS, SECONDS = 200, 32, 60.0
STAY_SECONDS = 10.0
POLL_SECONDS = 1.0
RECORD_SECONDS = 0.5
TIMEOUT = 30.0
LOOK_SECONDS = 1.0
METRICS = 20
GOOD = (200, 204, 304)


@dataclass
class Seen:
    """What a process of the load saw: milliseconds by kind of request, and what went wrong."""

    times: dict[str, list[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)

    def note(self, kind: str, began: float, status: int | str) -> None:
        """One answer, or the name of the exception that came instead."""
        self.times.setdefault(kind, []).append(1000 * (time.perf_counter() - began))
        if status not in GOOD:
            self.errors[f"{kind}: {status}"] += 1


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_options(parser)
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--writers", type=int, default=WRITERS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args(arguments)
    with made_home(options) as folder:
        targets = writers_runs(options.writers)
        cookie, runs = session_key(), some_runs()
        with web_server(folder) as url:
            watched = Watched({"web": [web_root(url)]})
            looked_at = [pk for pk, _ in targets] + runs
            load: list[tuple[Any, tuple[Any, ...]]] = [
                (people, (url, cookie, looked_at, options.people, options.seconds)),
                (writers, (url, targets, options.seconds)),
            ]
            with multiprocessing.get_context("spawn").Pool(len(load)) as pool:
                asked = [pool.apply_async(part, given) for part, given in load]
                watched.until(lambda: all(one.ready() for one in asked), LOOK_SECONDS)
                seen = [one.get() for one in asked]
        missing = not_stored(targets, seen[1])
    show(options, seen, watched, missing)


def writers_runs(count: int) -> list[tuple[str, str]]:
    """(run, token) of runs that the writers report."""
    from webapp.identity.accounts.models import Project, User
    from webapp.identity.accounts.services import create_token
    from webapp.record.runs.launch import TrackRequest, track_run

    project, user = Project.objects.get(slug=PROJECT), User.objects.get(username="bench")
    runs = [
        track_run(TrackRequest(name=f"load {i}", task="load"), user=user, project=project).run
        for i in range(count)
    ]
    token = create_token(user=user, project=project, scope="write")
    return [(run.pk, token) for run in runs]


def some_runs() -> list[str]:
    """Runs that people look at."""
    from webapp.record.runs.models import Run

    return list(
        Run.objects.filter(project__slug=PROJECT, state="succeeded").values_list("pk", flat=True)[:100]
    )


def people(url: str, cookie: str, runs: list[str], count: int, seconds: float) -> Seen:
    """So many people, each on pages of their own choice."""
    return asyncio.run(_people(url, cookie, runs, count, seconds))


async def _people(url: str, cookie: str, runs: list[str], count: int, seconds: float) -> Seen:
    import httpx

    seen, end = Seen(), time.monotonic() + seconds
    limits = httpx.Limits(max_connections=count, max_keepalive_connections=count)
    async with httpx.AsyncClient(
        base_url=url, cookies={"sessionid": cookie}, limits=limits, timeout=TIMEOUT
    ) as client:
        await asyncio.gather(*(_person(client, random.Random(i), runs, seen, end) for i in range(count)))
    return seen


async def _person(client: Any, rng: random.Random, runs: list[str], seen: Seen, end: float) -> None:
    await asyncio.sleep(rng.uniform(0, STAY_SECONDS))  # they do not arrive together
    while time.monotonic() < end:
        kind, path, run = _choice(rng, runs)
        await _get(client, kind, path, seen)
        leaves = min(end, time.monotonic() + rng.expovariate(1 / STAY_SECONDS))
        version = ""
        while run and time.monotonic() + POLL_SECONDS < leaves:
            await asyncio.sleep(POLL_SECONDS)
            answer = await _get(client, "news of a run", f"/runs/{run}/figure?since={version}", seen)
            version = (
                answer.json()["version"] if answer is not None and answer.status_code == 200 else version
            )
        await asyncio.sleep(max(0.0, leaves - time.monotonic()))


def _choice(rng: random.Random, runs: list[str]) -> tuple[str, str, str]:
    """A page of the mix: its kind, its path, and the run it is the page of."""
    draw, run = rng.random(), rng.choice(runs)
    if draw < 0.5:
        return "run page", f"/runs/{run}", run
    if draw < 0.75:
        return "list of runs", "/runs", ""
    if draw < 0.9:
        return "overview", "/", ""
    return "comparison", f"/compare?run={run}&run={rng.choice(runs)}", ""


async def _get(client: Any, kind: str, path: str, seen: Seen) -> Any:
    """The answer; None where none came."""
    began, answer = time.perf_counter(), None
    try:
        answer = await client.get(path)
        status: int | str = answer.status_code
    except Exception as error:
        status = type(error).__name__
    seen.note(kind, began, status)
    return answer


def writers(url: str, targets: list[tuple[str, str]], seconds: float) -> Seen:
    """One writer a run."""
    return asyncio.run(_writers(url, targets, seconds))


async def _writers(url: str, targets: list[tuple[str, str]], seconds: float) -> Seen:
    import httpx

    seen, end = Seen(), time.monotonic() + seconds
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT) as client:
        await asyncio.gather(*(_writer(client, *target, seen, end) for target in targets))
    return seen


async def _writer(client: Any, run: str, token: str, seen: Seen, end: float) -> None:
    step = 0
    while time.monotonic() < end:
        began = time.perf_counter()
        try:
            answer = await client.post(
                f"/api/v1/runs/{run}/records",
                json={"records": [record(step)]},
                headers={"Authorization": f"Bearer {token}"},
            )
            status: int | str = answer.status_code
        except Exception as error:
            status = type(error).__name__
        seen.note("record", began, status)
        step += status in GOOD  # what was refused is sent again, as the client does
        await asyncio.sleep(max(0.0, RECORD_SECONDS - (time.perf_counter() - began)))


def record(step: int) -> dict[str, Any]:
    """A record of 20 metrics; every tenth is an evaluation."""
    metrics = {f"train/metric_{i}": 0.1 * i + step for i in range(METRICS)}
    if step % 10 == 0:
        metrics |= {"eval/pass_rate": 0.6 - 0.4 / (1 + step), "eval/pass_rate_stderr": 0.01}
    compute = {"device_hours": 1e-2 * step, "flops": 1e15 * step, "tokens": 1e4 * step}
    return {
        "attempt": 1, "seq": step, "step": step, "time": "2026-01-01T00:00:00Z", "compute": compute, "metrics": metrics,
    }  # fmt: skip


def not_stored(targets: list[tuple[str, str]], seen: Seen) -> int:
    """Records that were answered well and are not in the database."""
    from webapp.record.runs.models import Record

    stored = Record.objects.filter(run__in=[pk for pk, _ in targets]).count()
    sent = len(seen.times.get("record", ())) - sum(seen.errors.values())
    return max(0, sent - stored)


def show(options: Any, seen: list[Seen], watched: Watched, missing: int) -> None:
    """Times by kind, errors, and memory at the beginning, in the middle and at the end."""
    print(f"{options.people} people and {options.writers} writers for {options.seconds:g} s")
    print(f"{'milliseconds':20}{'answers':>10}{'median':>10}{'p95':>10}{'p99':>10}")
    for kind, times in sorted((kind, times) for one in seen for kind, times in one.times.items()):
        median, p95, p99 = percentiles(times, 50, 95, 99)
        print(f"{kind:20}{len(times):10,}{median:10.0f}{p95:10.0f}{p99:10.0f}")
    errors = sum((one.errors for one in seen), Counter())
    print(f"errors: {sum(errors.values())}{''.join(f'; {said} {n}' for said, n in errors.most_common(5))}")
    print(f"records answered and not stored: {missing}")
    memory = [look.memory["web"] / 1e6 for look in watched.looks]
    first, middle, last = memory[0], memory[len(memory) // 2], memory[-1]
    print(f"memory of the web processes: {first:.0f} MB, then {middle:.0f}, {last:.0f} at the end")


if __name__ == "__main__":
    main()
