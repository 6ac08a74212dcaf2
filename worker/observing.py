"""Each task works under the ids of the click that led to it, as its headers say them."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from celery.signals import (
    before_task_publish,
    task_postrun,
    task_prerun,
    worker_init,
    worker_process_shutdown,
)

from observability import context, tracing
from webapp.base import metrics, task_queue
from webapp.operation.observing import exposition
from worker import names

HEADER = "request_id"
OF_A_RUN = {names.DISPATCH, names.REFIT, names.ALARMS}  # their first argument is its id


@dataclass(frozen=True)
class Work:
    """A task that is being done."""

    block: ExitStack
    span: tracing.Span
    began: float


_open: dict[str, Work] = {}  # by task id


def install() -> None:
    """Connect the signals, once."""
    task_prerun.connect(begin, weak=False)
    task_postrun.connect(end, weak=False)
    before_task_publish.connect(hand_on, weak=False)
    worker_init.connect(serve_metrics, weak=False)
    worker_process_shutdown.connect(send_the_rest, weak=False)


def serve_metrics(**_: Any) -> None:
    """Where HEADROOM_METRICS_PORT says so, from the worker's main process. Raises ValueError or OSError."""
    if (address := exposition.wanted_address()) is not None:
        exposition.serve(*address)


def begin(task_id: str, task: Any, args: Any = (), **_: Any) -> None:
    """What beat asks for comes from no click: it gets an id of its own."""
    request_id = context.accepted_request_id(header_of(task.request, HEADER))
    run = args[0] if args and task.name in OF_A_RUN else ""
    block = ExitStack()
    block.enter_context(context.bound(request_id=request_id, task=task.name, task_id=task_id, run=run))
    parent = header_of(task.request, task_queue.TRACE_HEADER)
    span = tracing.Span()
    if parent:  # rounds that beat asks for are no part of a trace
        name = task.name.rpartition(".")[2]
        span = block.enter_context(tracing.span(f"task {name}", kind="consumer", parent=parent))
    _open[task_id] = Work(block, span, time.perf_counter())


def end(task_id: str, task: Any, state: str | None = None, **_: Any) -> None:
    """Whatever became of it."""
    if (work := _open.pop(task_id, None)) is not None:
        outcome = (state or "unknown").lower()
        metrics.note_task(task.name, outcome, time.perf_counter() - work.began)
        if outcome == "failure":
            work.span.failed(outcome)
        work.block.close()


def hand_on(headers: dict[str, Any] | None = None, **_: Any) -> None:
    """A task that asks for another hands on its click."""
    if headers is not None:
        for name, value in task_queue.headers().items():
            headers.setdefault(name, value)


def send_the_rest(**_: Any) -> None:
    """A child of the pool ends without exit handlers."""
    tracing.flush()


def header_of(request: Any, name: str) -> str | None:
    """A header of the message; None where it is none, or no text."""
    found = (getattr(request, "headers", None) or {}).get(name)
    return found if isinstance(found, str) else None
