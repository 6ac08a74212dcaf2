"""Studies: what they are called, and whether the list still shows them. Runs and results are never touched by this."""

from django.db import transaction
from django.utils import timezone

from webapp.base.errors import Conflict
from webapp.identity.accounts.models import User
from webapp.science.studies.models import Study
from webapp.science.studies.services import checked_name, record_change


@transaction.atomic
def rename_study(study: Study, name: str, *, was: str, user: User) -> bool:
    """Call a study `name` that was called `was` when the person looked; False where it has the name already.

    Raises InvalidInput (field name), and Conflict where somebody
    else gave it another name meanwhile.
    """
    title = checked_name(name)
    found = Study.objects.select_for_update().select_related("project").get(pk=study.pk)
    if found.name == title:
        return False
    if found.name != was:
        raise Conflict(f"Somebody renamed this study to “{found.name}” meanwhile.", field="name")
    Study.objects.filter(pk=study.pk).update(name=title)
    found.name = title
    record_change("study.renamed", found, user, was=was)
    return True


@transaction.atomic
def archive_study(study: Study, *, user: User) -> bool:
    """Hide a study from the list; its page, runs and results stay. False where it was archived before."""
    changed = Study.objects.filter(pk=study.pk, archived_at=None).update(archived_at=timezone.now())
    if changed:
        record_change("study.archived", study, user)
    return bool(changed)


@transaction.atomic
def unarchive_study(study: Study, *, user: User) -> bool:
    """List a study again; False where it was listed."""
    changed = Study.objects.filter(pk=study.pk, archived_at__isnull=False).update(archived_at=None)
    if changed:
        record_change("study.unarchived", study, user)
    return bool(changed)
