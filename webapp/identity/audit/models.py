"""What people and programs changed: rows are added and never changed (a trigger in the database refuses it)."""

from django.conf import settings
from django.db import models


class Event(models.Model):
    """One change: who, what, when, from where. Names are kept as they were, so that a deleted thing stays readable."""

    organisation = models.ForeignKey(
        "accounts.Organisation", on_delete=models.SET_NULL, null=True, db_constraint=False
    )
    project = models.ForeignKey("accounts.Project", on_delete=models.SET_NULL, null=True, db_constraint=False)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, db_constraint=False
    )
    actor_name = models.CharField(max_length=150)  # "system" for what no person did
    verb = models.CharField(max_length=60)  # "run.launched", "member.role_changed"
    object_kind = models.CharField(max_length=40)
    object_id = models.CharField(max_length=64)
    object_name = models.CharField(max_length=200)
    detail = models.JSONField(default=dict)  # never a secret
    address = models.GenericIPAddressField(null=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [  # newest first; by time, so that a span of days is found as quickly as the newest page
            models.Index(fields=["project", "-at", "-id"], name="audit_newest"),
            models.Index(fields=["organisation", "-at", "-id"], name="audit_newest_of_organisation"),
            models.Index(fields=["project", "verb", "-at", "-id"], name="audit_by_verb"),
            models.Index(fields=["project", "actor_name", "-at", "-id"], name="audit_by_actor"),
            models.Index(fields=["project", "object_id", "-at", "-id"], name="audit_by_object"),
        ]
