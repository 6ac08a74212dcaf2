"""People, organisations, projects with their members, and API tokens.

What other parts of the server do when something happens here: they connect to these signals.
"""

from datetime import datetime

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.dispatch import Signal


class User(AbstractUser):
    """A person who signs in."""


class Organisation(models.Model):
    """Whose projects these are. Its owners make projects and are admins of all of them."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=100)
    owners = models.ManyToManyField(User, related_name="owned_organisations")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


MAX_METRICS = 10_000


class Project(models.Model):
    """What recipes and runs belong to. Its members see them and do what their role allows (`permissions`)."""

    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="projects")
    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=100)
    members = models.ManyToManyField(User, related_name="projects", through="Membership")
    ranks_forecasters = models.BooleanField(default=False)  # shows a leaderboard of people
    # What came with Headroom: every account may view it, nobody more. A default of the database's own: a server of the
    # release before goes on making projects.
    is_example = models.BooleanField(default=False, db_default=False)
    # Series that a run may have: what is reported under further names stays in its records.
    max_metrics = models.PositiveIntegerField(default=MAX_METRICS, db_default=MAX_METRICS)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    """What a member may do; each role includes the ones before it (`webapp.identity.accounts.permissions`)."""

    VIEWER = "viewer"
    CONTRIBUTOR = "contributor"
    LAUNCHER = "launcher"
    REVIEWER = "reviewer"
    ADMIN = "admin"


class Membership(models.Model):
    """A person in a project, in one role."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=12, choices=Role.choices, default=Role.VIEWER, db_default=Role.VIEWER)

    class Meta:
        db_table = "accounts_project_members"  # the table from before members had roles
        unique_together = [("project", "user")]


class Invitation(models.Model):
    """A link that makes whoever has it a member of one project, once. The link is stored as its SHA-256 only."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=12, choices=Role.choices)
    email = models.EmailField(blank=True)
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, related_name="invitations_made"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    accepted_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, related_name="invitations_accepted"
    )
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]

    def state_at(self, moment: datetime) -> str:
        """ "open", "accepted", "revoked" or "expired"."""
        if self.accepted_at is not None:
            return "accepted"
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at <= moment else "open"


class Scope(models.TextChoices):
    """What a token may do; each includes the ones before it."""

    READ = "read"
    WRITE = "write"
    LAUNCH = "launch"


class ApiToken(models.Model):
    """A bearer token, stored as its SHA-256 only. With `run` set it may write that one run's records, nothing else.

    A job's token is that of one `attempt`: it dies with it, not with the run, which a later attempt may go on with.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens", null=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tokens")
    run = models.ForeignKey("runs.Run", on_delete=models.CASCADE, related_name="tokens", null=True)
    attempt = models.PositiveIntegerField(null=True)  # of the run: never more than this one's records
    name = models.CharField(max_length=80, blank=True)  # what it is for, in its owner's words
    scope = models.CharField(max_length=10, choices=Scope.choices)
    expires_at = models.DateTimeField(null=True)  # None: never
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    role: Role | None = None  # its owner's, where `services.authenticate` found it


project_created = Signal()  # project: the new one; inside the transaction that makes it
noticed = Signal()  # user, project, kind, text, url: somebody is to be told


def notify(user: User, *, project: Project, kind: str, text: str, url: str) -> None:
    """Tell a person something. `kind` is what a rule of theirs may turn off; `url` is a path of this server."""
    noticed.send(type(user), user=user, project=project, kind=kind, text=text, url=url)
