"""What of a project goes into its file: the tables, which of their rows, and what is left out or told differently.

Not in it, on purpose: tokens, links, invitations, secrets, channels of alerts and what was sent through them (whoever
has the file would have them), hand-overs to Ray and requests that were answered (of the other installation's own), and
what is worked out from the rest.

Writing a project's file: every part as of one moment, streamed, while everything goes on.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import connection, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from headroom.version import __version__
from webapp.base.errors import NotFound
from webapp.identity.accounts.models import Membership, Project, User
from webapp.identity.audit.models import Event
from webapp.identity.audit.services import record
from webapp.interfaces.tracking.models import ClientMetric, ClientRun, Group, NotFinite, Receipt
from webapp.operation.project_transfer.archive import Manifest, MovingError, writing
from webapp.record.artifacts import store
from webapp.record.artifacts.models import Artifact
from webapp.record.health.patience import missing_migrations, old_words
from webapp.record.logs.models import JobLog, LogChunk
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.retention.models import RetentionPolicy
from webapp.record.runs.models import Attempt, Point, ProjectQueue, Record, Run, Series, Summary, Transition
from webapp.record.savedviews.models import DefaultView, SavedView
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alerts.models import AlertRule
from webapp.reporting.policies.models import PolicyAction, ProjectPolicy, RunPolicy
from webapp.reporting.reports.models import Draft, Publication, Report
from webapp.science.curves.models import Fit
from webapp.science.decisions.models import Entry
from webapp.science.predictions.models import Comment, Outcome, Pending, Prediction, Review, ReviewRequest
from webapp.science.studies.models import Arm, Study, StudyRun

PROJECT_FIELDS = ("slug", "name", "ranks_forecasters", "created_at")
# With a project, and not in its file: why is said above.
LEFT_OUT = {
    "accounts.ApiToken": "a token",
    "accounts.Invitation": "a link",
    "shares.Share": "a link",
    "secrets.ProjectSecret": "a secret",
    "alerts.Channel": "its address is a secret",
    "alerts.AlertRule_channels": "goes with its channel",
    "alerts.Delivery": "goes with its channel",
    "alerts.Firing": "what people were told there",
    "alerts.Notice": "what people were told there",
    "alerts.Watch": "how far the rules there have looked; made anew",
    "runs.Dispatch": "hand-overs to the other installation's cluster",
    "runs.IdempotencyKey": "requests that the other installation answered",
    "runs.BulkAction": "answers to clicks",
    "imports.Import": "its files and credentials are there",
    "imports.ImportedRun": "goes with its import",
    "curves.KeptFigure": "worked out from the rest",
    "curves.ForecastOrigin": "forecast and judged anew from the runs",
    "curves.ForecastOutcome": "forecast and judged anew from the runs",
    "curves.Recalibration": "follows from the runs there; a project decides anew whether it wants it",
    "retention.Looked": "of folders that are there",
    "evaluations.Evaluation": "of checkpoints, which stay there",
    "samples.SampleFile": "its files lie beside the checkpoints, which stay there",
}
PEOPLE = "people"
PEOPLE_COLUMNS = ("id", "username", "email", "first_name", "last_name")


@dataclass(frozen=True)
class Part:
    """The rows of one table. `project`: the way from a row to its project, as a filter says it.

    told: column -> SQL that is stored in place of what the file says. in_order: new ids follow the old ones.
    """

    model: type[models.Model]
    project: str
    only: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, str] = field(default_factory=dict)
    in_order: bool = True

    @property
    def name(self) -> str:
        """ "runs_point": of the table, and of the part in the file."""
        return self.model._meta.db_table

    @property
    def fields(self) -> "list[models.Field[Any, Any]]":
        return [each for each in self.model._meta.local_concrete_fields if each.column]

    @property
    def columns(self) -> list[str]:
        return [str(each.column) for each in self.fields]

    @property
    def key(self) -> "models.Field[Any, Any]":
        assert self.model._meta.pk is not None
        return self.model._meta.pk

    @property
    def is_numbered(self) -> bool:
        """Whether the database counts its ids: a row has another one here than there."""
        return isinstance(self.key, models.AutoField)

    def rows(self, project: Project) -> "models.QuerySet[Any]":
        found = self.model._base_manager.filter(**{self.project: project.pk}, **self.only)
        return found.order_by("pk") if self.in_order else found.order_by()

    def people(self) -> "list[models.Field[Any, Any]]":
        """Columns that name a person."""
        return [each for each in self.fields if each.related_model is User]


PARTS = (
    Part(Membership, "project"),
    Part(Recipe, "project"),
    Part(Revision, "recipe__project"),
    Part(ProjectQueue, "project"),
    Part(ProjectPolicy, "project"),
    Part(RetentionPolicy, "project"),
    # What happened before is the past, and no rule fires of it.
    Part(AlertRule, "project", only={"owner": None}, told={"since": "now()"}),
    Part(Run, "project"),
    Part(Attempt, "run__project"),
    Part(Transition, "run__project"),
    Part(Record, "run__project"),
    Part(Summary, "run__project"),
    Part(Series, "run__project"),
    Part(Point, "series__run__project", in_order=False),
    Part(JobLog, "attempt__run__project"),
    Part(LogChunk, "log__attempt__run__project"),
    Part(
        Artifact, "run__project", told={"key": "''", "size": "0"}
    ),  # both are of the files, which come after the rows
    Part(Alarm, "run__project"),
    Part(RunPolicy, "run__project"),
    Part(PolicyAction, "run__project"),
    Part(Group, "project"),
    Part(ClientRun, "run__project"),
    Part(ClientMetric, "run__run__project"),
    Part(NotFinite, "run__run__project"),
    Part(Receipt, "run__run__project"),
    Part(Fit, "run__project"),
    Part(Study, "project"),
    Part(Arm, "study__project"),
    Part(StudyRun, "study__project"),
    Part(Prediction, "project"),
    Part(ReviewRequest, "prediction__project"),
    Part(Review, "prediction__project"),
    Part(Comment, "prediction__project"),
    Part(Comment.mentions.through, "comment__prediction__project"),
    Part(Outcome, "prediction__project"),
    Part(Pending, "prediction__project"),
    Part(Entry, "project"),
    Part(Report, "project"),
    Part(Draft, "report__project"),
    Part(Publication, "report__project"),
    Part(SavedView, "project"),
    Part(DefaultView, "project"),
    Part(Event, "project"),
)
PARTS_BY_MODEL = {part.model: part for part in PARTS}


def people_rows(project: Project) -> "models.QuerySet[User]":
    """Everybody whom a row of the project names."""
    found = models.Q(pk__in=[])
    for part in PARTS:
        for column in part.people():
            ids = part.rows(project).order_by().annotate(person=models.F(column.attname)).values("person")
            found |= models.Q(pk__in=ids)
    return User.objects.filter(found).order_by("pk")


def export_project(project: Project, path: Path) -> Manifest:
    """Raises MovingError; nothing is left of the file then."""
    if missing := missing_migrations():
        raise MovingError(old_words(missing))
    with writing(path) as writer, transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        project = Project.objects.get(pk=project.pk)
        for part in PARTS:
            rows = part.rows(project).values_list(*(each.attname for each in part.fields))
            writer.part(part.name, part.columns, _copied(rows))
        for artifact in Artifact.objects.filter(run__project=project).iterator():
            with (
                suppress(NotFound),
                store.open_file(artifact) as source,
            ):  # gone: replaced or deleted meanwhile
                writer.content(artifact.sha256, source)
        people = people_rows(project).values_list(*PEOPLE_COLUMNS)
        writer.part(PEOPLE, list(PEOPLE_COLUMNS), _copied(people))
        manifest = Manifest(
            made_at=timezone.now().isoformat(timespec="seconds"),
            version=__version__,
            migrations=sorted(".".join(key) for key in MigrationLoader(connection).applied_migrations),
            project={name: _plain(getattr(project, name)) for name in PROJECT_FIELDS},
            parts=writer.parts,
        )
        writer.manifest(manifest)
    record(
        "project.exported", actor=None, project=project, kind="project", key=project.slug, name=project.name,
        runs=manifest.parts["runs_run"].rows, points=manifest.parts["runs_point"].rows,
    )  # fmt: skip
    return manifest


def _copied(rows: "models.QuerySet") -> Iterator[bytes | memoryview]:
    sql, values = rows.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL timezone = 'UTC'")
        with cursor.copy(f"COPY ({sql}) TO STDOUT", values or None) as copy:
            yield from copy


def _plain(value: object) -> object:
    return value if isinstance(value, (str, bool)) else str(value)
