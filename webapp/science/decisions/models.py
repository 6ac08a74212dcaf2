"""The decision log: what was decided of which runs, why, and how things stood at that moment.

Rows never change (triggers refuse it): a decision is revised by a new one that names it, and notes are added beside it.
What came of it is not stored but worked out (`webapp.science.decisions.outcomes`).
"""

from django.conf import settings
from django.db import models

from webapp.identity.accounts.models import Project
from webapp.record.recipes.models import Revision
from webapp.record.runs.models import Run, new_run_id
from webapp.science.curves.models import Fit
from webapp.science.predictions.models import Prediction

USER = settings.AUTH_USER_MODEL


class DecisionKind(models.TextChoices):
    """What can be decided of runs."""

    CONTINUE = "continue", "Continue"
    STOP = "stop", "Stop"
    SWITCH = "switch", "Switch"  # to another run, or to another recipe


class Decision(models.Model):
    """One decision with its reason and the prediction that it rests on."""

    id = models.CharField(primary_key=True, max_length=16, default=new_run_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="decisions")
    kind = models.CharField(max_length=10, choices=DecisionKind.choices)
    decided_by = models.ForeignKey(USER, on_delete=models.RESTRICT, related_name="decisions")
    decided_at = models.DateTimeField(auto_now_add=True)
    reason = models.TextField()
    prediction = models.ForeignKey(Prediction, on_delete=models.RESTRICT, null=True, related_name="decisions")
    to_revision = models.ForeignKey(
        Revision, on_delete=models.RESTRICT, null=True, related_name="switched_to"
    )
    revises = models.OneToOneField("self", on_delete=models.RESTRICT, null=True, related_name="revised_by")
    key = models.CharField(max_length=64, null=True)  # of the form or request: the same one decides once

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "key"], name="decision_once")]
        indexes = [models.Index(fields=["project", "-decided_at", "id"], name="decisions_newest")]
        ordering = ["-decided_at", "id"]


class Subject(models.Model):
    """A run that a decision is of, or that it switches to, with its state at that moment
    (`webapp.science.decisions.moment`).

    A run that is deleted leaves what is written here.
    """

    class Part(models.TextChoices):
        OF = "of"
        TO = "to"

    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="subjects")
    position = models.PositiveSmallIntegerField()
    part = models.CharField(max_length=2, choices=Part.choices, default=Part.OF)
    run = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, related_name="decided")
    run_key = models.CharField(max_length=16)
    name = models.CharField(max_length=140)  # with the seed
    recipe = models.CharField(max_length=140, blank=True)
    task = models.CharField(max_length=80)
    model = models.CharField(max_length=200)
    fit = models.ForeignKey(Fit, on_delete=models.SET_NULL, null=True, related_name="+")
    state = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["decision", "position"], name="subject_place_unique")]
        ordering = ["position"]


class Note(models.Model):
    """What somebody added later."""

    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="notes")
    author = models.ForeignKey(USER, on_delete=models.RESTRICT, related_name="+")
    text = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["created_at", "pk"]
