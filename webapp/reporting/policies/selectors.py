"""Which policy is in force for a run, and what was done by it.

What in a run's current attempt a policy may act on. Only what this attempt itself showed counts: whoever resumes a
run that was stopped is not stopped again by what the attempt before had reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from webapp.identity.accounts.models import Project
from webapp.record.alarm_rules import Comparison, Level, rules_by_name
from webapp.record.runs.models import Attempt, Point, Record, Run, Summary
from webapp.record.runs.selectors import PASS_RATE
from webapp.reporting.alarms import judge as alarm_words
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.selectors import alarms_of
from webapp.reporting.policies.models import (
    BY_KEY,
    DEFAULTS,
    PolicyAction,
    ProjectPolicy,
    RunPolicy,
    kind_of_alarm,
)
from webapp.science.curves import words
from webapp.science.curves.fitting import Question, curve_of
from webapp.science.curves.run.forecast import stop_advice

OVERRUN = 1.05  # of the budget: the driver should have ended it
EVALUATIONS = 3  # of this attempt, before the planner's advice counts
AXIS = "device_hours"


@dataclass(frozen=True)
class Policy:
    """Kind -> action in force; `of_run`: the kinds for which the run itself was launched with another one."""

    actions: Mapping[str, str]
    of_run: frozenset[str]
    advice_delta: float

    def sentences(self) -> list[str]:
        """What is done about each kind."""
        return [
            f"{kind.title}: {kind.label(self.actions[key])}{' (this run only)' if key in self.of_run else ''}."
            for key, kind in BY_KEY.items()
        ]


def project_policy(project: Project) -> Policy:
    """The project's, defaults where it says nothing. One query."""
    return _policy(project.pk, {})


def policy_of(run: Run) -> Policy:
    """The run's own where it has one, else its project's. Two queries."""
    return _policy(run.project_id, own_actions(run))


def _policy(project_id: int, own: dict[str, str]) -> Policy:
    row = ProjectPolicy.objects.filter(project=project_id).first() or ProjectPolicy()
    return Policy(DEFAULTS | _known(row.actions) | own, frozenset(own), row.advice_delta)


def own_actions(run: Run) -> dict[str, str]:
    """Kind -> action that the run was launched with, beside its project's."""
    return _known(RunPolicy.objects.filter(run=run).values_list("actions", flat=True).first() or {})


def acted_on(run: Run) -> list[PolicyAction]:
    """What was done in the run, newest first."""
    return list(PolicyAction.objects.filter(run=run))


def _known(actions: Mapping[str, str]) -> dict[str, str]:
    """Without kinds and actions that this version does not have (any more)."""
    return {key: action for key, action in actions.items() if key in BY_KEY and action in BY_KEY[key].actions}


@dataclass(frozen=True)
class Finding:
    """`says` is a sentence."""

    kind: str
    says: str


def alarm_findings(run: Run, attempt: Attempt) -> list[Finding]:
    """Critical alarms that hold now and that this attempt's own records have raised. At most one of a kind."""
    critical = [alarm for alarm in alarms_of(run) if alarm.active and alarm.level == Level.CRITICAL]
    found: dict[str, Finding] = {}
    for alarm in critical:
        kind = kind_of_alarm(alarm.rule, alarm.metric)
        if kind not in found and _is_of(alarm, attempt):
            found[kind] = Finding(kind, alarm_words.alarm_payload(alarm)["message"])
    return list(found.values())


def _is_of(alarm: Alarm, attempt: Attempt) -> bool:
    """Whether the attempt alone has shown it: as many values in a row as the rule asks for."""
    begin = attempt.resumed_from_step if attempt.resumed_from_step is not None else -1
    if attempt.number == 1 or alarm.first_step > begin:
        return True
    rule = rules_by_name()[alarm.rule]
    if rule.comparison is Comparison.NOT_FINITE:
        return alarm.last_step > begin
    own = Point.objects.filter(
        series__run=attempt.run_id, series__metric=alarm.metric, attempt=attempt.number, step__gt=begin
    )
    return alarm.last_step > begin and own[: rule.records].count() >= rule.records


def budget_finding(run: Run) -> list[Finding]:
    """The run has spent more than it was given, and went on: the one step that crosses the budget is its last, and
    what follows it (the last evaluation, a checkpoint) costs no compute."""
    used = Summary.objects.filter(run=run).values_list("used_hours", flat=True).first()
    if run.budget_hours is None or used is None or used < OVERRUN * run.budget_hours:
        return []
    beyond = Record.objects.filter(
        run=run, attempt=run.attempt_number, compute__device_hours__gte=OVERRUN * run.budget_hours
    )
    if beyond.values("step").distinct()[:2].count() < 2:
        return []
    spent = f"{words.amount(used)} of {words.amount(run.budget_hours)} device-hours are spent"
    return [Finding("budget", f"{spent}, and its driver has not ended it.")]


def advice_finding(run: Run, attempt: Attempt, delta: float) -> list[Finding]:
    """The planner advises to stop, by a forecast that knows some evaluations of this attempt."""
    own = Point.objects.filter(series__run=run, series__metric=PASS_RATE, attempt=attempt.number)
    if own[:EVALUATIONS].count() < EVALUATIONS:
        return []
    advice = stop_advice(run, curve_of(run, AXIS), Question(AXIS), delta)
    return [Finding("advice", advice)] if advice else []
