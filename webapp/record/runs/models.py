"""Runs, attempts, the dispatch outbox, and what runs report."""

import secrets

from django.conf import settings
from django.db import models
from django.dispatch import Signal

from webapp.identity.accounts.models import Project
from webapp.record.recipes.models import Revision

ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
deleted_or_restored = Signal()  # project: of the run; inside the transaction


def new_run_id() -> str:
    """A random public id: 10 characters of Crockford's base 32 (50 bits)."""
    return "".join(secrets.choice(ID_ALPHABET) for _ in range(10))


class State(models.TextChoices):
    """States of a run and of its attempts; `webapp.record.runs.states` says which may follow which."""

    DRAFT = "draft"  # saved, not launched: nothing of it reaches the cluster
    QUEUED = "queued"  # stored, waits for a worker to claim its dispatch row
    SUBMITTING = "submitting"  # claimed; being handed to Ray Jobs
    STARTING = "starting"  # Ray has the job; the driver has not reported yet
    RUNNING = "running"
    STOPPING = "stopping"  # a stop was asked for; the driver may still write a checkpoint
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"  # neither Ray nor heartbeats know it any more


class Shown(models.Manager["Run"]):
    """Runs that nobody has deleted."""

    def get_queryset(self) -> "models.QuerySet[Run]":
        return super().get_queryset().filter(deleted_at=None)


class Run(models.Model):
    """One training of a recipe revision on a task, with model, seed and compute budget."""

    class Origin(models.TextChoices):
        LAUNCHED = "launched"  # by us, on the Ray cluster
        TRACKED = "tracked"  # elsewhere; it only logs to us

    class Priority(models.IntegerChoices):
        """Which queued runs are handed to the cluster first: `webapp.record.runs.admission.deciding`."""

        LOW = 0, "low"
        NORMAL = 1, "normal"
        HIGH = 2, "high"

    id = models.CharField(primary_key=True, max_length=16, default=new_run_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="runs")
    revision = models.ForeignKey(Revision, on_delete=models.PROTECT, related_name="runs", null=True)
    origin = models.CharField(max_length=10, choices=Origin.choices, default=Origin.LAUNCHED)
    name = models.CharField(max_length=120)
    task = models.CharField(max_length=80)
    model = models.CharField(max_length=200)
    seed = models.PositiveIntegerField(default=0)
    budget_hours = models.FloatField(null=True)  # device-hours; None: no budget (tracked runs)
    config = models.JSONField(default=dict)  # the configuration in force: revision, model, task, seed, budget
    state = models.CharField(max_length=12, choices=State.choices, default=State.QUEUED)
    priority = models.PositiveSmallIntegerField(choices=Priority.choices, default=Priority.NORMAL)
    retry_limit = models.PositiveSmallIntegerField(
        null=True
    )  # of retries on its own; None: the installation's
    retries = models.PositiveSmallIntegerField(
        default=0
    )  # on its own since a person last launched or resumed it
    state_reason = models.TextField(blank=True)  # why it is in this state, in words for the page
    attempt_number = models.PositiveIntegerField(default=1)  # the current attempt
    version = models.BigIntegerField(default=1)  # grows with every visible change: the page's cursor
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)  # last time its trainer spoke to us
    refit_wanted_at = models.DateTimeField(null=True)  # new evaluation points wait for a refit since then
    alarms_wanted_at = models.DateTimeField(
        null=True
    )  # new records wait to be judged by the alarms' rules since then
    tags = models.JSONField(default=list)  # words that people gave it, sorted
    meaning = models.JSONField(
        default=dict
    )  # of what it logs, where a person said it: `webapp.record.runs.meaning`
    # What the worker has still to make anew of its points after that: {"undo": [field, ...], "after": id of a record}
    remaking = models.JSONField(null=True)
    archived_at = models.DateTimeField(null=True)  # since then left out of lists unless asked for
    # A default of the database's own, as of Dispatch below.
    notes = models.TextField(blank=True, default="", db_default="")  # what people say of it, plain text
    deleted_at = models.DateTimeField(null=True)  # since then nowhere; for a day it can be brought back

    objects = Shown()
    with_deleted = models.Manager["Run"]()
    # Attempt -> what its client could not have stored: `webapp.record.runs.ingest`
    refused = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))

    class Meta:
        indexes = [
            models.Index(fields=["project", "-created_at", "id"], name="run_newest_first"),
            models.Index(fields=["state"], name="run_state"),
            models.Index(
                fields=["project", "archived_at", "state"], name="run_shown"
            ),  # counted on every page
        ]
        ordering = ["-created_at", "id"]

    def __str__(self) -> str:
        return self.name


def submission_id_of(run_id: str, attempt: int) -> str:
    """The Ray job of an attempt: it follows from both, so that submitting twice is one job."""
    return f"run-{run_id}-a{attempt}"


class Attempt(models.Model):
    """One launch of a run. A retry or resume is the next attempt."""

    class Failure(models.TextChoices):
        INFRASTRUCTURE = "infrastructure"  # what it ran on failed: the same again may go through
        RECIPE = "recipe"  # it would fail again
        STEPPED_BACK = (
            "stepped back"  # no failure: it gave its place to a run of higher priority and goes on later
        )

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    submission_id = models.CharField(max_length=80, unique=True)  # `submission_id_of`
    state = models.CharField(max_length=12, choices=State.choices, default=State.QUEUED)
    resumed_from_step = models.BigIntegerField(
        null=True
    )  # points of earlier attempts past this step are superseded
    device = models.JSONField(null=True)  # what it trains on, as its trainer says
    failure = models.CharField(
        max_length=16, choices=Failure.choices, blank=True
    )  # why one ended before its time
    log_read_at = models.DateTimeField(null=True)  # when reconciliation last asked for the log
    log_tail = models.TextField(blank=True)  # last 64 KiB of the job's log, kept here by reconciliation
    message = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="attempt_number_unique")]
        ordering = ["run_id", "number"]


class Transition(models.Model):
    """One change of state of a run's attempt: written in the transaction that made it, never changed."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="transitions", db_index=False)
    attempt = models.PositiveIntegerField()
    from_state = models.CharField(max_length=12, choices=State.choices, blank=True)  # empty: it was made
    to_state = models.CharField(max_length=12, choices=State.choices)
    at = models.DateTimeField()
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    part = models.CharField(max_length=20, blank=True)  # of the system, where no person did it
    reason = models.TextField(blank=True)

    class Meta:
        indexes = [models.Index(fields=["run", "id"], name="transition_of_run")]
        ordering = ["id"]


class ProjectQueue(models.Model):
    """What a project may take of the cluster. None: as much as there is."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, primary_key=True, related_name="queue")
    most_at_work = models.PositiveIntegerField(
        null=True
    )  # runs that may be submitting, starting, running, stopping
    quota_hours = models.FloatField(null=True)  # device-hours of all launched runs together
    # Defaults of the database's own, as of Dispatch below.
    share = models.FloatField(default=1.0, db_default=1.0)  # of the cluster, beside those of other projects
    steps_back = models.BooleanField(
        default=False, db_default=False
    )  # its runs, for those of higher priority


class Dispatch(models.Model):
    """Outbox: what must reach Ray Jobs. Written in the launch's transaction; Celery is only a hint."""

    class Kind(models.TextChoices):
        SUBMIT = "submit"
        STOP = "stop"
        BUDGET = "budget"  # a running attempt's budget grew: its driver finds it in the run's folder

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="dispatches")
    attempt = models.PositiveIntegerField()
    kind = models.CharField(max_length=10, choices=Kind.choices)
    created_at = models.DateTimeField(auto_now_add=True)
    claimed_until = models.DateTimeField(null=True)  # a claim that ran out may be taken over
    done_at = models.DateTimeField(null=True)
    tries = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    # Of the click that wants it: `webapp.base.task_queue`. Defaults of the database's own: a web server of the release
    # before, which does not know them, goes on writing rows.
    request_id = models.CharField(max_length=64, blank=True, default="", db_default="")
    traceparent = models.CharField(max_length=55, blank=True, default="", db_default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "attempt", "kind"], name="dispatch_once")]


class IdempotencyKey(models.Model):
    """A launch request that was answered: the same key and body give the same run, another body is refused."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    key = models.CharField(max_length=200)
    body_digest = models.CharField(max_length=64)
    run = models.ForeignKey(Run, on_delete=models.CASCADE)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "key"], name="idempotency_key_unique")]


class Record(models.Model):
    """One record as a trainer reported it. (run, attempt, seq) makes repeated batches harmless."""

    # db_index=False here and below: the unique constraint's index starts with the same column.
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="records", db_index=False)
    attempt = models.PositiveIntegerField()
    seq = models.BigIntegerField()
    step = models.BigIntegerField()
    time = models.DateTimeField()  # at the trainer
    compute = models.JSONField()  # {"device_hours", "flops", "tokens"}: cumulative, evaluation not counted
    metrics = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "attempt", "seq"], name="record_once")]
        # Pages in the order of arrival (`records_of`). Of the id alone PostgreSQL would take the primary key, and look
        # through the records of all other runs that came later.
        indexes = [models.Index(models.F("run"), models.F("id") + 0, name="records_arrival")]


class Summary(models.Model):
    """What the list shows, sorts and filters of a run without reading its records or points.

    Storing records updates it, a refit brings all of it in line with what is stored
    (`webapp.science.curves.services`).
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="summary")
    used_hours = models.FloatField(null=True)  # device-hours at the newest record
    used_attempt = models.PositiveIntegerField(default=0)
    used_seq = models.BigIntegerField(default=-1)
    pass_rate = models.FloatField(null=True)  # newest held-out evaluation
    pass_rate_stderr = models.FloatField(null=True)
    pass_rate_attempt = models.PositiveIntegerField(default=0)
    pass_rate_seq = models.BigIntegerField(default=-1)
    spark = models.JSONField(default=list)  # pass rates in the order of training, thinned
    # The forecast from the newest fit of the whole curve, before it is recalibrated. Its status; empty: none yet.
    fit_status = models.CharField(max_length=20, blank=True)
    level = models.FloatField(null=True)
    tail = models.FloatField(
        null=True
    )  # the median for compute without bound, also where it is not known yet
    ceiling = models.FloatField(null=True)  # the same, only where it is known
    ceiling_lo = models.FloatField(null=True)
    ceiling_hi = models.FloatField(null=True)
    reached = models.FloatField(
        null=True
    )  # lower end of the mean pass rate now, below which nothing is forecast


class BulkAction(models.Model):
    """One action on many runs and what became of each. The key makes a repeated request the same action."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    key = models.CharField(max_length=64)
    action = models.CharField(max_length=12)
    tag = models.CharField(max_length=40, blank=True)
    changes = models.JSONField(
        null=True
    )  # what `editing.change_run` takes; of priority: {"priority": number}
    outcomes = models.JSONField(default=list)  # [{"run", "name", "outcome", "words"}, ...]
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "key"], name="bulk_action_once")]


class Series(models.Model):
    """A metric of a run; its points are rows of Point."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="series", db_index=False)
    metric = models.CharField(max_length=250)
    # What the source of an import calls it, where it is the pass rate.
    logged_as = models.CharField(max_length=250, blank=True, default="", db_default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "metric"], name="series_unique")]

    def __str__(self) -> str:
        return self.metric


class Point(models.Model):
    """One value of a series with every x-axis beside it, so that a chart reads one narrow index range."""

    # No constraint: checking 10,000 points one by one at commit took as long as storing them, and the one statement
    # that inserts points joins their series.
    series = models.ForeignKey(
        Series, on_delete=models.CASCADE, related_name="points", db_index=False, db_constraint=False
    )
    attempt = models.PositiveIntegerField()
    seq = models.BigIntegerField()
    step = models.BigIntegerField()
    time = models.DateTimeField()
    device_hours = models.FloatField(null=True)
    flops = models.FloatField(null=True)
    tokens = models.FloatField(null=True)
    value = models.FloatField()
    stderr = models.FloatField(null=True)  # standard error of the value, where the trainer reports one

    class Meta:
        constraints = [
            # With step and value, so that a chart's sample is chosen in the index alone: `webapp.record.runs.sampling`.
            models.UniqueConstraint(
                fields=["series", "attempt", "seq"], include=["step", "value"], name="point_once"
            )
        ]
