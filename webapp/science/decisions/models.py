"""The decision log: who decided what of which run, prediction or study, when and why, and how it stood at that moment.

Entries never change (a trigger refuses it): what is thought better of, or learnt later, is a further entry.
"""

from django.conf import settings
from django.db import models

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import new_run_id


class DecisionKind(models.TextChoices):
    """What was decided; a note decides nothing."""

    CONTINUE = "continue", "Continue"
    STOP = "stop", "Stop"
    SWITCH = "switch", "Switch to another"
    NOTE = "note", "Note"


class About(models.TextChoices):
    """What an entry is about."""

    RUN = "run", "Run"
    PREDICTION = "prediction", "Prediction"
    STUDY = "study", "Study"


class Entry(models.Model):
    """One entry. It names its object, without a reference to it: a run that is deleted leaves what is written here.

    `state`: how the object stood (`webapp.science.decisions.services`).
    """

    id = models.CharField(primary_key=True, max_length=16, default=new_run_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="decisions")
    kind = models.CharField(max_length=10, choices=DecisionKind.choices)
    about = models.CharField(max_length=10, choices=About.choices)
    object_id = models.CharField(max_length=16)
    name = models.TextField()  # of the object at that moment
    to = models.TextField(blank=True)  # what a switch goes to
    reason = models.TextField()
    state = models.JSONField(default=dict)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.RESTRICT, related_name="decisions"
    )
    decided_at = models.DateTimeField(auto_now_add=True)
    key = models.CharField(max_length=64, null=True)  # of the form or request: the same one is stored once

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "key"], name="entry_once")]
        indexes = [
            models.Index(fields=["project", "-decided_at", "id"], name="entries_newest"),
            models.Index(fields=["object_id", "-decided_at"], name="entries_of_object"),
        ]
        ordering = ["-decided_at", "id"]
