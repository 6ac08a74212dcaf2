"""Reading firings, notices, and what a project has of rules and channels."""

from dataclasses import dataclass

from django.db.models import Count, Max, Prefetch, Q, QuerySet

from webapp.base.errors import InvalidInput, first_of
from webapp.identity.accounts.models import Project, User
from webapp.record.runs.filtering import compile_filter
from webapp.reporting.alerts import conditions, hours
from webapp.reporting.alerts.models import AlertRule, Channel, Delivery, Firing, Notice, Preferences


@dataclass(frozen=True)
class RuleRow:
    """A rule as its table shows it. `problem`: why it cannot fire at all."""

    rule: AlertRule
    words: str
    channels: list[Channel]
    problem: str


def rules_of(user: User, project: Project, *, shared: bool) -> list[RuleRow]:
    """The project's rules, or the user's own. Two queries."""
    rules = AlertRule.objects.filter(project=project, owner=None if shared else user).select_related("owner")
    rows = rules.prefetch_related("channels").annotate(
        last_fired=Max("firings__happened_at"), fired=Count("firings")
    )
    return [RuleRow(rule, words_of(rule), list(rule.channels.all()), _problem(rule)) for rule in rows]


def words_of(rule: AlertRule) -> str:
    """Its condition; empty for one of an earlier version that cannot be read any more."""
    try:
        return conditions.read(rule.on, rule.condition).words()
    except InvalidInput:
        return ""


def _problem(rule: AlertRule) -> str:
    try:
        conditions.read(rule.on, rule.condition)
        compile_filter(rule.runs, user=rule.owner)
    except InvalidInput as error:
        return f"This rule cannot be read any more: {error.message}"
    return ""


def visible_rules(user: User, project: Project) -> QuerySet[AlertRule]:
    """The project's rules, and the user's own, with their channels."""
    rules = AlertRule.objects.filter(Q(owner=None) | Q(owner=user), project=project)
    return rules.prefetch_related("channels")


def rule_by_id(user: User, project: Project, rule_id: int, *, lock: bool = False) -> AlertRule:
    """A rule of the project's or of the user's own; `lock`: until the transaction ends. Raises NotFound."""
    visible = visible_rules(user, project).filter(pk=rule_id)
    return first_of(visible.select_for_update(of=("self",)) if lock else visible, "There is no such rule.")


def channels_of(user: User, project: Project, *, shared: bool | None = None) -> list[Channel]:
    """Channels, each with how many deliveries wait (`waiting`). One query. shared None: own and the project's."""
    wanted = Q(owner=user) | Q(project=project)
    if shared is not None:
        wanted = Q(project=project) if shared else Q(owner=user)
    waiting = Count("deliveries", filter=Q(deliveries__state=Delivery.State.WAITING))
    return list(Channel.objects.filter(wanted).annotate(waiting=waiting))


def channel_by_id(user: User, project: Project, channel_id: int) -> Channel:
    """A channel of the project's or of the user's own. Raises NotFound."""
    visible = Channel.objects.filter(Q(owner=user) | Q(project=project))
    return first_of(visible.filter(pk=channel_id), "There is no such channel.")


def quiet_words(stored: Channel | Preferences | None) -> str:
    """Quiet hours in words; empty where there are none."""
    quiet = hours.read(stored)
    return quiet.words() if quiet is not None else ""


def preferences_of(user: User) -> Preferences:
    """The person's preferences, stored or as they are at first."""
    return Preferences.objects.filter(user=user).first() or Preferences(user=user)


def firings_of(project: Project, user: User | None) -> QuerySet[Firing]:
    """What fired by the project's rules and the user's own (None: the project's alone), newest first."""
    own = Q(owner=None) | Q(owner=user) if user is not None else Q(owner=None)
    deliveries = Prefetch("deliveries", Delivery.objects.select_related("channel").order_by("created_at"))
    return Firing.objects.filter(own, project=project).prefetch_related(deliveries).order_by("-id")


def notices_of(user: User) -> QuerySet[Notice]:
    """A person's notices in every project, newest first."""
    return Notice.objects.filter(user=user).select_related("project").order_by("-id")


def unread_count(user: User) -> int:
    """How many notices stand under the bell; counted to 100."""
    return len(Notice.objects.filter(user=user, read_at=None).order_by().values_list("pk")[:100])
