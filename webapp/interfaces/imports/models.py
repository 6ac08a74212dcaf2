"""Imports of what other trackers wrote, and the runs that each of them filled."""

from django.conf import settings
from django.db import models

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run, new_run_id


class State(models.TextChoices):
    """draft -> waiting -> reading -> finished | partial | failed; a resume leads from the last two back to waiting."""

    DRAFT = "draft"  # uploaded from the page; its columns wait to be named
    WAITING = "waiting"  # for a worker
    READING = "reading"
    FINISHED = "finished"
    PARTIAL = "partial"  # something is broken; what came before it is stored
    FAILED = "failed"  # nothing of it is stored


OPEN = (State.WAITING, State.READING)
RESUMABLE = (State.PARTIAL, State.FAILED)


class Import(models.Model):
    """One source that somebody brought, what is to be made of it, and how far it is."""

    id = models.CharField(primary_key=True, max_length=16, default=new_run_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="imports")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    kind = models.CharField(max_length=30, blank=True)  # of `readers.kinds.KINDS`; empty: to be found out
    source = models.CharField(max_length=200)  # with the kind and a run's key it says which run is which
    options = models.JSONField(default=dict)  # of `readers.rows.Options`, without credentials
    task = models.CharField(max_length=80, blank=True)  # of runs whose source does not say it
    model = models.CharField(max_length=200, blank=True)
    file_name = models.CharField(max_length=255, blank=True)  # of several: the first, and how many
    size = models.BigIntegerField(default=0)  # bytes of what was uploaded
    digest = models.CharField(max_length=64, blank=True)  # SHA-256 of it
    address = models.CharField(max_length=500, blank=True)  # of a server, in place of a file
    sealed_credentials = models.TextField(blank=True)  # for the server; gone as soon as the import has ended
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    broken_file = models.CharField(max_length=255, blank=True)
    broken_line = models.BigIntegerField(null=True)
    reason = models.TextField(blank=True)  # why it is partial or failed, in one sentence
    notes = models.JSONField(default=list)  # what was left out or is unsure, in sentences
    rows_read = models.BigIntegerField(default=0)
    rows_stored = models.BigIntegerField(default=0)  # the others were stored before
    runs_found = models.PositiveIntegerField(null=True)  # None: not looked yet
    has_files = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    claim = models.CharField(max_length=16, blank=True)  # of the worker that reads it
    claimed_until = models.DateTimeField(null=True)  # a claim that ran out may be taken over
    turn_at = models.DateTimeField(null=True)  # when it last had its turn: the longest ago is next
    tries = models.PositiveIntegerField(default=0)  # turns without any progress

    class Meta:
        indexes = [
            models.Index(fields=["project", "-created_at", "id"], name="import_newest"),
            models.Index(fields=["state"], name="import_state"),
        ]
        ordering = ["-created_at", "id"]

    def __str__(self) -> str:
        return self.file_name or self.address

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def can_resume(self) -> bool:
        return self.state in RESUMABLE


class ImportedRun(models.Model):
    """How much of one run of the source is stored. `key` is what names the run there."""

    source = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="imported", db_index=False)
    key = models.CharField(max_length=64)  # digest of the reader's key
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="imported")
    rows_done = models.BigIntegerField(default=0)  # read so far; a worker that takes over goes on behind them
    rows_stored = models.BigIntegerField(default=0)
    is_done = models.BooleanField(default=False)  # to its end, or to where it is broken
    is_broken = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "key"], name="imported_run_once")]
        ordering = ["id"]


class Example(models.Model):
    """What became of the example project: one row, made when its corpus is first looked at."""

    digest = models.CharField(max_length=64)  # of the corpus that was stored, or could not be
    done_at = models.DateTimeField(null=True)  # stored and fitted; or given up, for the reason in `problem`
    problem = models.TextField(blank=True)
    removed_at = models.DateTimeField(null=True)  # by a person: never made again
