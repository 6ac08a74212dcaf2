"""Notices to people."""

from django.conf import settings
from django.db import models

from webapp.accounts.models import Project


class Notice(models.Model):
    """Something that a person should look at; it stands under the bell until it is read."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notices")
    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    kind = models.CharField(max_length=40)  # "mention", "review_asked", "prediction_scored", "alert"
    text = models.CharField(max_length=300)
    url = models.CharField(max_length=300)  # a path of this server
    created_at = models.DateTimeField(auto_now_add=True)
    read_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["user", "-id"], name="notices_newest")]
