"""What a project's jobs need and nobody may read: tokens of model hubs. Stored encrypted
(`webapp.identity.secrets.cipher`)."""

from django.conf import settings
from django.db import models

from webapp.identity.accounts.models import Project


class ProjectSecret(models.Model):
    """A variable of the project's jobs. One that was replaced or deleted is kept, retired, only while a job that was
    given it may still run, so that its log can be cleaned of it."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=64)
    ciphertext = models.TextField()
    set_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    set_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "name"],
                condition=models.Q(retired_at=None),
                name="one_secret_of_a_name",
                violation_error_message="There is a secret of this name.",
            )
        ]

    def __str__(self) -> str:
        return self.name
