"""Pages over many runs and points: time, queries and bytes, in process and over HTTP, against their goals.

    .venv/bin/python -m benchmarks.bench_pages [--home DIR] [--runs 500] [--points 2000000] [--repeats 30]

Goals are those at 10,000 runs and 100 million points (`--home big --runs 10000 --points 100000000`, made once). In
process: Django's test client, so middleware, queries, fits and templates, without the network. Over HTTP: the web
server as `manage.py up` starts it, one request at a time. Each repeat asks for another run, so that no fit is
remembered by the process. Workers are not started: what a refit leaves behind is made by the service that they call,
and not timed.
"""

import argparse
import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.home import PROJECT, add_options, made_home, session_key, sizes
from benchmarks.timing import Times, timed

PAGE_SIZE = 50
COMPARED = 100
SERVER_SECONDS = 60.0
Ask = Callable[[str, dict[str, str]], Any]


@dataclass(frozen=True)
class Question:
    """One thing that a browser asks for. `url` of the i-th repeat; `before` is done first and not timed."""

    name: str
    url: Callable[[int], str]
    goal_ms: float | None = None
    goal_bytes: int | None = None
    status: int = 200
    before: Callable[[], object] | None = None
    htmx: bool = False


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_options(parser)
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args(arguments)
    with made_home(options) as folder:
        made = sizes()
        print(
            f"{made['runs']:,} runs, {made['points']:,} points, {made['database_bytes'] / 1e9:.2f} GB in the database"
        )
        with live_run() as live:
            asked = questions(live, options.repeats)
            inside = {question.name: in_process(question, options.repeats) for question in asked}
            with web_server(folder) as url:
                outside = {question.name: over_http(question, url, options.repeats) for question in asked}
        show(asked, inside, outside)


def questions(live: "Live", repeats: int) -> list[Question]:
    """What is asked, in the order of the table."""
    from webapp.record.runs.models import Run

    runs = Run.objects.filter(project__slug=PROJECT)
    done = list(
        runs.filter(state="succeeded").order_by("-created_at", "id").values_list("pk", flat=True)[:5000]
    )
    longest = longest_run()
    deep = max(1, runs.count() // PAGE_SIZE)
    another = lambda i: done[(7 * i) % len(done)]
    opened = [*{another(i): None for i in range(repeats + 1)}, longest]
    many = lambda i: "&".join(f"run={done[(i + 3 * j) % len(done)]}" for j in range(COMPARED))
    return [
        Question("list, first page", lambda i: "/runs", 100),
        Question("list, filtered by state", lambda i: "/runs?filter=state:failed", 100),
        Question("list, filtered by a word", lambda i: "/runs?filter=dapo", 100),
        Question("list, best ceiling first", lambda i: "/runs?sort=-ceiling", 100),
        Question("list, last page", lambda i: f"/runs?page={deep}", 100),
        Question("list, refreshed by htmx", lambda i: "/runs", 100, htmx=True),
        Question("run page, not kept", lambda i: f"/runs/{another(i)}", 150, before=lambda: forget(opened)),
        Question("run page", lambda i: f"/runs/{another(i)}", 150, before=lambda: keep(opened)),
        Question("run page, the longest run", lambda i: f"/runs/{longest}", 150),
        Question("poll, nothing new", lambda i: live.poll(), status=204, before=live.settle),
        Question("poll, a new evaluation", lambda i: live.poll(), 30, before=live.report_one),
        Question("poll, its fit", lambda i: live.poll(), 30, before=live.report_fitted),
        Question("poll, no worker came", lambda i: live.poll(), before=live.report_late),
        Question(f"compare of {COMPARED} runs", lambda i: f"/compare?{many(i)}", 300, 500_000),
        Question("compare of 4 runs", lambda i: f"/compare?{'&'.join(many(i).split('&')[:4])}"),
        Question("leaderboard", lambda i: "/leaderboard"),
        Question("overview", lambda i: "/"),
    ]


def longest_run() -> str:
    """The run whose last step is the greatest."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.run_id FROM runs_record AS r JOIN runs_run ON runs_run.id = r.run_id"
            " JOIN accounts_project AS p ON p.id = project_id WHERE p.slug = %s ORDER BY step DESC LIMIT 1",
            [PROJECT],
        )
        return cursor.fetchone()[0]


def forget(run_ids: Sequence[str]) -> None:
    """As before the first refit by this version of the code."""
    from webapp.science.curves.models import KeptFigure

    KeptFigure.objects.filter(run__in=run_ids).delete()


def keep(run_ids: Sequence[str]) -> None:
    """As refits leave it."""
    from webapp.record.runs.models import Run
    from webapp.science.curves.fitting import curve_of
    from webapp.science.curves.run.figure import keep_figure

    for run in Run.objects.filter(pk__in=run_ids, kept_figure=None):
        keep_figure(run, curve_of(run))


class Live:
    """A run that goes on reporting while its page is open; gone afterwards."""

    def __init__(self) -> None:
        from webapp.identity.accounts.models import Project
        from webapp.record.runs.launch import TrackRequest, track_run

        project = Project.objects.get(slug=PROJECT)
        self.run = track_run(
            TrackRequest(name="live", task="math", model="dense-8b"), user=None, project=project
        ).run
        self.step = 0
        for _ in range(40):
            self.report()

    def report(self) -> None:
        """One more evaluation, through the service that the API uses."""
        from training.records import Record
        from webapp.record.runs.ingest import store_records

        hours = 0.2 * self.step
        rate = (
            0.2
            + (0.4 / (1 + (2.0 / hours) ** 1.6) if hours else 0.0)
            + 0.01 * ((self.step * 7919) % 13 - 6) / 6
        )
        made = {
            "attempt": 1, "seq": self.step, "step": self.step, "time": "2026-01-01T00:00:00+00:00",
            "compute": {"device_hours": hours, "flops": 1e18 * hours, "tokens": 1e6 * hours},
            "metrics": {"eval/pass_rate": rate, "eval/pass_rate_stderr": 0.01},
        }  # fmt: skip
        self.version = self._version()
        store_records(self.run, [Record.model_validate(made)])
        self.step += 1

    def report_one(self) -> None:
        """One more evaluation of a run whose others are fitted."""
        self._refit()
        self.report()

    def report_fitted(self) -> None:
        """One more evaluation, and the worker was there."""
        self.report()
        self._refit()

    def report_late(self) -> None:
        """One more evaluation that no worker came for."""
        from django.utils import timezone

        from webapp.science.curves.run.figure import LATE

        self.report()
        type(self.run).objects.filter(pk=self.run.pk).update(refit_wanted_at=timezone.now() - 2 * LATE)

    def _refit(self) -> None:
        from webapp.science.curves.services import refit

        refit(self.run.pk)

    def _version(self) -> int:
        self.run.refresh_from_db(fields=["version"])
        return self.run.version

    def poll(self) -> str:
        """What the page asks every second: is there more than I saw?"""
        return f"/runs/{self.run.pk}/figure?since={self.version}"

    def settle(self) -> None:
        """From now on a poll finds nothing new."""
        self.version = self._version()


@contextlib.contextmanager
def live_run() -> Iterator[Live]:
    live = Live()
    try:
        yield live
    finally:
        live.run.delete()


def in_process(question: Question, repeats: int) -> tuple[Times, int, int]:
    """Times, queries and bytes by Django's test client."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    client = Client(headers={"host": "localhost"} | ({"HX-Request": "true"} if question.htmx else {}))
    client.cookies["sessionid"] = session_key()

    def ask(i: int) -> Any:
        response = client.get(question.url(i), follow=True)
        assert response.status_code == question.status, f"{question.url(i)}: {response.status_code}"
        return response

    _prepare(question)
    with CaptureQueriesContext(connection) as queries:
        size = len(ask(0).content)
    count = len(queries)  # the next request begins a new log
    return timed(ask, repeats, lambda: _prepare(question)), count, size


def over_http(question: Question, url: str, repeats: int) -> tuple[Times, int]:
    """Times and bytes over one connection to the production server."""
    import httpx

    headers = {"HX-Request": "true"} if question.htmx else {}
    with httpx.Client(
        base_url=url, cookies={"sessionid": session_key()}, headers=headers, timeout=60
    ) as client:

        def ask(i: int) -> httpx.Response:
            response = client.get(question.url(i), follow_redirects=True)
            assert response.status_code == question.status, f"{question.url(i)}: {response.status_code}"
            return response

        _prepare(question)
        size = ask(0).num_bytes_downloaded
        return timed(ask, repeats, lambda: _prepare(question)), size


def _prepare(question: Question) -> None:
    if question.before is not None:
        question.before()


@contextlib.contextmanager
def web_server(folder: Path, processes: int | None = None) -> Iterator[str]:
    """The web server as the supervisor starts it, with so many processes where said, on a free port; its URL."""
    from stack.parts import PROCESSES, web_part
    from stack.ports import free_port

    port = free_port()
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    part = web_part(logs, "127.0.0.1", port, {}, processes or PROCESSES)
    with part.log_path.open("ab") as log:
        process = subprocess.Popen(
            part.command(), env=os.environ | part.environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + SERVER_SECONDS
        while not part.ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the web server did not start:\n{part.log_tail()}")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def show(
    asked: Sequence[Question],
    inside: dict[str, tuple[Times, int, int]],
    outside: dict[str, tuple[Times, int]],
) -> None:
    """The table; the verdict is on the 95th percentile over HTTP."""
    print(f"{'milliseconds':28}{'in process':>16}{'over HTTP':>16}{'queries':>9}{'KB':>8}{'goal':>8}")
    print(f"{'':28}{'median':>8}{'p95':>8}{'median':>8}{'p95':>8}")
    for question in asked:
        (times, queries, _), (http, size) = inside[question.name], outside[question.name]
        cells = f"{times.median_ms:8.1f}{times.p95_ms:8.1f}{http.median_ms:8.1f}{http.p95_ms:8.1f}"
        goal = f"{question.goal_ms:8.0f}  {_verdict(question, http, size)}" if question.goal_ms else ""
        print(f"{question.name:28}{cells}{queries:9}{size / 1000:8.0f}{goal}")


def _verdict(question: Question, times: Times, size: int) -> str:
    slow = question.goal_ms is not None and times.p95_ms > question.goal_ms
    large = question.goal_bytes is not None and size > question.goal_bytes
    return " and ".join([word for word, true in (("over", slow), ("too large", large)) if true]) or "reached"


if __name__ == "__main__":
    main()
