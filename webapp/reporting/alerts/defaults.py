"""The personal rules that every member has, to be turned off one by one; they go to the page."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef
from django.utils import timezone

from webapp.identity.accounts.models import Membership, Organisation, Project, User
from webapp.reporting.alerts.models import AlertRule

MINE = "by:me"


@dataclass(frozen=True)
class Default:
    """A rule as every member starts with it."""

    key: str
    name: str
    on: str
    condition: dict[str, Any]
    runs: str = MINE
    critical: bool = False
    cooldown_minutes: int = 0


DEFAULTS = (
    Default("run_stopped", "A run of mine failed or was lost", "state", {"states": ["failed", "lost"]}),
    Default("run_done", "A run of mine is done", "state", {"states": ["succeeded"]}),
    Default("alarm_critical", "A critical alarm in a run of mine", "alarm", {"level": "critical", "rule": ""}),
    Default(
        "ceiling_identified", "The forecast ceiling of a run of mine is known", "fit",
        {"event": "identified", "value": None, "certain": False, "in_a_row": 2}, cooldown_minutes=60,
    ),
    Default(
        "left_band", "A run of mine left the band of its forecast", "fit",
        {"event": "left_band", "value": None, "certain": False, "in_a_row": 2}, cooldown_minutes=60,
    ),
    Default("budget", "80 % of the budget of a run of mine is spent", "budget", {"percent": 80.0}),
    Default("review_asked", "A prediction awaits my review", "prediction", {"event": "review_asked"}, runs=""),
    Default(
        "prediction_reviewed", "A prediction of mine was reviewed", "prediction", {"event": "prediction_reviewed"},
        runs="",
    ),
    Default(
        "prediction_scored", "A prediction of mine was scored", "prediction", {"event": "prediction_scored"}, runs=""
    ),
    Default(
        "prediction_comment", "A comment where I take part", "prediction", {"event": "prediction_comment"}, runs=""
    ),
    Default("mention", "Somebody mentioned me", "prediction", {"event": "mention"}, runs=""),
)  # fmt: skip


def ensure_defaults(user: User, project: Project) -> None:
    """The rules that a member starts with; what is there, and how it was changed, stays. Safe to repeat."""
    now = timezone.now()
    AlertRule.objects.bulk_create(
        [
            AlertRule(
                project=project, owner=user, default_key=one.key, name=one.name, on=one.on, condition=one.condition,
                runs=one.runs, critical=one.critical, cooldown_minutes=one.cooldown_minutes, since=now,
            )
            for one in DEFAULTS
        ],
        ignore_conflicts=True,
    )  # fmt: skip


def ensure_for_everybody(limit: int = 200) -> int:
    """Members, and owners of organisations, who lack their rules get them; returns how many people were looked at."""
    last = DEFAULTS[-1].key
    have = AlertRule.objects.filter(project=OuterRef("project"), owner=OuterRef("user"), default_key=last)
    members = Membership.objects.filter(~Exists(have), user__is_active=True).select_related("user", "project")
    missing = [(row.user, row.project) for row in members[:limit]]
    owners = Organisation.owners.through.objects.filter(user__is_active=True)
    rows = owners.values_list("user_id", "organisation__projects__id").exclude(organisation__projects=None)
    known = (
        set(AlertRule.objects.filter(default_key=last).values_list("owner_id", "project_id"))
        if rows
        else set()
    )
    for user_id, project_id in [pair for pair in rows if pair not in known][:limit]:
        missing.append((User.objects.get(pk=user_id), Project.objects.get(pk=project_id)))
    for user, project in missing:
        ensure_defaults(user, project)
    return len(missing)
