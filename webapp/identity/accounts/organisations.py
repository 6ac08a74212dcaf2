"""Organisations with their owners, and projects made and named by people."""

import re
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q

from webapp.base.errors import Conflict, InvalidInput, NotFound
from webapp.identity.accounts.models import Organisation, Project, Role, User
from webapp.identity.accounts.services import create_project, set_role
from webapp.identity.audit.services import record

MOST_METRICS = 1_000_000  # of a run, whatever its project wants

SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,48}[a-z0-9])?")
MAX_NAME = 100


@transaction.atomic
def found_organisation(*, slug: str, name: str, owner: User) -> Organisation:
    """A new organisation, without projects, of one owner: for the operator of the installation.

    Raises InvalidInput (slug, name), Conflict (slug) where it is taken.
    """
    slug, name = checked_slug(slug), checked_name(name)
    try:
        with transaction.atomic():
            organisation = Organisation.objects.create(slug=slug, name=name)
    except IntegrityError:
        raise Conflict(f"There is an organisation {slug} already.", field="slug") from None
    organisation.owners.add(owner)
    _record("organisation.created", organisation, None, slug, name, owner=owner.username)
    return organisation


@transaction.atomic
def found_project(organisation: Organisation, *, slug: str, name: str, actor: User) -> Project:
    """A new project of the organisation, with the shipped recipes; who makes it is its first admin.

    Raises InvalidInput (slug, name), Conflict (slug) where it is taken.
    """
    project = create_project(slug=checked_slug(slug), name=checked_name(name), organisation=organisation)
    set_role(project, actor, Role.ADMIN)
    record(
        "project.created", actor=actor, project=project, kind="project", key=project.slug, name=project.name
    )
    return project


@transaction.atomic
def change_project(
    project: Project, *, name: str, ranks_forecasters: bool, actor: User, max_metrics: int | None = None
) -> None:
    """Its name, whether it shows a leaderboard of forecasters, and how many metrics a run may have (None: as before).

    Raises InvalidInput (name, max_metrics).
    """
    wanted: dict[str, Any] = {"name": checked_name(name), "ranks_forecasters": ranks_forecasters}
    if max_metrics is not None:
        if not 1 <= max_metrics <= MOST_METRICS:
            raise InvalidInput(
                "max_metrics", f"max_metrics must be a whole number from 1 to {MOST_METRICS:,}."
            )
        wanted["max_metrics"] = max_metrics
    stored = Project.objects.select_for_update().get(pk=project.pk)
    before = {key: getattr(stored, key) for key in wanted}
    if wanted == before:
        return
    Project.objects.filter(pk=project.pk).update(**wanted)
    record(
        "project.changed", actor=actor, project=project, kind="project", key=project.slug, name=wanted["name"],
        changed={key: [before[key], wanted[key]] for key in wanted if before[key] != wanted[key]},
    )  # fmt: skip


@transaction.atomic
def rename_organisation(organisation: Organisation, *, name: str, actor: User) -> None:
    """Raises InvalidInput (name)."""
    name = checked_name(name)
    if not Organisation.objects.filter(pk=organisation.pk).exclude(name=name).update(name=name):
        return
    _record("organisation.renamed", organisation, actor, organisation.slug, name, before=organisation.name)


@transaction.atomic
def add_owner(organisation: Organisation, *, username: str, actor: User) -> User:
    """Make a member of one of its projects an owner. Safe to repeat.

    Raises InvalidInput (username) for who is in none of its projects.
    """
    people = User.objects.filter(projects__organisation=organisation, is_active=True).distinct()
    user = people.filter(username=username.strip()).first()
    if user is None:
        raise InvalidInput("username", "No member of this organisation's projects has this name.")
    _lock(organisation)
    if not organisation.owners.filter(pk=user.pk).exists():
        organisation.owners.add(user)
        _record("organisation.owner_added", organisation, actor, user.pk, user.username)
    return user


def person_of(organisation: Organisation, user_id: int) -> User:
    """Another owner, or a member of a project. Raises NotFound for anybody else, who is not named."""
    known = Q(owned_organisations=organisation) | Q(projects__organisation=organisation)
    user = User.objects.filter(known, pk=user_id).distinct().first() if user_id < 2**63 else None
    if user is None:
        raise NotFound("There is no such person in this organisation.")
    return user


@transaction.atomic
def remove_owner(organisation: Organisation, *, user: User, actor: User) -> None:
    """From now on the person is in the organisation's projects what their roles say, no more.

    Raises NotFound where the user is no owner, Conflict for the last owner.
    """
    _lock(organisation)
    if not organisation.owners.filter(pk=user.pk).exists():
        raise NotFound(f"{user} is no owner of this organisation.")
    if not organisation.owners.filter(is_active=True).exclude(pk=user.pk).exists():
        raise Conflict(f"{user} is the organisation's last owner: make somebody else an owner first.")
    organisation.owners.remove(user)
    _record("organisation.owner_removed", organisation, actor, user.pk, user.username)


def checked_name(name: str) -> str:
    """Of a project or an organisation, with single spaces. Raises InvalidInput (name)."""
    text = " ".join(name.split())
    if not 1 <= len(text) <= MAX_NAME or not text.isprintable():
        raise InvalidInput("name", f"A name has 1 to {MAX_NAME} printable characters.")
    return text


def checked_slug(slug: str) -> str:
    """Raises InvalidInput (slug)."""
    text = slug.strip()
    if not SLUG.fullmatch(text):
        raise InvalidInput("slug", "A slug has 1 to 50 characters: a-z, 0-9 and hyphens between them.")
    return text


def _lock(organisation: Organisation) -> None:
    Organisation.objects.select_for_update().get(pk=organisation.pk)


def _record(
    verb: str, organisation: Organisation, actor: User | None, key: object, name: str, **detail: Any
) -> None:
    kind = "owner" if verb.startswith("organisation.owner") else "organisation"
    record(verb, actor=actor, organisation=organisation, kind=kind, key=key, name=name, **detail)
