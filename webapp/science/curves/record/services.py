"""What people do with the record: switch recalibration, and choose a part of it."""

from django.db import transaction

from webapp.identity.accounts.models import Project, User
from webapp.identity.audit.services import record
from webapp.science.curves.record.recalibrating import outcomes_of, switch


@transaction.atomic
def switch_recalibration(project: Project, *, is_on: bool, actor: User) -> bool:
    """Whether the project's intervals follow their record; whether that changed."""
    if not switch(project, is_on=is_on):
        return False
    record(
        "project.changed", actor=actor, project=project, kind="project", key=project.slug, name=project.name,
        changed={"recalibrates": [not is_on, is_on]},
    )  # fmt: skip
    return True


def choices_of(project: Project) -> tuple[list[str], list[tuple[str, str]]]:
    """Tasks, and (slug, name) of recipes, of which runs are judged. Two queries."""
    judged = outcomes_of(project).filter(why="").order_by()
    tasks = judged.values_list("run__task", flat=True).distinct()
    of = ("run__revision__recipe__slug", "run__revision__recipe__name")
    recipes = judged.filter(run__revision__isnull=False).values_list(*of).distinct()
    return sorted(tasks), sorted(recipes, key=lambda one: one[1])
