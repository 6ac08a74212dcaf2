"""Trainers that only log: many runs in one process, each with the real client, as `bench_simulation` plays them."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import headroom
from headroom.server import Server, ServerError

METRICS = 20
RECORD_SECONDS = 1.0
FINISH_SECONDS = 60.0
_TIME = re.compile(rb'"time":"([^"]+)"')


@dataclass(frozen=True)
class Plan:
    """What one process plays: so many runs, of which the i-th begins `offsets[i]` seconds after `began` (Unix time)
    and logs for `seconds`."""

    url: str
    token: str
    folder: Path
    task: str
    began: float
    offsets: tuple[float, ...]
    seconds: float


@dataclass
class Seen:
    """What a process saw. Batches: (Unix time of the answer, seconds until it). Delays: (Unix time, seconds from `log`
    to the answer that the record is stored)."""

    logged: int = 0
    unfinished: int = 0
    batches: list[tuple[float, float]] = field(default_factory=list)
    delays: list[tuple[float, float]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    gather_seconds: float = 0.0  # the longest that the server asked for
    late_seconds: float = (
        0.0  # the furthest that a trainer was behind its second: the load itself is short of a core
    )

    def __add__(self, other: "Seen") -> "Seen":
        return Seen(
            self.logged + other.logged,
            self.unfinished + other.unfinished,
            self.batches + other.batches,
            self.delays + other.delays,
            self.errors + other.errors,
            max(self.gather_seconds, other.gather_seconds),
            max(self.late_seconds, other.late_seconds),
        )


def play(plan: Plan) -> Seen:
    """Play the plan in this process, a thread for each trainer; what was seen once all have finished."""
    seen, lock = Seen(), threading.Lock()
    threads = [threading.Thread(target=train, args=(plan, i, seen, lock)) for i in range(len(plan.offsets))]
    send = Server.send_records
    Server.send_records = noting(send, seen, lock)  # type: ignore[method-assign]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        Server.send_records = send  # type: ignore[method-assign]
    return seen


def train(plan: Plan, i: int, seen: Seen, lock: Any) -> None:
    """One trainer: a record of 20 metrics each second, then the end."""
    starts = plan.began + plan.offsets[i]
    time.sleep(max(0.0, starts - time.time()))
    try:
        run = headroom.init(
            name=f"{plan.task} {plan.offsets[i]:.3f}",
            task=plan.task,
            url=plan.url,
            token=plan.token,
            journal=plan.folder / f"{plan.offsets[i]:.6f}.jsonl",
        )
    except ServerError as error:
        with lock:
            seen.errors[f"init: {error.status or 'no answer'}"] += 1
        return
    starts, steps = time.time(), round(plan.seconds / RECORD_SECONDS)
    late = 0.0
    for step in range(steps):
        behind = time.time() - (starts + step * RECORD_SECONDS)
        late = max(late, behind)
        time.sleep(max(0.0, -behind))
        run.log(metrics_of(step), step=step, compute={"device_hours": step / 3600, "tokens": 1000 * step})
    finished = run.finish(timeout=FINISH_SECONDS)
    with lock:
        seen.logged += steps
        seen.unfinished += not finished
        seen.late_seconds = max(seen.late_seconds, late)


def metrics_of(step: int) -> dict[str, float]:
    return {f"train/metric_{i}": 0.123456789 * (i + 1) + step for i in range(METRICS)}


def noting(send: Callable[..., float | None], seen: Seen, lock: Any) -> Callable[..., float | None]:
    """`Server.send_records`, with what it saw noted."""

    def send_records(server: Server, run: str, records: list[bytes]) -> float | None:
        began = time.perf_counter()
        try:
            asked = send(server, run, records)
        except ServerError as error:
            with lock:
                seen.errors[f"batch: {error.status or 'no answer'}"] += 1
            raise
        took, now = time.perf_counter() - began, time.time()
        with lock:
            seen.batches.append((now, took))
            seen.delays += [(now, now - logged_at(record)) for record in records]
            seen.gather_seconds = max(seen.gather_seconds, asked or 0.0)
        return asked

    return send_records


def logged_at(record: bytes) -> float:
    """When the record was made, as Unix time."""
    found = _TIME.search(record)
    return datetime.fromisoformat(found[1].decode()).timestamp() if found else float("nan")
