"""Reading imports, of one project."""

from django.db.models import Count, QuerySet

from webapp.base.errors import NotFound
from webapp.identity.accounts.models import Project
from webapp.interfaces.imports.models import OPEN, Import, ImportedRun


def imports_of(project: Project) -> QuerySet[Import]:
    """Newest first, each with `runs_made`."""
    rows = Import.objects.filter(project=project).select_related("user").order_by("-created_at", "id")
    return rows.annotate(runs_made=Count("imported"))


def import_by_id(project: Project, import_id: str) -> Import:
    """Raises NotFound, also for imports of other projects."""
    found = imports_of(project).filter(pk=import_id).first()
    if found is None:
        raise NotFound(f"There is no import {import_id}.")
    return found


def runs_in(one: Import) -> QuerySet[ImportedRun]:
    """The runs that it filled, in the order of the source."""
    rows = one.imported.select_related("run").order_by("id")
    return rows.only(
        "rows_done", "rows_stored", "is_done", "is_broken", "source_id", "run__id", "run__name", "run__state"
    )


def any_open(project: Project) -> bool:
    return Import.objects.filter(project=project, state__in=OPEN).exists()
