"""Each task works under the ids of the click that led to it, as its headers say them."""

from typing import Any

from celery.signals import before_task_publish, task_postrun, task_prerun

from observability import context
from worker import names

HEADER = "request_id"
OF_A_RUN = {names.DISPATCH, names.REFIT, names.ALARMS}  # their first argument is its id
_open: dict[str, Any] = {}  # task id -> the block that it works in


def install() -> None:
    """Connect the signals, once."""
    task_prerun.connect(begin, weak=False)
    task_postrun.connect(end, weak=False)
    before_task_publish.connect(hand_on, weak=False)


def begin(task_id: str, task: Any, args: Any = (), **_: Any) -> None:
    """What beat asks for comes from no click: it gets an id of its own."""
    request_id = context.accepted_request_id(header_of(task.request, HEADER))
    run = args[0] if args and task.name in OF_A_RUN else ""
    block = context.bound(request_id=request_id, task=task.name, task_id=task_id, run=run)
    block.__enter__()
    _open[task_id] = block


def end(task_id: str, **_: Any) -> None:
    """Whatever became of it."""
    block = _open.pop(task_id, None)
    if block is not None:
        block.__exit__(None, None, None)


def hand_on(headers: dict[str, Any] | None = None, **_: Any) -> None:
    """A task that asks for another hands on its click."""
    if headers is not None and context.request_id():
        headers.setdefault(HEADER, context.request_id())


def header_of(request: Any, name: str) -> str | None:
    """A header of the message; None where it is none, or no text."""
    found = (getattr(request, "headers", None) or {}).get(name)
    return found if isinstance(found, str) else None
