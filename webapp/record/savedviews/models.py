"""Saved views of the list of runs, and of the panels of metrics."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Lower

from webapp.identity.accounts.models import Project


class SavedView(models.Model):
    """A filter with columns and an order under a name, or a layout of panels; its owner's alone, or shared with the
    project."""

    class Page(models.TextChoices):
        RUNS = "runs"
        METRICS = "metrics"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="saved_views")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=60)
    page = models.CharField(max_length=10, choices=Page.choices, default=Page.RUNS, db_default=Page.RUNS)
    layout = models.TextField(
        blank=True, default="", db_default=""
    )  # of panels: that part of the page's query
    filter = models.CharField(max_length=1000, blank=True)
    columns = models.JSONField(default=list)  # keys in order; empty: the default columns
    sort = models.CharField(max_length=200, blank=True)
    shared = models.BooleanField(default=False)
    version = models.PositiveIntegerField(
        default=1
    )  # grows with each change: two tabs do not overwrite each other
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint("project", "owner", Lower("name"), name="saved_view_name_unique")
        ]
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return self.name


class DefaultView(models.Model):
    """The view that a person's list of a project opens with."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="default_views")
    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    view = models.ForeignKey(SavedView, on_delete=models.CASCADE)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "project"], name="default_view_once")]
