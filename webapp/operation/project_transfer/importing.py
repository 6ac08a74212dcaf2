"""Putting a project's file into this installation: all of it in one transaction, or nothing.

Who somebody of another installation is here.

The same person: who has the same user name and no other e-mail address, else the only account with the same address.
Everybody else whose name stands under something keeps it as an account that cannot sign in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from webapp.base import disk
from webapp.base.errors import ServiceError
from webapp.identity.accounts.models import Membership, Organisation, Project, User
from webapp.identity.accounts.services import checked_name, checked_slug
from webapp.identity.audit.models import Event
from webapp.identity.audit.services import record
from webapp.operation.project_transfer import archive, staging, tables
from webapp.operation.project_transfer.archive import Manifest, MovingError, Reader
from webapp.record.artifacts import store
from webapp.record.artifacts.models import Artifact
from webapp.record.health.patience import lacking_of, missing_migrations, named, old_words, unknown_of
from webapp.record.runs.models import State
from webapp.record.runs.states import ACTIVE, INSTALLATION

LONGEST = 150  # characters of a user name
KEPT_IDS = {
    "runs_run": "The run",
    "predictions_prediction": "The prediction",
    "studies_study": "The study",
    "decisions_entry": "The decision",
    "reports_report": "The report",
}
WENT_ON = "It was not ended when its project was exported; what came of it is in the other installation."
# What had not ended is not at work here, whatever it does there; and no failure of there is retried on this cluster.
STOP = f"""
UPDATE "staged_{{table}}" SET state = '{State.CANCELLED}', {{words}} = %s, ended_at = coalesce(ended_at, %s)
WHERE state = ANY(%s)
"""  # nosec B608  # constants and names of code; values are parameters
TELL = f"""
INSERT INTO staged_runs_transition (id, run_id, attempt, from_state, to_state, at, part, reason)
SELECT coalesce((SELECT max(id) FROM staged_runs_transition), 0) + row_number() OVER (ORDER BY id),
    id, attempt_number, state, '{State.CANCELLED}', %s, '{INSTALLATION}', %s
FROM staged_runs_run WHERE state = ANY(%s)
"""  # nosec B608  # constants and names of code; values are parameters
NO_RETRY = f"""
UPDATE staged_runs_run SET retry_limit = 0
WHERE state IN ('{State.FAILED}', '{State.LOST}') AND ended_at > now() - interval '1 day'
"""  # nosec B608  # constants and names of code; values are parameters
SEEN = """
INSERT INTO alerts_watch (run_id, version, newest_fit, checked_at)
SELECT r.id, r.version, coalesce((SELECT max(f.id) FROM curves_fit AS f WHERE f.run_id = r.id), 0), now()
FROM runs_run AS r WHERE r.project_id = %s
"""


@dataclass(frozen=True)
class Person:
    """As the file names them."""

    id: int
    username: str
    email: str
    first_name: str
    last_name: str


@dataclass(frozen=True)
class Match:
    """`here` is None for who is not here. made: their name is kept by a new account that cannot sign in."""

    person: Person
    here: User | None
    made: bool = False


def match(people: Iterable[Person], named: Mapping[str, str]) -> list[Match]:
    """`named`: user name there -> user name here, as the operator says it. Raises MovingError for a name that is not in
    the file, or has no account here."""
    found = list(people)
    if unknown := sorted(named.keys() - {person.username for person in found}):
        raise MovingError(f"--person {unknown[0]}: nobody in the file has this user name.")
    here = {person.id: _named(person, named) for person in found}
    for of in (_by_name, _by_address):  # nobody here is two people there
        for person in found:
            if here[person.id] is None:
                taken = {user.pk for user in here.values() if user is not None}
                here[person.id] = of(person, User.objects.exclude(pk__in=taken))
    return [Match(person, here[person.id]) for person in found]


def keep_name(person: Person, project: str) -> User:
    """A new account that cannot sign in: under the same user name, or under "NAME-of-PROJECT" where that is taken."""
    taken = set(User.objects.filter(username__startswith=person.username).values_list("username", flat=True))
    names = [person.username, *(f"{person.username}-of-{project}{i}" for i in ("", *range(2, 1000)))]
    username = next(name for name in names if name not in taken)
    if len(username) > LONGEST:
        raise MovingError(
            f"The user name {person.username} is taken here and too long for another: use --person."
        )
    user = User(
        username=username, email=person.email, first_name=person.first_name, last_name=person.last_name,
        is_active=False,
    )  # fmt: skip
    user.set_unusable_password()
    user.save()
    return user


def _named(person: Person, named: Mapping[str, str]) -> User | None:
    if person.username not in named:
        return None
    if (user := User.objects.filter(username=named[person.username]).first()) is None:
        raise MovingError(f"--person {person.username}: there is no account {named[person.username]} here.")
    return user


def _by_name(person: Person, others: QuerySet[User]) -> User | None:
    user = others.filter(username=person.username).first()
    if user is None or (user.email and person.email and user.email.lower() != person.email.lower()):
        return None
    return user


def _by_address(person: Person, others: QuerySet[User]) -> User | None:
    same = list(others.filter(email__iexact=person.email)[:2]) if person.email else []
    return same[0] if len(same) == 1 else None


@dataclass(frozen=True)
class Imported:
    """What came of a file. stopped: runs that had not ended there."""

    project: Project
    manifest: Manifest
    people: list[Match]
    stopped: int


def import_project(
    path: Path, organisation: Organisation, *, slug: str | None = None, named: Mapping[str, str] | None = None
) -> Imported:
    """Raises MovingError; the database is as it was then."""
    with archive.reading(path) as reader:
        _check_schema(path, reader.manifest)
        reader.check_parts(
            {part.name: part.columns for part in tables.PARTS} | {tables.PEOPLE: list(tables.PEOPLE_COLUMNS)}
        )
        try:
            with transaction.atomic():
                return _import(reader, organisation, slug, named or {})
        except ServiceError as error:
            raise MovingError(f"{path}: {error.message}") from error


def _import(
    reader: Reader, organisation: Organisation, slug: str | None, named: Mapping[str, str]
) -> Imported:
    manifest, digest = reader.manifest, disk.sha256(reader.path)
    staging.execute("SET LOCAL timezone = 'UTC'")
    staging.execute("SET LOCAL statement_timeout = 0")
    project = _project(reader, organisation, slug, digest)
    for part in tables.PARTS:
        _load(reader, part.name, staging.staged(part), part.columns, part.name)
    _load(reader, tables.PEOPLE, f"staged_{tables.PEOPLE}", list(tables.PEOPLE_COLUMNS), "accounts_user")
    for part in tables.PARTS:
        staging.check_inside(part)
        if part.name in KEPT_IDS:
            staging.check_free(part, KEPT_IDS[part.name])
    matches = _people(project, named)
    stopped = _stop(manifest)
    for part in tables.PARTS:
        if staging.has_numbers(part):
            staging.number_rows(part)
    for part in tables.PARTS:
        try:
            staging.insert(part, project)
        except DatabaseError as error:
            raise _refused(reader, part.name, error) from error
    _keep_files(reader, project)
    staging.execute(SEEN, project.pk)
    _check_constraints(reader)
    record(
        "project.imported", actor=None, project=project, kind="project", key=project.slug, name=project.name,
        sha256=digest, made_at=manifest.made_at, slug_there=manifest.project["slug"],
    )  # fmt: skip
    return Imported(project, manifest, matches, stopped)


def _check_schema(path: Path, manifest: Manifest) -> None:
    """The tables of there and here must be the same."""
    if missing := missing_migrations():
        raise MovingError(old_words(missing))
    if unknown := unknown_of(manifest.migrations):
        raise MovingError(
            f"{path} was made by a newer Headroom ({manifest.version}): it has {named(unknown)}, unknown here. Upgrade "
            "this installation, then import it."
        )
    if lacking := lacking_of(manifest.migrations):
        raise MovingError(
            f"{path} was made by an older Headroom ({manifest.version}): it lacks {named(lacking)}. Upgrade the "
            "installation that it comes from, and export it again."
        )


def _project(reader: Reader, organisation: Organisation, slug: str | None, digest: str) -> Project:
    said = reader.manifest.project
    try:
        wanted, name = checked_slug(slug or said["slug"]), checked_name(said["name"])
        ranks, created_at = bool(said["ranks_forecasters"]), parse_datetime(said["created_at"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MovingError(f"{reader.path}: what the manifest says of the project is not whole.") from error
    if Project.objects.filter(slug=wanted).exists():
        same = Event.objects.filter(
            verb="project.imported", project__slug=wanted, detail__sha256=digest
        ).first()
        if same is not None:
            raise MovingError(
                f"The project {wanted} was imported from this very file on {same.at:%-d %B %Y}."
            )
        raise MovingError(f"There is a project {wanted} here already: name another with --slug.")
    project = Project.objects.create(
        slug=wanted, name=name, organisation=organisation, ranks_forecasters=ranks
    )
    if created_at is not None:
        Project.objects.filter(pk=project.pk).update(created_at=created_at)
    return project


def _load(reader: Reader, part: str, name: str, columns: list[str], like: str) -> None:
    try:
        rows = staging.load(name, columns, like, reader.part(part))
    except (DatabaseError, UnicodeError) as error:
        raise _refused(reader, part, error) from error
    if rows != reader.manifest.parts[part].rows:
        raise MovingError(
            f"{reader.path}: the part {part} has {rows:,} rows where the manifest says "
            f"{reader.manifest.parts[part].rows:,}."
        )


def _people(project: Project, chosen: Mapping[str, str]) -> list[Match]:
    """Who is who; names under something are kept by accounts that cannot sign in, members who are not here go."""
    found = match([Person(*row) for row in staging.people_rows()], chosen)
    needed = staging.people_named(part for part in tables.PARTS if part.model is not Membership)
    done = [
        Match(one.person, keep_name(one.person, project.slug), made=True)
        if one.here is None and one.person.id in needed
        else one
        for one in found
    ]
    members = [one.person.id for one in done if one.here is not None and not one.made]
    staging.execute("DELETE FROM staged_accounts_project_members WHERE NOT user_id = ANY(%s)", members)
    staging.map_people((one.person.id, one.here.pk) for one in done if one.here is not None)
    return done


def _stop(manifest: Manifest) -> int:
    """How many runs had not ended."""
    states, now = sorted(ACTIVE), parse_datetime(manifest.made_at) or timezone.now()
    staging.execute(NO_RETRY)
    told = staging.execute(TELL, now, WENT_ON, states)
    staging.execute(STOP.format(table="runs_attempt", words="message"), WENT_ON, now, states)
    staging.execute(STOP.format(table="runs_run", words="state_reason"), WENT_ON, now, states)
    return told


def _keep_files(reader: Reader, project: Project) -> None:
    """The contents of the artifacts; one that did not come has no row either."""
    for artifact in Artifact.objects.filter(run__project=project):
        with reader.content(artifact.sha256) as source:
            if source is None:
                artifact.delete()
                continue
            file = store.receive(project, artifact.path, source.read)
        if file.sha256 != artifact.sha256:
            file.file.unlink()
            raise MovingError(
                f"{reader.path} was changed or damaged: {artifact.path} is another file than it was."
            )
        store.keep(artifact.run, artifact.path, file)
        Artifact.objects.filter(pk=artifact.pk).update(created_at=artifact.created_at)


def _check_constraints(reader: Reader) -> None:
    """Now, so that what is wrong is said here and not when the transaction commits."""
    try:
        staging.execute("SET CONSTRAINTS ALL IMMEDIATE")
        staging.execute("SET CONSTRAINTS ALL DEFERRED")
    except IntegrityError as error:
        raise MovingError(f"{reader.path}: its parts do not fit each other: {_line(error)}.") from error


def _refused(reader: Reader, part: str, error: Exception) -> MovingError:
    return MovingError(f"{reader.path}: the part {part} cannot be stored: {_line(error)}.")


def _line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
