"""What commands share: a refusal is one line, and arguments name people, projects and organisations."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.base.errors import ServiceError
from webapp.identity.accounts.models import Organisation, Project, User
from webapp.identity.accounts.services import DEFAULT_ORGANISATION, default_organisation


class OperatorCommand(BaseCommand):
    """What a service refuses is said in one line, with status 1."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except ServiceError as error:
            raise CommandError(error.message) from error


def user_named(username: str) -> User:
    """Raises CommandError where there is none."""
    user = User.objects.filter(username=username).first()
    if user is None:
        raise CommandError(f"there is no user {username!r}")
    return user


def project_named(slug: str) -> Project:
    """Raises CommandError where there is none."""
    project = Project.objects.filter(slug=slug).first()
    if project is None:
        raise CommandError(f"there is no project {slug!r}")
    return project


def organisation_named(slug: str) -> Organisation:
    """The default one is made when it is first named. Raises CommandError where there is none."""
    if slug == DEFAULT_ORGANISATION:
        return default_organisation()
    found = Organisation.objects.filter(slug=slug).first()
    if found is None:
        raise CommandError(f"there is no organisation {slug!r}")
    return found
