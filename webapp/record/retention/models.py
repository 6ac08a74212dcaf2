"""What may be removed of a project's ended runs, when each was looked at, and whether the disk is low."""

from django.conf import settings
from django.db import models

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run


class RetentionPolicy(models.Model):
    """Nothing is removed in a project without a row, or with one that is not enabled."""

    project = models.OneToOneField(
        Project, on_delete=models.CASCADE, primary_key=True, related_name="retention_policy"
    )
    enabled = models.BooleanField(default=False)
    keep_newest = models.PositiveIntegerField(default=2)  # checkpoints of an ended run
    checkpoint_days = models.PositiveIntegerField(default=30)  # after the end; then they go, too
    log_days = models.PositiveIntegerField(default=90)  # after the end of an attempt; 0: never. Samples too
    under_pressure = models.BooleanField(default=True)  # sooner, where the disk is low
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    changed_at = models.DateTimeField(auto_now=True)


class Looked(models.Model):
    """When an ended run's folder was last looked at, and what it then held that may go some day."""

    run = models.OneToOneField(
        Run, on_delete=models.CASCADE, primary_key=True, related_name="retention_looked"
    )
    at = models.DateTimeField()
    is_empty = models.BooleanField(default=False)  # nothing is left that could ever go

    class Meta:
        indexes = [models.Index(fields=["at"], name="retention_looked_at")]


class DiskWatch(models.Model):
    """One row: the disk of HEADROOM_HOME as the worker last saw it."""

    at = models.DateTimeField()
    free = models.BigIntegerField()  # bytes
    total = models.BigIntegerField()
    low_since = models.DateTimeField(null=True)
