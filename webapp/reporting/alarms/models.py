"""Stored alarms: what the rules found in a run's series."""

from django.db import models

from webapp.record.alarm_rules import Level
from webapp.record.runs.models import Run


class Alarm(models.Model):
    """One rule that alarmed in one run. Made anew from the run's points by `webapp.reporting.alarms.services`, never
    edited."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="alarms", db_index=False)
    rule = models.CharField(max_length=60)
    metric = models.CharField(max_length=250)
    level = models.CharField(max_length=10, choices=[(level.value, level.value) for level in Level])
    active = models.BooleanField()  # the newest values are still beyond the threshold
    threshold = models.FloatField(null=True)  # in units of the metric; None: values that are not finite
    value = models.FloatField(null=True)  # the worst of the newest episode
    latest = models.FloatField(null=True)
    first_step = models.BigIntegerField()  # of the newest episode
    last_step = models.BigIntegerField()
    times = models.PositiveIntegerField()  # episodes so far
    marks = models.JSONField(
        default=list
    )  # [[step, value], ...]: alarming points that no chart may leave out
    raised_at = models.DateTimeField()  # when the newest episode was noticed

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "rule"], name="alarm_once")]
        indexes = [models.Index(fields=["run"], condition=models.Q(active=True), name="alarm_active")]
        ordering = ["run_id", "rule"]
