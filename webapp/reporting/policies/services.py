"""Setting policies, and acting on them. A stop is `lifecycle.cancel_run`, as by hand: it keeps a checkpoint."""

from collections.abc import Iterable, Mapping

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef
from django.urls import reverse

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.identity.audit.services import record
from webapp.record.runs import lifecycle
from webapp.record.runs.bounds import label_of
from webapp.record.runs.models import Attempt, Run, State
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alerts.firing import notify
from webapp.reporting.policies.models import (
    ADVISE,
    BY_KEY,
    DEFAULTS,
    OFF,
    STOP,
    WARN,
    PolicyAction,
    ProjectPolicy,
    RunPolicy,
)
from webapp.reporting.policies.selectors import (
    Finding,
    Policy,
    advice_finding,
    alarm_findings,
    budget_finding,
    policy_of,
    project_policy,
)

MOST_SWEPT = 50  # runs a round
CARRIED_OUT = {  # an action: its event, and what whoever launched the run is told of it
    STOP: ("run.stopped_by_policy", "was stopped"),
    ADVISE: ("run.advised_by_policy", "could be stopped"),
    WARN: ("run.warned_by_policy", "goes on"),
}


@transaction.atomic
def set_project_policy(
    project: Project, *, actions: Mapping[str, str], advice_delta: float, user: User
) -> None:
    """What the project does about findings in runs that have no policy of their own; from the next finding on.

    Raises InvalidInput (a kind, advice_delta).
    """
    wanted = DEFAULTS | checked(actions)
    if not 0 < advice_delta < 1:
        raise InvalidInput("advice_delta", "advice_delta: a pass rate between 0 and 1, such as 0.01.")
    before = project_policy(project)
    if (before.actions, before.advice_delta) == (wanted, advice_delta):
        return
    ProjectPolicy.objects.update_or_create(
        project=project, defaults={"actions": wanted, "advice_delta": advice_delta, "changed_by": user}
    )
    changed = {
        key: [before.actions[key], wanted[key]] for key in wanted if before.actions[key] != wanted[key]
    }
    record(
        "policy.changed", actor=user, project=project, kind="project", key=project.slug, name=project.name,
        changed=changed, advice_delta=advice_delta,
    )  # fmt: skip


def set_run_policy(runs: Iterable[Run], actions: Mapping[str, str]) -> None:
    """Other actions for runs that were just launched; those kinds that are not named are their project's.

    Raises InvalidInput. Call it in the transaction of the launch, which has asked for the permission.
    """
    if wanted := checked(actions):
        rows = [RunPolicy(run=run, actions=wanted) for run in runs]
        RunPolicy.objects.bulk_create(rows, ignore_conflicts=True)


def checked(actions: Mapping[str, str]) -> dict[str, str]:
    """The actions without those that are empty. Raises InvalidInput for a kind or an action that does not exist."""
    for key, action in actions.items():
        if key not in BY_KEY:
            raise InvalidInput("policies", f"policies: there is no {key}; there are {', '.join(BY_KEY)}.")
        if action and action not in BY_KEY[key].actions:
            choices = " or ".join(BY_KEY[key].actions)
            raise InvalidInput(f"policies.{key}", f"policies.{key} must be {choices}.")
    return {key: action for key, action in actions.items() if action}


def act_on(run_id: str, *, after_refit: bool = False) -> list[PolicyAction]:
    """Look at a running run's current attempt, and do what its policy says; returns what was done by this very call.

    The planner is asked `after_refit` only: its answer changes with the fit. Safe to repeat.
    """
    run = Run.objects.select_related("project", "created_by", "revision__recipe").filter(pk=run_id).first()
    if run is None or run.origin != Run.Origin.LAUNCHED or run.state != State.RUNNING:
        return []
    policy = policy_of(run)
    attempt = Attempt.objects.defer("log_tail").get(run=run, number=run.attempt_number)
    done = [_do(run, attempt, finding, policy) for finding in _findings(run, attempt, policy, after_refit)]
    return [action for action in done if action is not None]


def _findings(run: Run, attempt: Attempt, policy: Policy, after_refit: bool) -> list[Finding]:
    """What is looked for costs something, so only what somebody wants acted on."""
    found = budget_finding(run)
    if any(policy.actions[key] == STOP for key in ("truncation", "mismatch", "not_finite", "other")):
        found += alarm_findings(run, attempt)
    if after_refit and policy.actions["advice"] != OFF:
        found += advice_finding(run, attempt, policy.advice_delta)
    return [one for one in found if not BY_KEY[one.kind].is_silent(policy.actions[one.kind])]


def _do(run: Run, attempt: Attempt, finding: Finding, policy: Policy) -> PolicyAction | None:
    """None where it was done before in this attempt, or the run has ended meanwhile."""
    done = {
        "run": run,
        "attempt": attempt.number,
        "kind": finding.kind,
        "action": policy.actions[finding.kind],
    }
    if PolicyAction.objects.filter(**done).exists():
        return None
    try:
        with transaction.atomic():
            row = PolicyAction.objects.create(
                **done, by_run=finding.kind in policy.of_run, reason=finding.says[:1000]
            )
            _carry_out(run, row)
            return row
    except (IntegrityError, Conflict):  # another worker did, or a person was quicker
        return None


def _carry_out(run: Run, row: PolicyAction) -> None:
    whose = "the policy of this run" if row.by_run else "the policy of its project"
    verb, said = CARRIED_OUT[row.action]
    record(
        verb, actor=None, project=run.project, kind="run", key=run.pk, name=run.name, attempt=row.attempt,
        finding=row.kind, reason=row.reason, whose="run" if row.by_run else "project",
    )  # fmt: skip
    if row.action == STOP:
        lifecycle.cancel_run(run, user=None, reason=f"Stopped by {whose}: {row.reason.rstrip('.')}")
    else:
        Run.objects.filter(pk=run.pk).update(version=F("version") + 1)
    if run.created_by is not None:
        notify(
            run.created_by, project=run.project, kind="policy", url=reverse("run", args=[run.pk]),
            text=f"{label_of(run)} {said} ({BY_KEY[row.kind].title.lower()}): {row.reason}",
        )  # fmt: skip


def sweep() -> int:
    """Act on running runs whose critical alarms a lost hint left behind; returns how many were looked at."""
    critical = Alarm.objects.filter(run=OuterRef("pk"), active=True, level="critical")
    done = PolicyAction.objects.filter(run=OuterRef("pk"), attempt=OuterRef("attempt_number"), action=STOP)
    runs = Run.objects.filter(
        Exists(critical), ~Exists(done), state=State.RUNNING, origin=Run.Origin.LAUNCHED
    )
    ids = list(runs.order_by("heartbeat_at").values_list("pk", flat=True)[:MOST_SWEPT])
    for run_id in ids:
        act_on(run_id)
    return len(ids)
