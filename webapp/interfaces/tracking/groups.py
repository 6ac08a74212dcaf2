"""Groups of runs, as MLflow's experiments and trackio's projects make them. Who may, the callers have checked."""

from collections.abc import Mapping

from django.db import IntegrityError, transaction
from django.utils import timezone

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project
from webapp.interfaces.tracking.models import Group

DEFAULT = "Default"  # MLflow's experiment 0
MAX_NAME = 500


def create_group(project: Project, name: str, *, tags: Mapping[str, str] | None = None) -> Group:
    """Raises InvalidInput (name), and Conflict (name) where there is one."""
    check_name(name)
    try:
        with transaction.atomic():
            return Group.objects.create(project=project, name=name, tags=dict(tags or {}))
    except IntegrityError:
        raise Conflict(f"There is already an experiment named {name!r}.", field="name") from None


def ensure_group(project: Project, name: str) -> Group:
    """The project's group of this name, made where it is missing. Raises InvalidInput (name)."""
    found = Group.objects.filter(project=project, name=name).first()
    if found is not None:
        return found
    try:
        return create_group(project, name)
    except Conflict:  # somebody else was first
        return Group.objects.get(project=project, name=name)


def rename_group(group: Group, name: str) -> Group:
    """Raises InvalidInput and Conflict (name)."""
    check_name(name)
    try:
        with transaction.atomic():
            group.name = name
            group.save(update_fields=["name", "changed_at"])
    except IntegrityError:
        raise Conflict(f"There is already an experiment named {name!r}.", field="new_name") from None
    return group


def set_deleted(group: Group, is_deleted: bool) -> None:
    """Hide it from clients, or show it again; its runs stay as they are."""
    Group.objects.filter(pk=group.pk, deleted_at__isnull=is_deleted).update(
        deleted_at=timezone.now() if is_deleted else None, changed_at=timezone.now()
    )


@transaction.atomic
def set_group_tags(group: Group, tags: Mapping[str, str | None]) -> None:
    """None takes one away."""
    here = Group.objects.select_for_update().get(pk=group.pk)
    kept = here.tags | dict(tags)
    here.tags = {name: value for name, value in kept.items() if value is not None}
    here.save(update_fields=["tags", "changed_at"])


def check_name(name: str) -> None:
    """Raises InvalidInput (name)."""
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidInput("name", f"name must have 1 to {MAX_NAME} printable characters.")
