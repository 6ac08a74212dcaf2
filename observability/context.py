"""Which request, run and attempt the running code works for. Log lines, traces and error reports carry these ids.

A request id is made by the web server, or taken from its `X-Request-ID` header; it travels on in the headers of Celery
tasks, in the dispatch row, and in the environment of the driver, so that all that one click led to can be found.
"""

import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

REQUEST_HEADER = "X-Request-ID"
REQUEST_VARIABLE = "HEADROOM_REQUEST_ID"
_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}", re.ASCII)

_NONE: Mapping[str, str] = MappingProxyType({})
_ids: ContextVar[Mapping[str, str]] = ContextVar("observability_ids", default=_NONE)
_of_process: dict[str, str] = {}


def ids() -> dict[str, str]:
    """All ids in force: request_id, run, attempt, task, task_id; only those that are known."""
    return _of_process | dict(_ids.get())


@contextmanager
def bound(**new: object) -> Iterator[None]:
    """These ids are in force inside the block, also those that `add` brings meanwhile; empty ones are left out."""
    before = _ids.set({**_ids.get(), **_texts(new)})
    try:
        yield
    finally:
        _ids.reset(before)


def add(**new: object) -> None:
    """These ids are in force from now on, until the surrounding `bound` ends."""
    _ids.set({**_ids.get(), **_texts(new)})


def of_process(**new: object) -> None:
    """These ids hold for the whole process, in all its threads: a driver works for one attempt."""
    _of_process.update(_texts(new))


def request_id() -> str:
    """The one in force; empty where there is none."""
    return ids().get("request_id", "")


def accepted_request_id(text: str | None) -> str:
    """A caller's own id where it can be one (8 to 64 of A-Z a-z 0-9 . _ -, not led by a sign), else a new one."""
    return text if is_request_id(text) else uuid.uuid4().hex  # type: ignore[return-value]


def is_request_id(text: str | None) -> bool:
    """Whether this may go into log lines and headers."""
    return text is not None and _REQUEST_ID.fullmatch(text) is not None


def driver_ids(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """A driver's ids, as its job's environment says them."""
    asked = variables.get(REQUEST_VARIABLE)
    found = {
        "request_id": asked if is_request_id(asked) else "",
        "run": variables.get("HEADROOM_RUN", ""),
        "attempt": variables.get("HEADROOM_ATTEMPT", ""),
    }
    return _texts(found)


def _texts(new: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in new.items() if value not in (None, "")}
