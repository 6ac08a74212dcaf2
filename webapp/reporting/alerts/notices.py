"""Telling a person something: other parts call `webapp.identity.accounts.events.notify`, and know nothing of mail,
hooks and quiet hours."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from webapp.identity.accounts.models import Project, User
from webapp.reporting.alerts import outbox
from webapp.reporting.alerts.models import AlertRule, Firing, Notice

SAME_AS = {"prediction_resubmitted": "review_asked"}  # a kind of notice that has the rule of another


@transaction.atomic
def notify(user: User, *, project: Project, kind: str, text: str, url: str) -> Notice | None:
    """Tell a person: on their page, and through the channels that their rule for this kind names.

    `url` is a path of this server. A kind without a rule (see `webapp.reporting.alerts.defaults`) goes to the page.
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
        outbox.enqueue(firing, channels)
    return notice


def on_noticed(user: User, project: Project, kind: str, text: str, url: str, **_: Any) -> None:
    """Receives what other parts tell."""
    notify(user, project=project, kind=kind, text=text, url=url)


def post_firing(firing: Firing) -> int:
    """Notices of a firing: to the rule's owner, or of a project's rule to every member; returns how many."""
    if firing.owner_id is not None:
        people = [firing.owner_id]
    else:
        people = list(
            firing.project.memberships.filter(user__is_active=True).values_list("user_id", flat=True)
        )
    rows = [
        Notice(user_id=person, project_id=firing.project_id, kind="alert", text=firing.text, url=firing.url)
        for person in people
    ]
    return len(Notice.objects.bulk_create(rows))


def mark_read(user: User, *, notice_id: int | None = None, up_to: int | None = None) -> int:
    """Mark one notice of the user's as read, or all up to (and with) one that was seen. Safe to repeat."""
    unread = Notice.objects.filter(user=user, read_at=None)
    if notice_id is not None:
        unread = unread.filter(pk=notice_id)
    elif up_to is not None:
        unread = unread.filter(pk__lte=up_to)
    return unread.update(read_at=timezone.now())
