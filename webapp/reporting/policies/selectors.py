"""Which policy is in force for a run, and what was done by it."""

from collections.abc import Mapping
from dataclasses import dataclass

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run
from webapp.reporting.policies.kinds import BY_KEY, DEFAULT_DELTA, DEFAULTS
from webapp.reporting.policies.models import PolicyAction, ProjectPolicy, RunPolicy


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
    row = ProjectPolicy.objects.filter(project=project).first()
    return Policy(DEFAULTS | _known(row.actions if row else {}), frozenset(), _delta(row))


def policy_of(run: Run) -> Policy:
    """The run's own where it has one, else its project's. Two queries."""
    row = ProjectPolicy.objects.filter(project=run.project_id).first()
    own = _known(RunPolicy.objects.filter(run=run).values_list("actions", flat=True).first() or {})
    return Policy(DEFAULTS | _known(row.actions if row else {}) | own, frozenset(own), _delta(row))


def own_actions(run: Run) -> dict[str, str]:
    """Kind -> action that the run was launched with, beside its project's."""
    return _known(RunPolicy.objects.filter(run=run).values_list("actions", flat=True).first() or {})


def acted_on(run: Run) -> list[PolicyAction]:
    """What was done in the run, newest first."""
    return list(PolicyAction.objects.filter(run=run))


def _known(actions: Mapping[str, str]) -> dict[str, str]:
    """Without kinds and actions that this version does not have (any more)."""
    return {key: action for key, action in actions.items() if key in BY_KEY and action in BY_KEY[key].actions}


def _delta(row: ProjectPolicy | None) -> float:
    return row.advice_delta if row is not None else DEFAULT_DELTA
