"""The output of jobs, kept after their nodes are gone: one row an attempt, and its lines in chunks."""

from django.db import models

from webapp.record.runs.models import Attempt


class JobLog(models.Model):
    """What is kept of one attempt's output, and how far its file was read.

    Of a long log the first and the last lines are kept; what lies between is counted, not stored.
    """

    attempt = models.OneToOneField(
        Attempt, on_delete=models.CASCADE, primary_key=True, related_name="kept_log"
    )
    read_to = models.BigIntegerField(default=0)  # bytes of the job's own file (`training.log_copy`)
    lines = models.BigIntegerField(default=0)  # so far, with those that were left out
    size = models.BigIntegerField(default=0)  # bytes of text that are stored
    head_lines = models.BigIntegerField(null=True)  # the first ones, never left out; None: not all there yet
    left_out_lines = models.BigIntegerField(default=0)  # behind the head
    left_out_size = models.BigIntegerField(default=0)  # bytes
    closed_at = models.DateTimeField(null=True)  # nothing more will come


class LogChunk(models.Model):
    """Some lines one after the other, each with its line end. Numbers of lines begin with 1."""

    log = models.ForeignKey(JobLog, on_delete=models.CASCADE, related_name="chunks", db_index=False)
    first_line = models.BigIntegerField()
    lines = models.PositiveIntegerField()
    size = models.PositiveIntegerField()  # bytes of `text`
    text = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["log", "first_line"], name="log_chunk_once")]
        ordering = ["log_id", "first_line"]
