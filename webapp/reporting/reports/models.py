"""Reports: what people write, its drafts, and its published versions. Links to it are `webapp.reporting.shares`.

A published version never changes (a trigger refuses it) except that it can be withdrawn once.
"""

from django.conf import settings
from django.db import models

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import new_run_id

USER = settings.AUTH_USER_MODEL


class Report(models.Model):
    """A report with its current draft. `draft` grows with every stored change: who saves says which one they had."""

    id = models.CharField(primary_key=True, max_length=16, default=new_run_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="reports")
    title = models.CharField(max_length=160)
    text = models.TextField(blank=True)
    draft = models.PositiveIntegerField(default=1)
    key = models.CharField(max_length=64, null=True)  # of the form: sent twice, it makes one report
    # Nobody created, saved or published the report that came with Headroom.
    created_by = models.ForeignKey(USER, on_delete=models.RESTRICT, null=True, related_name="reports")
    created_at = models.DateTimeField(auto_now_add=True)
    saved_by = models.ForeignKey(USER, on_delete=models.RESTRICT, null=True, related_name="+")
    saved_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True)  # since then left out of lists, and no link shows it

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "key"], name="report_once")]
        indexes = [models.Index(fields=["project", "-saved_at", "id"], name="report_newest")]
        ordering = ["-saved_at", "id"]

    def __str__(self) -> str:
        return self.title


class Draft(models.Model):
    """A text as somebody saved it. What one person writes within some minutes is one row.

    A text that came too late, after somebody else had saved, is kept here too, as `aside`.
    """

    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="drafts")
    number = (
        models.PositiveIntegerField()
    )  # the report's `draft` that it became; of an aside, the one it missed
    aside = models.BooleanField(default=False)
    author = models.ForeignKey(USER, on_delete=models.RESTRICT, related_name="+")
    title = models.CharField(max_length=160)
    text = models.TextField(blank=True)
    started_at = models.DateTimeField()
    saved_at = models.DateTimeField()

    class Meta:
        ordering = ["-saved_at", "-pk"]


class Publication(models.Model):
    """A published version. `frozen` has what each block showed at that time (`webapp.reporting.reports.resolve`)."""

    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="publications")
    number = models.PositiveIntegerField()
    title = models.CharField(max_length=160)
    text = models.TextField()
    authors = models.JSONField()  # usernames of all who wrote at it, the first first
    is_live = models.BooleanField(default=True)  # numbers follow the data; else they are those of that time
    frozen = models.JSONField()
    published_by = models.ForeignKey(USER, on_delete=models.RESTRICT, null=True, related_name="+")
    published_at = models.DateTimeField(auto_now_add=True)
    withdrawn_at = models.DateTimeField(null=True)
    withdrawn_by = models.ForeignKey(USER, on_delete=models.RESTRICT, null=True, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["report", "number"], name="publication_number_unique")]
        ordering = ["-number"]
