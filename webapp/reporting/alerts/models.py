"""Rules that watch runs, what they found, the channels that carry it, and notices to people."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models.functions import Lower

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run

USER = settings.AUTH_USER_MODEL


class Notice(models.Model):
    """Something that a person should look at; it stands under the bell until it is read."""

    user = models.ForeignKey(USER, on_delete=models.CASCADE, related_name="notices")
    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    kind = models.CharField(max_length=40)  # "mention", "review_asked", "prediction_scored", "alert"
    text = models.CharField(max_length=300)
    url = models.CharField(max_length=300)  # a path of this server
    created_at = models.DateTimeField(auto_now_add=True)
    read_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["user", "-id"], name="notices_newest"),
            models.Index(fields=["user"], condition=models.Q(read_at=None), name="notices_unread"),
        ]


class QuietHours(models.Model):
    """When nobody wants to be disturbed, by the clock on the wall of a zone; `quiet_from` None: never."""

    zone = models.CharField(max_length=64, default="UTC")
    quiet_from = models.TimeField(null=True)
    quiet_to = models.TimeField(null=True)  # not after `quiet_from`: of the next day
    quiet_days = models.JSONField(default=list)  # weekdays on which it begins, 0 is Monday

    class Meta:
        abstract = True


class Preferences(QuietHours):
    """A person's own quiet hours, for all of their channels that have none of their own."""

    user = models.OneToOneField(USER, on_delete=models.CASCADE, related_name="alert_preferences")
    updated_at = models.DateTimeField(auto_now=True)


class Channel(QuietHours):
    """Where alerts go besides the page. A person's own (in every project of theirs), or a project's."""

    class Kind(models.TextChoices):
        MAIL = "mail"
        WEBHOOK = "webhook"
        SLACK = "slack"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="alert_channels")
    owner = models.ForeignKey(USER, on_delete=models.CASCADE, null=True, related_name="alert_channels")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(max_length=60)
    shown = models.CharField(max_length=254)  # the address as pages show it: of a hook its host only
    sealed_address = models.TextField()  # mail address or URL; a hook's URL is a secret
    sealed_secret = models.TextField(blank=True)  # of a webhook's signatures
    critical_through = models.BooleanField(
        default=False
    )  # critical alerts do not wait for quiet hours to end
    failures = models.PositiveIntegerField(default=0)  # failed tries in a row
    last_error = models.CharField(max_length=300, blank=True)
    paused_at = models.DateTimeField(null=True)
    tested_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)  # last time that something went through
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(project=None, owner__isnull=False)
                | models.Q(project__isnull=False, owner=None),
                name="alert_channel_has_one_owner",
            ),
        ]
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return self.name


class AlertRule(models.Model):
    """What to watch for in which runs, and who is told. `webapp.reporting.alerts.conditions` says what `condition`
    holds."""

    class On(models.TextChoices):
        STATE = "state"
        METRIC = "metric"
        ALARM = "alarm"
        FIT = "fit"
        BUDGET = "budget"
        OUTCOME = "outcome"
        PREDICTION = "prediction"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="alert_rules")
    owner = models.ForeignKey(
        USER, on_delete=models.CASCADE, null=True, related_name="alert_rules"
    )  # None: the project
    default_key = models.CharField(
        max_length=40, blank=True
    )  # one that every member has: `webapp.reporting.alerts.rules`
    name = models.CharField(max_length=80)
    on = models.CharField(max_length=12, choices=On.choices)
    condition = models.JSONField(default=dict)
    runs = models.CharField(max_length=1000, blank=True)  # filter of the runs list; empty: every run
    to_page = models.BooleanField(default=True)
    channels = models.ManyToManyField(Channel, related_name="rules")
    critical = models.BooleanField(default=False)
    cooldown_minutes = models.PositiveIntegerField(default=0)
    enabled = models.BooleanField(default=True)
    since = models.DateTimeField()  # what happened before is the past, and does not fire
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "project", "owner", Lower("name"), name="alert_rule_name_unique", nulls_distinct=False
            ),
            models.UniqueConstraint(
                fields=["project", "owner", "default_key"],
                condition=~models.Q(default_key=""),
                name="alert_default_once",
            ),
        ]
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return self.name


class Firing(models.Model):
    """A rule that found what it watches for, once for each (rule, run, episode)."""

    rule = models.ForeignKey(AlertRule, on_delete=models.SET_NULL, null=True, related_name="firings")
    rule_name = models.CharField(max_length=80)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="firings")
    owner = models.ForeignKey(
        USER, on_delete=models.CASCADE, null=True, related_name="+"
    )  # whose rule it was
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, related_name="firings")
    episode = models.CharField(max_length=160)
    topic = models.CharField(
        max_length=80, blank=True
    )  # with `mark`: an episode whose start moved is the same
    mark = models.FloatField(null=True)
    text = models.CharField(max_length=300)
    url = models.CharField(max_length=300)
    critical = models.BooleanField(default=False)
    muted = models.BooleanField(default=False)  # within the cooldown: kept, but nobody was told
    happened_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "run", "episode"], name="fired_once"
            )  # a deleted rule's: any
        ]
        indexes = [models.Index(fields=["project", "-id"], name="firings_newest")]


class Delivery(models.Model):
    """Outbox: a firing on its way through a channel. Written with the firing; a hint to the worker may be lost."""

    class State(models.TextChoices):
        WAITING = "waiting"
        SENT = "sent"
        FAILED = "failed"
        DROPPED = "dropped"

    id = models.UUIDField(
        primary_key=True, default=uuid.uuid4, editable=False
    )  # the receiver sees it: a retry is no news
    firing = models.ForeignKey(Firing, on_delete=models.CASCADE, related_name="deliveries")
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    held = models.BooleanField(default=False)  # for the end of quiet hours; all of these go out as one digest
    batch = models.UUIDField(null=True)  # the digest that it is part of, from its first try on
    tries = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True)  # a claim that ran out may be taken over
    last_error = models.CharField(max_length=300, blank=True)
    last_status = models.PositiveIntegerField(null=True)
    sent_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["firing", "channel"], name="delivered_once")]
        indexes = [
            models.Index(fields=["next_at"], condition=models.Q(state="waiting"), name="deliveries_due")
        ]


class Watch(models.Model):
    """How far the rules have looked at a run: its version then, and its newest fit."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="alert_watch")
    version = models.BigIntegerField()
    newest_fit = models.BigIntegerField(default=0)
    checked_at = models.DateTimeField()
