"""What a project does about findings in its runs, what a run does instead, and what was done."""

from django.conf import settings
from django.db import models

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run
from webapp.reporting.policies.kinds import DEFAULT_DELTA


class ProjectPolicy(models.Model):
    """Kind -> action, where they differ from the defaults (`webapp.reporting.policies.kinds`)."""

    project = models.OneToOneField(
        Project, on_delete=models.CASCADE, primary_key=True, related_name="action_policy"
    )
    actions = models.JSONField(default=dict)
    advice_delta = models.FloatField(default=DEFAULT_DELTA)  # of pass rate
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    changed_at = models.DateTimeField(auto_now=True)


class RunPolicy(models.Model):
    """Kind -> action, where this run was launched with another than its project's."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="action_policy")
    actions = models.JSONField(default=dict)


class PolicyAction(models.Model):
    """A finding that a policy acted on, once for each attempt."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="policy_actions", db_index=False)
    attempt = models.PositiveIntegerField()
    kind = models.CharField(max_length=20)
    action = models.CharField(max_length=10)  # "warn", "advise" or "stop"
    by_run = models.BooleanField()  # the run's own policy said so, not its project's
    reason = models.CharField(max_length=1000)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "attempt", "kind", "action"], name="policy_acted_once")
        ]
        ordering = ["-id"]
