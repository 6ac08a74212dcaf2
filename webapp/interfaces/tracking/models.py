"""What the clients of other trackers need to find again: groups, their runs, names of metrics, what has arrived."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run


class Group(models.Model):
    """Runs under one name: MLflow calls it an experiment, trackio a project. It lies in the token's project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="groups", db_index=False)
    name = models.CharField(max_length=500)
    tags = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)
    deleted_at = models.DateTimeField(null=True)  # hidden from clients; nothing of its runs is lost

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="group_name_unique")]


class ClientRun(models.Model):
    """A tracked run as its client knows it."""

    class Client(models.TextChoices):
        MLFLOW = "mlflow"
        TRACKIO = "trackio"

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="client_run")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="runs", db_index=False)
    client = models.CharField(max_length=10, choices=Client.choices)
    key = models.CharField(max_length=64)  # the client's id of the run
    name = models.TextField()  # whole; the run's own name is cut to what fits there
    user_name = models.TextField(blank=True)
    start_ms = models.BigIntegerField()  # by the client's clock, where it says so
    end_ms = models.BigIntegerField(null=True)
    params = models.JSONField(default=dict)  # as they were logged, never changed once there
    tags = models.JSONField(default=dict)
    logged_models = models.JSONField(default=dict)  # id -> what the client said of a model that it logged
    meter = models.JSONField(default=dict)  # `translate.Meter` of the current attempt
    has_rejoined = models.BooleanField(default=False)  # a client came back and has not gone on yet
    last_step = models.BigIntegerField(default=0)  # of the newest line
    deleted_at = models.DateTimeField(null=True)  # hidden from the client; on Headroom's pages it stays

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "key"], name="client_run_key_unique")]
        indexes = [models.Index(fields=["key"], name="client_run_key")]


class ClientMetric(models.Model):
    """A metric by the name that the client logs, the name of the series that holds it, and its newest value.

    `step` is the highest; at the same step the later time counts, then the larger value, as in MLflow. The value may be
    NaN or infinite.
    """

    run = models.ForeignKey(
        ClientRun, on_delete=models.CASCADE, related_name="client_metrics", db_index=False
    )
    key = models.CharField(max_length=250)
    series = models.CharField(max_length=250)  # decided when it is first seen, and kept
    value = models.FloatField()
    step = models.BigIntegerField()
    time_ms = models.BigIntegerField()
    comes_often = models.BooleanField(default=False)  # more than once at one step

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "key"], name="client_metric_unique"),
            models.UniqueConstraint(fields=["run", "series"], name="client_metric_series_unique"),
        ]


class NotFinite(models.Model):
    """A value that was NaN or infinite: null in its record, and here as it was."""

    run = models.ForeignKey(ClientRun, on_delete=models.CASCADE, related_name="not_finite", db_index=False)
    key = models.CharField(max_length=250)
    value = models.FloatField()
    step = models.BigIntegerField()
    time_ms = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["run", "key"], name="not_finite_of_metric")]


class Receipt(models.Model):
    """What has arrived of a run, so that the same again is known; `webapp.interfaces.tracking.intake` has the
    rules."""

    run = models.ForeignKey(ClientRun, on_delete=models.CASCADE, related_name="receipts", db_index=False)
    key = models.CharField(max_length=64)
    values = ArrayField(models.BigIntegerField(), default=list)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "key"], name="receipt_unique")]
