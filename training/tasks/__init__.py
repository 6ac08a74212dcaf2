"""Tasks by name. A task gives training and held-out prompts and verifies responses; see `base.Task`."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from training.tasks.arithmetic import Arithmetic
from training.tasks.base import Prompt, Task, TaskError

__all__ = ["Prompt", "Task", "TaskError", "make_task", "task_names"]

_TASKS: dict[str, type[Arithmetic]] = {"arithmetic": Arithmetic}


def task_names() -> list[str]:
    """Names of the installed tasks."""
    return sorted(_TASKS)


def make_task(name: str, options: Mapping[str, Any] | None = None) -> Task:
    """The task with these options. Raises TaskError for an unknown name or a wrong option."""
    if name not in _TASKS:
        raise TaskError(f"no task named {name!r}; there are: {', '.join(task_names())}")
    try:
        return _TASKS[name](**dict(options or {}))
    except ValidationError as error:
        first = error.errors()[0]
        option = ".".join(str(part) for part in first["loc"]) or "options"
        message = first["msg"].removeprefix("Value error, ")
        raise TaskError(f"option {option}: {message}") from None
