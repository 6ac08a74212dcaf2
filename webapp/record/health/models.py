"""Signs of life: workers, the newest round of reconciliation, and the cluster as it was last seen."""

from datetime import datetime, timedelta

from django.db import models


class WorkerSeen(models.Model):
    """A Celery worker process; it says itself that it lives, through PostgreSQL, whatever the broker does."""

    name = models.CharField(max_length=200, unique=True)  # host and process id
    host = models.CharField(max_length=150)
    version = models.CharField(max_length=40)  # of the code that it runs
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]


class LastRound(models.Model):
    """The newest round of reconciliation: one row, written at the end of each."""

    began_at = models.DateTimeField()
    seconds = models.FloatField()
    failures = models.JSONField(default=dict)  # step -> why it failed, in a line

    def age(self, now: datetime) -> timedelta:
        """Since its end."""
        return now - self.began_at - timedelta(seconds=self.seconds)


class ClusterSeen(models.Model):
    """What Ray last said of its nodes: one row. After a failed question the nodes are those of the time before."""

    asked_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True)  # when `nodes` was true
    error = models.CharField(max_length=500, blank=True)  # of the newest question
    nodes = models.JSONField(default=list)  # [{"id", "address", "alive", "is_head", "cpus", "gpus"}]
    # Placement groups of the newest round: {"placed": {submission id: [[node id, CPUs, GPUs], ...]}, "waiting": [ids]}.
    # Those of no submission have the id "". The default is the database's own, for workers of the release before.
    groups = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
