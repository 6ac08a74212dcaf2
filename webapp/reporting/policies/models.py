"""What a project does about findings in its runs, what a run does instead, and what was done.

What a run can be stopped for by itself, and what may be done about each. Pure data.
"""

from dataclasses import dataclass

from django.conf import settings
from django.db import models

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run

OFF, WARN, ADVISE, STOP = "off", "warn", "advise", "stop"
SAYS = "tell whoever launched it"
LABELS = {
    OFF: "nothing",
    WARN: "warn: the run goes on",
    ADVISE: "advise: " + SAYS,
    STOP: "stop the run, with a checkpoint",
}
DEFAULT_DELTA = 0.01  # of pass rate: less than this left to gain is not worth going on


@dataclass(frozen=True)
class PolicyCheck:
    """One thing that is looked for. `metrics`: whose critical alarms count, by the beginnings of their names."""

    key: str
    title: str
    meaning: str
    actions: tuple[str, ...]
    default: str
    metrics: tuple[str, ...] = ()
    has_alarm: bool = True  # which says it by itself where the action is a warning

    def label(self, action: str) -> str:
        """What the action does, for people."""
        return LABELS[action] if self.has_alarm or action != WARN else "warn: " + SAYS

    def is_silent(self, action: str) -> bool:
        """Whether a policy has nothing to do: it is off, or an alarm says it already."""
        return action == OFF or (action == WARN and self.has_alarm)


KINDS = (
    PolicyCheck(
        "budget", "Budget overrun",
        "More than 5 % beyond its budget, and it goes on.",
        (WARN, STOP), STOP, has_alarm=False,
    ),
    PolicyCheck(
        "advice", "The planner's advice to stop",
        "With 95 % probability less than the amount below is left to gain.",
        (OFF, ADVISE, STOP), OFF, has_alarm=False,
    ),
    PolicyCheck(
        "truncation", "Truncation", "Answers are cut off at the length limit.", (WARN, STOP), WARN,
        ("train/truncation_rate", "eval/truncation_rate"),
    ),
    PolicyCheck(
        "mismatch", "Mismatch of generator and trainer",
        "Of log-probs or ratios.",
        (WARN, STOP), WARN, ("train/mismatch_", "train/ratio_"),
    ),
    PolicyCheck(
        "not_finite", "Not a finite number", "NaN or infinite.", (WARN, STOP), WARN,
        ("*",),
    ),
    PolicyCheck(
        "other", "Any other critical alarm", "A collapse of the pass rate, KL, gradients, verifiers.",
        (WARN, STOP), WARN,
    ),
)  # fmt: skip
BY_KEY = {kind.key: kind for kind in KINDS}
DEFAULTS = {kind.key: kind.default for kind in KINDS}


def kind_of_alarm(rule: str, metric: str) -> str:
    """Which kind an alarm's rule belongs to."""
    if rule == "not_finite":
        return "not_finite"
    for kind in KINDS:
        if any(metric.startswith(beginning) for beginning in kind.metrics):
            return kind.key
    return "other"


class ProjectPolicy(models.Model):
    """Kind -> action, where they differ from the defaults (`webapp.reporting.policies.models`)."""

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
