"""Studies: runs meant to be compared. Which runs belong to one is a table here; a run knows nothing of it."""

from django.conf import settings
from django.db import models

from webapp.identity.accounts.models import Project
from webapp.record.recipes.models import Revision
from webapp.record.runs.models import Run, new_run_id


class StudyKind(models.TextChoices):
    """What a study asks."""

    LEAVE_ONE_OUT = "leave_one_out", "Leave-one-out"  # which choice of the base matters?
    AXIS = "axis", "One axis"  # what does more of one setting buy?


class Study(models.Model):
    """A base recipe and variants that differ from it in one thing each, all with the same seeds and budget."""

    id = models.CharField(primary_key=True, max_length=16, default=new_run_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="studies")
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=20, choices=StudyKind.choices, default=StudyKind.LEAVE_ONE_OUT)
    base = models.ForeignKey(Revision, on_delete=models.PROTECT, related_name="studies")
    task = models.CharField(max_length=80)
    model = models.CharField(max_length=200)
    seeds = models.JSONField(default=list)  # launched so far, whole numbers
    budget_hours = models.FloatField()  # device-hours of each run
    version = models.BigIntegerField(default=1)  # grows when runs or seeds come or go
    idempotency_key = models.CharField(max_length=200, null=True)
    body_digest = models.CharField(max_length=64, blank=True)  # of the request that made it
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True)  # hidden from lists; its runs are as they were

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "idempotency_key"], name="study_key_unique")
        ]
        indexes = [models.Index(fields=["project", "-created_at", "id"], name="study_newest_first")]
        ordering = ["-created_at", "id"]

    def __str__(self) -> str:
        return self.name


class Arm(models.Model):
    """The base or one variant of a study."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="arms", db_index=False)
    position = models.PositiveIntegerField()  # 0: the base
    axis = models.CharField(
        max_length=120, blank=True
    )  # what it changes; empty for the base and runs added by hand
    axis_title = models.CharField(max_length=120, blank=True)
    value = models.CharField(max_length=200, blank=True)
    number = models.FloatField(null=True)  # the value on a numeric axis
    label = models.CharField(max_length=120)
    sentence = models.TextField(blank=True)
    revision = models.ForeignKey(Revision, on_delete=models.PROTECT, related_name="arms", null=True)
    task = models.CharField(max_length=80)
    model = models.CharField(max_length=200)
    by_hand = models.BooleanField(default=False)  # made for a run that was added; goes with its last run

    class Meta:
        constraints = [models.UniqueConstraint(fields=["study", "position"], name="arm_position_unique")]
        ordering = ["study_id", "position"]

    def __str__(self) -> str:
        return self.label

    @property
    def is_base(self) -> bool:
        """Whether the others are compared with it."""
        return self.position == 0


class StudyRun(models.Model):
    """A run's place in a study."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="members", db_index=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="studies")
    arm = models.ForeignKey(Arm, on_delete=models.CASCADE, related_name="members")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["study", "run"], name="study_run_once")]
        ordering = ["study_id", "id"]
