"""Looking at runs that changed and firing rules: once for each (rule, run, episode), however often this runs.

Only the worker calls this. What changed is seen by the run's version, which grows with records, states, fits and
alarms; so no hint is needed, and a round that was missed is made up by the next one.

Telling a person something: other parts call `webapp.identity.accounts.models.notify`, and know nothing of mail,
hooks and quiet hours.
"""

import logging
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.urls import reverse
from django.utils import timezone

from webapp.base.claims import take_turns
from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Membership, Organisation, Project, User
from webapp.record.runs.bounds import label_of
from webapp.record.runs.filtering import compile_filter
from webapp.record.runs.models import Run
from webapp.reporting.alerts import conditions, delivery
from webapp.reporting.alerts.events import Event, RunData, events_of
from webapp.reporting.alerts.models import AlertRule, Firing, Notice, Watch
from webapp.reporting.alerts.rules import MINE
from webapp.science.curves.models import Fit

SAME_AS = {"prediction_resubmitted": "review_asked"}  # a kind of notice that has the rule of another
log = logging.getLogger(__name__)
MAX_AGE = timedelta(
    days=1
)  # what is older is no news: a run that a filter matches only now does not fire for its past
MAX_RUNS = 200  # a round


@transaction.atomic
def notify(user: User, *, project: Project, kind: str, text: str, url: str) -> Notice | None:
    """Tell a person: on their page, and through the channels that their rule for this kind names.

    `url` is a path of this server. A kind without a rule (see `webapp.reporting.alerts.rules`) goes to the page.
    None where the person has turned the kind off, or has taken the page out of it.
    """
    key = SAME_AS.get(kind, kind)
    rule = AlertRule.objects.filter(project=project, owner=user, on="prediction", default_key=key).first()
    if rule is not None and not rule.enabled:
        return None
    notice = None
    if rule is None or rule.to_page:
        notice = Notice.objects.create(user=user, project=project, kind=kind, text=text[:300], url=url[:300])
    channels = list(rule.channels.all()) if rule is not None else []
    if rule is not None and channels:
        now = timezone.now()
        firing = Firing.objects.create(
            rule=rule, rule_name=rule.name, project=project, owner=user, run=None, text=text[:300], url=url[:300],
            episode=f"{kind} {now.isoformat(timespec='microseconds')} {url}"[:160], critical=rule.critical,
            happened_at=now,
        )  # fmt: skip
        delivery.enqueue(firing, channels)
    return notice


def post_firing(firing: Firing) -> None:
    """Notices of a firing: to the rule's owner, or of a project's rule to every member."""
    members = firing.project.memberships.filter(user__is_active=True).values_list("user_id", flat=True)
    people = members if firing.owner_id is None else [firing.owner_id]
    rows = [
        Notice(user_id=person, project_id=firing.project_id, kind="alert", text=firing.text, url=firing.url)
        for person in people
    ]
    Notice.objects.bulk_create(rows)


def mark_read(user: User, *, notice_id: int | None = None, up_to: int | None = None) -> int:
    """Mark one notice of the user's as read, or all up to (and with) one that was seen. Safe to repeat."""
    unread = Notice.objects.filter(user=user, read_at=None)
    if notice_id is not None:
        unread = unread.filter(pk=notice_id)
    elif up_to is not None:
        unread = unread.filter(pk__lte=up_to)
    return unread.update(read_at=timezone.now())


def changed_runs() -> list[Run]:
    """Runs that changed since the rules looked at them, those first that wait longest. One query.

    What was imported happened elsewhere, before: it is no news, whenever it arrives.
    """
    seen = Q(alert_watch__version=F("version"))
    rows = (
        Run.objects.exclude(seen)
        .filter(imported=None)
        .select_related("alert_watch", "created_by")
        .defer("config")
    )
    return list(rows.order_by(F("alert_watch__checked_at").asc(nulls_first=True), "pk")[:MAX_RUNS])


def check_changed(*, seconds: float = 2.0) -> int:
    """Look at changed runs, until none is left or the time is over; returns how many were looked at."""
    until = time.monotonic() + seconds
    runs = changed_runs()
    rows = (
        Fit.objects.filter(run__in=[run.pk for run in runs])
        .order_by()
        .values_list("run")
        .annotate(newest=Max("pk"))
    )
    newest_fits = dict(rows)
    looked = 0
    for project_id in dict.fromkeys(run.project_id for run in runs):
        mine = [run for run in runs if run.project_id == project_id]
        chosen = _rules_by_run(project_id, mine)
        for run in mine:
            check_run(run, chosen.get(run.pk, []), newest_fits.get(run.pk, 0))
            looked += 1
            if time.monotonic() > until:
                return looked
    return looked


def check_run(run: Run, rules: Sequence[AlertRule], newest_fit: int) -> None:
    """Fire what is new in one run, then note that its version was looked at. One rule's trouble stops no other."""
    watch = getattr(run, "alert_watch", None)
    data, now = RunData(run), timezone.now()
    for rule in rules:
        if rule.on == "fit" and watch is not None and watch.newest_fit == newest_fit:
            continue  # fits come with evaluations: nothing new
        try:
            check_rule(rule, data, now)
        except Exception:
            log.exception("rule %s on run %s", rule.pk, run.pk)
    Watch.objects.update_or_create(
        run=run, defaults={"version": run.version, "newest_fit": newest_fit, "checked_at": now}
    )


def check_rule(rule: AlertRule, data: RunData, now: datetime) -> None:
    """Fire the rule's events in the run that happened since the rule was made."""
    for event in events_of(conditions.read(rule.on, rule.condition), data):
        if event.at >= max(rule.since, now - MAX_AGE):
            fire(rule, data.run, event)


@transaction.atomic
def fire(rule: AlertRule, run: Run, event: Event) -> None:
    """Store the firing with its notices and deliveries, unless this episode has fired before."""
    take_turns("alerts", f"{rule.pk} {run.pk}")
    earlier = Firing.objects.filter(rule=rule, run=run)
    same = Q(episode=event.episode)
    if event.span is not None:
        same |= Q(topic=event.topic, mark__range=event.span)
    if earlier.filter(same).exists():
        return
    cooling = event.at - timedelta(minutes=rule.cooldown_minutes)
    muted = rule.cooldown_minutes > 0 and earlier.filter(muted=False, happened_at__gt=cooling).exists()
    firing = Firing.objects.create(
        rule=rule, rule_name=rule.name, project_id=rule.project_id, owner_id=rule.owner_id, run=run,
        episode=event.episode, topic=event.topic, mark=event.mark, text=f"{label_of(run)}: {event.says}"[:300],
        url=reverse("run", args=[run.pk]), critical=rule.critical or event.critical, muted=muted,
        happened_at=event.at,
    )  # fmt: skip
    if not muted:
        if rule.to_page:
            post_firing(firing)
        delivery.enqueue(firing, rule.channels.all())


def live_rules(project: Project | int) -> QuerySet[AlertRule]:
    """Rules in force that watch runs; those of people who are no members any more are not."""
    member = Membership.objects.filter(project=OuterRef("project"), user=OuterRef("owner"))
    owner = Organisation.objects.filter(projects=OuterRef("project"), owners=OuterRef("owner"))
    allowed = Q(owner=None) | (Q(owner__is_active=True) & (Exists(member) | Exists(owner)))
    rules = AlertRule.objects.filter(allowed, project=project, enabled=True).exclude(on="prediction")
    return rules.select_related("owner")


def _rules_by_run(project_id: int, runs: Sequence[Run]) -> dict[str, list[AlertRule]]:
    """Run -> the rules whose filter it passes. One query a filter, none for the usual "by:me"."""
    found: dict[str, list[AlertRule]] = {}
    known: dict[tuple[str, int | None], set[str]] = {}
    for rule in live_rules(project_id):
        key = (rule.runs.strip(), rule.owner_id)
        if key not in known:
            known[key] = _passing(rule, runs)
        for run_id in known[key]:
            found.setdefault(run_id, []).append(rule)
    return found


def _passing(rule: AlertRule, runs: Sequence[Run]) -> set[str]:
    if rule.runs.strip() == MINE:
        return {run.pk for run in runs if rule.owner_id is not None and run.created_by_id == rule.owner_id}
    try:
        condition = compile_filter(rule.runs, user=rule.owner).condition
    except InvalidInput:  # a field or a word that this version no longer knows: the rules' page says so
        return set()
    return set(Run.objects.filter(condition, pk__in=[run.pk for run in runs]).values_list("pk", flat=True))
