"""Every write to rules. A change names the version that it was made from; an older one is refused.

The personal rules that every member has, to be turned off one by one; they go to the page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from webapp.base.claims import unless_there
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Membership, Organisation, Project, User
from webapp.identity.accounts.permissions import Permission, require
from webapp.identity.audit.services import record
from webapp.record.runs.filtering import FilterError, compile_filter
from webapp.reporting.alerts import conditions, selectors
from webapp.reporting.alerts.channels import clean_name
from webapp.reporting.alerts.models import AlertRule, Channel

MAX_RULES = 100  # of one person, or of the project
MAX_COOLDOWN = 7 * 24 * 60
MINE = "by:me"


@dataclass(frozen=True)
class Wanted:
    """What a form or a program asks of a rule. `channels` are ids."""

    name: str
    on: str
    condition: Mapping[str, Any]
    runs: str = ""
    to_page: bool = True
    channels: Sequence[int] = ()
    critical: bool = False
    cooldown_minutes: int = 0


@transaction.atomic
def create_rule(
    *, user: User, project: Project, wanted: Wanted, shared: bool = False, enabled: bool = True
) -> AlertRule:
    """A new rule: the user's own, or (`shared`) the project's, which only an admin makes. It watches from now on.

    Raises InvalidInput (name, a field of the condition, runs, channels, cooldown_minutes), Conflict, Forbidden.
    """
    owner = None if shared else user
    require(user, project, Permission.ADMIN if shared else Permission.VIEW)
    if wanted.on == AlertRule.On.PREDICTION:
        raise InvalidInput("on", "on: rules on predictions are there already, among your own; change those.")
    fields, channels = _checked(wanted, user, project, owner)
    if AlertRule.objects.filter(project=project, owner=owner).count() >= MAX_RULES:
        raise InvalidInput(None, f"There are {MAX_RULES} rules already; delete one first.")
    with unless_there(_taken(fields["name"])):
        rule = AlertRule.objects.create(
            project=project, owner=owner, since=timezone.now(), enabled=enabled, **fields
        )
    rule.channels.set(channels)
    record(
        "alert_rule.created",
        actor=user,
        project=project,
        kind="alert_rule",
        key=rule.pk,
        name=rule.name,
        on=rule.on,
    )
    return rule


@transaction.atomic
def change_rule(
    rule_id: int, *, user: User, project: Project, version: int, wanted: Wanted, enabled: bool | None = None
) -> AlertRule:
    """Watch for something else, or tell others. Where the condition or the runs change, or the rule is turned on, it
    watches anew from now on. enabled None: as it was.

    Raises as `create_rule`, NotFound, and Conflict for an old version. The kind of a rule cannot change, nor what a
    rule on predictions is about.
    """
    rule = writable_rule(rule_id, user=user, project=project, lock=True)
    if rule.version != version:
        raise Conflict(
            "This rule was changed meanwhile, perhaps in another tab. Nothing was saved; look at it again."
        )
    if wanted.on != rule.on:
        raise InvalidInput("on", "on: what a rule is about cannot change; make another rule.")
    fields, channels = _checked(wanted, user, project, rule.owner)
    is_other = (fields["condition"], fields["runs"]) != (rule.condition, rule.runs)
    if is_other and rule.on == AlertRule.On.PREDICTION:
        raise InvalidInput("condition", "condition: what this rule is about cannot change; only who is told.")
    if enabled is not None:
        fields["enabled"] = enabled
    if is_other or (enabled and not rule.enabled):
        fields["since"] = timezone.now()
    with unless_there(_taken(fields["name"])):
        AlertRule.objects.filter(pk=rule.pk).update(version=F("version") + 1, **fields)
    rule.refresh_from_db()
    rule.channels.set(channels)
    record("alert_rule.changed", actor=user, project=project, kind="alert_rule", key=rule.pk, name=rule.name)
    return rule


@transaction.atomic
def turn(rule_id: int, *, user: User, project: Project, on: bool) -> AlertRule:
    """Turn a rule on (it watches from now on) or off. Safe to repeat. Raises NotFound, Forbidden."""
    rule = writable_rule(rule_id, user=user, project=project, lock=True)
    if rule.enabled != on:
        rule.enabled, rule.version = on, rule.version + 1
        if on:
            rule.since = timezone.now()
        rule.save(update_fields=["enabled", "version", "since"])
        verb = f"alert_rule.turned_{'on' if on else 'off'}"
        record(verb, actor=user, project=project, kind="alert_rule", key=rule.pk, name=rule.name)
    return rule


@transaction.atomic
def delete_rule(rule_id: int, *, user: User, project: Project) -> None:
    """What it found stays. Raises NotFound, also where it was deleted before; Forbidden, and Conflict for a rule that
    everybody has: that one can be turned off."""
    rule = writable_rule(rule_id, user=user, project=project, lock=True)
    if rule.default_key:
        raise Conflict("Every member has this rule; turn it off instead.")
    rule.delete()
    record("alert_rule.deleted", actor=user, project=project, kind="alert_rule", key=rule_id, name=rule.name)


def writable_rule(rule_id: int, *, user: User, project: Project, lock: bool = False) -> AlertRule:
    """A rule that this person may change, with its channels. Raises NotFound, Forbidden."""
    rule = selectors.rule_by_id(user, project, rule_id, lock=lock)
    require(user, project, Permission.ADMIN if rule.owner_id is None else Permission.VIEW)
    return rule


def _checked(
    wanted: Wanted, user: User, project: Project, owner: User | None
) -> tuple[dict[str, Any], list[Channel]]:
    condition = conditions.read(wanted.on, dict(wanted.condition))
    if not 0 <= wanted.cooldown_minutes <= MAX_COOLDOWN:
        raise InvalidInput("cooldown_minutes", f"cooldown_minutes: from 0 to {MAX_COOLDOWN} (a week).")
    fields = {
        "name": clean_name("rule", wanted.name, 80),
        "on": wanted.on,
        "condition": condition.model_dump(mode="json"),
        "runs": "" if wanted.on == AlertRule.On.PREDICTION else _clean_filter(wanted.runs, owner),
        "to_page": wanted.to_page,
        "critical": wanted.critical,
        "cooldown_minutes": wanted.cooldown_minutes,
    }
    channels = _channels(wanted.channels, project, owner)
    if not wanted.to_page and not channels:
        raise InvalidInput(
            "channels", "channels: choose at least one way to hear of it: the page, or a channel."
        )
    return fields, channels


def _clean_filter(text: str, owner: User | None) -> str:
    """Raises InvalidInput (runs) that says where the filter cannot be read."""
    try:
        compiled = compile_filter(text, user=owner)
    except FilterError as error:
        raise RunsError(error) from None
    if (
        owner is None
        and compiled.names("by")
        and "me" in text.lower().replace(":", " ").replace(",", " ").split()
    ):
        raise InvalidInput(
            "runs", "runs: a rule of the project belongs to nobody; write a name instead of me."
        )
    return text.strip()


class RunsError(InvalidInput):
    """A filter that cannot be read; `pointer` shows where."""

    def __init__(self, error: FilterError) -> None:
        super().__init__("runs", f"runs, character {error.at + 1}: {error.said}")
        self.pointer = error.pointer


def _channels(ids: Sequence[int], project: Project, owner: User | None) -> list[Channel]:
    """A person's rule uses that person's channels, a project's rule the project's."""
    allowed = (
        Channel.objects.filter(owner=owner) if owner is not None else Channel.objects.filter(project=project)
    )
    found = list(allowed.filter(pk__in=[pk for pk in ids if 0 < pk < 2**63]))
    if len(found) != len(set(ids)):
        raise InvalidInput(
            "channels", "channels: one of these does not exist any more, or belongs to somebody else."
        )
    return found


def _taken(name: str) -> Conflict:
    return Conflict(f"name: there is a rule “{name}” already.", field="name")


# Key, name, kind, condition and cooldown of the rules as every member starts with them. Those on predictions are about
# the person, the others about runs that the person launched.
DEFAULTS: tuple[tuple[str, str, str, dict[str, Any], int], ...] = (
    ("run_stopped", "A run of mine failed or was lost", "state", {"states": ["failed", "lost"]}, 0),
    ("run_done", "A run of mine is done", "state", {"states": ["succeeded"]}, 0),
    ("alarm_critical", "A critical alarm in a run of mine", "alarm", {"level": "critical", "rule": ""}, 0),
    ("ceiling_identified", "The forecast ceiling of a run of mine is known", "fit",
     {"event": "identified", "value": None, "certain": False, "in_a_row": 2}, 60),
    ("left_band", "A run of mine left the band of its forecast", "fit",
     {"event": "left_band", "value": None, "certain": False, "in_a_row": 2}, 60),
    ("budget", "80 % of the budget of a run of mine is spent", "budget", {"percent": 80.0}, 0),
    ("review_asked", "A prediction awaits my review", "prediction", {"event": "review_asked"}, 0),
    ("prediction_reviewed", "A prediction of mine was reviewed", "prediction", {"event": "prediction_reviewed"}, 0),
    ("prediction_scored", "A prediction of mine was scored", "prediction", {"event": "prediction_scored"}, 0),
    ("prediction_comment", "A comment where I take part", "prediction", {"event": "prediction_comment"}, 0),
    ("mention", "Somebody mentioned me", "prediction", {"event": "mention"}, 0),
)  # fmt: skip


def ensure_defaults(user: User, project: Project) -> None:
    """The rules that a member starts with; what is there, and how it was changed, stays. Safe to repeat."""
    now = timezone.now()
    AlertRule.objects.bulk_create(
        [
            AlertRule(
                project=project, owner=user, default_key=key, name=name, on=on, condition=condition,
                runs="" if on == AlertRule.On.PREDICTION else MINE, cooldown_minutes=cooldown, since=now,
            )
            for key, name, on, condition, cooldown in DEFAULTS
        ],
        ignore_conflicts=True,
    )  # fmt: skip


def ensure_for_everybody(limit: int = 200) -> int:
    """Members, and owners of organisations, who lack their rules get them; returns how many people were looked at."""
    last = DEFAULTS[-1][0]
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
