"""Checkpoints measured on benchmarks, each by a job of its own."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import models

from webapp.record.runs.models import Run


class Evaluation(models.Model):
    """One benchmark of one checkpoint. Asked for again, it is the same one, and goes again where it had failed."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"  # handed over to Ray
        STOPPING = "stopping"  # its job is to be stopped
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="evaluations", db_index=False)
    step = models.BigIntegerField()  # of the checkpoint
    task = models.CharField(max_length=120)
    options = models.JSONField(default=dict)
    k = models.PositiveIntegerField(default=1)
    limit = models.PositiveIntegerField(default=0)  # the first so many prompts; 0: all
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    tries = models.PositiveIntegerField(default=0)
    claimed_until = models.DateTimeField(null=True)  # from then on a job that Ray does not know is lost
    began_at = models.DateTimeField(null=True)  # Ray has given its job the devices
    ended_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)  # why it failed, or what it waits for
    result = models.JSONField(null=True)  # `training.evaluate.evaluate`
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "step", "task", "options", "k", "limit"], name="evaluation_once"
            )
        ]
        indexes = [
            models.Index(
                fields=["id"],
                name="evaluation_open",
                condition=models.Q(state__in=["queued", "running", "stopping"]),
            )
        ]
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.label} of step {self.step}"

    @property
    def submission_id(self) -> str:
        """Of the job of its newest try."""
        return f"evaluation-{self.pk}-{self.tries}"

    @property
    def label(self) -> str:
        return label_of(self.task, self.options, self.k, self.limit)


def label_of(task: str, options: Mapping[str, Any], k: int, limit: int = 0) -> str:
    """What is measured, and how far that differs from all prompts once."""
    said = [f"{name}={str(value)[:40]}" for name, value in sorted(options.items())]
    said += [f"k={k}"] if k > 1 else []
    said += [f"first {limit}"] if limit else []
    return ", ".join([task, *said])


_AT_WORK = models.Q(state__in=(Evaluation.State.RUNNING, Evaluation.State.STOPPING))
OPEN = _AT_WORK | models.Q(state=Evaluation.State.QUEUED, run__deleted_at=None)
PHASES = {  # as those of runs (`webapp.record.runs.states`)
    "waiting": models.Q(state=Evaluation.State.QUEUED),
    "starting": _AT_WORK & models.Q(began_at=None),
    "running": _AT_WORK & models.Q(began_at__isnull=False),
}
