"""Tasks by name. A task's module is imported when the task is made."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from training.models import default_home
from training.tasks.base import PATIENCE_SECONDS, Place, Task, TaskError

_TASKS = {  # name -> module and class
    "arithmetic": ("arithmetic", "Arithmetic"),
    "choice": ("dataset", "MultipleChoice"),
    "code": ("dataset", "Code"),
    "countdown": ("countdown", "Countdown"),
    "exact": ("dataset", "ExactMatchTask"),
    "math": ("dataset", "MathText"),
    "mixture": ("mixture", "Mixture"),
    "reasoning_gym": ("reasoning_gym", "ReasoningGym"),
}


def task_names() -> list[str]:
    """Names of the installed tasks."""
    return sorted(_TASKS)


def make_task(
    name: str,
    options: Mapping[str, Any] | None = None,
    home: Path | None = None,
    *,
    patience: float = PATIENCE_SECONDS,
    reads: bool = True,
) -> Task:
    """The task with these options, its data read and checked (unless not `reads`).

    Relative paths are under `home`/data (default: HEADROOM_HOME). A download that takes longer than `patience` seconds
    is an error and goes on in the background. TaskError for an unknown name, a wrong option, or
    data that cannot be used: it names file, row and field.
    """
    if name not in _TASKS:
        raise TaskError(f"no task named {name!r}; there are: {', '.join(task_names())}")
    kind = _class_of(name)
    try:
        task: Task = kind.model_validate(
            dict(options or {}), context=Place(Path(home or default_home()), patience)
        )
    except ValidationError as error:
        first = error.errors()[0]
        option = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise TaskError(f"{f'option {option}' if option else 'options'}: {message}") from None
    if reads:
        task.check()
    return task


def task_options(name: str) -> dict[str, Any] | None:
    """The JSON schema of a task's options, for people who choose them; None for a task that is not there."""
    if name not in _TASKS:
        return None
    return _class_of(name).model_json_schema()


def _class_of(name: str) -> Any:
    module, kind = _TASKS[name]
    return getattr(import_module(f"training.tasks.{module}"), kind)
