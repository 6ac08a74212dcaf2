"""Tasks by name. A task gives training and held-out prompts and verifies responses; see `base.Task`."""

from training.tasks.base import PATIENCE_SECONDS, Prompt, Task, TaskError
from training.tasks.registry import make_task, task_names, task_options

__all__ = ["PATIENCE_SECONDS", "Prompt", "Task", "TaskError", "make_task", "task_names", "task_options"]
