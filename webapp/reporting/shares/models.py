"""Links that show one thing to whoever has them, without an account: a chart, a prediction, a published report."""

from datetime import datetime

from django.conf import settings
from django.db import models

from webapp.identity.accounts.models import Project


class Share(models.Model):
    """A read-only link to one thing. The link itself is stored as its SHA-256 only."""

    class Kind(models.TextChoices):
        RUN = "run", "Run"
        COMPARISON = "comparison", "Comparison"
        PREDICTION = "prediction", "Prediction"
        REPORT = "report", "Report"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="shares")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="shares"
    )
    kind = models.CharField(max_length=12, choices=Kind.choices)
    title = models.CharField(max_length=160)
    question = models.JSONField()  # of what, and how it is looked at: see webapp.reporting.shares.services
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)  # None: until it is revoked
    revoked_at = models.DateTimeField(null=True)
    last_seen_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.title

    def state_at(self, moment: datetime) -> str:
        """ "open", "revoked" or "expired"."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= moment:
            return "expired"
        return "open"
