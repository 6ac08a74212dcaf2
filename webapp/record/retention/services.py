"""Cleaning up, in bounded steps, and setting what may go. The worker calls `clean_up` and `watch_disk`."""

import logging
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from webapp.base.disk import Disk, bytes_in_words, disk_now, low_words
from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Membership, Organisation, Project, Role, User, notify
from webapp.identity.audit.services import record
from webapp.record.retention import folders
from webapp.record.retention.models import DiskWatch, Looked, RetentionPolicy
from webapp.record.retention.selectors import (
    ended_runs,
    is_disk_low,
    not_lately_looked_at,
    policy_of,
    size_of,
)
from webapp.record.runs.models import Run
from webapp.record.runs.states import ENDED, record_run

log = logging.getLogger(__name__)

MOST_RUNS = 50  # looked at in a step, of each project
STEP_SECONDS = 30.0
STILL_WRITTEN = timedelta(minutes=10)  # a folder that changed lately is somebody's, whatever the run's state
RELIEF = 1.1  # times what must stay free: then the disk is no longer low
MAX_NEWEST, MAX_DAYS = 100, 3650


@transaction.atomic
def set_policy(
    project: Project, *, enabled: bool, keep_newest: int, checkpoint_days: int, log_days: int, under_pressure: bool,
    user: User,
) -> None:  # fmt: skip
    """What may go of the project's ended runs, from the next step on. Raises InvalidInput."""
    if not 1 <= keep_newest <= MAX_NEWEST:
        raise InvalidInput("keep_newest", f"keep_newest must be from 1 to {MAX_NEWEST}.")
    for name, days, least in (("checkpoint_days", checkpoint_days, 1), ("log_days", log_days, 0)):
        if not least <= days <= MAX_DAYS:
            raise InvalidInput(name, f"{name} must be from {least} to {MAX_DAYS:,}.")
    wanted = {
        "enabled": enabled, "keep_newest": keep_newest, "checkpoint_days": checkpoint_days, "log_days": log_days,
        "under_pressure": under_pressure,
    }  # fmt: skip
    before = policy_of(project)
    changed = {
        key: [getattr(before, key), wanted[key]] for key in wanted if getattr(before, key) != wanted[key]
    }
    if not changed:
        return
    RetentionPolicy.objects.update_or_create(project=project, defaults=wanted | {"changed_by": user})
    Looked.objects.filter(run__project=project).delete()  # other rules: everything is looked at again
    record(
        "retention.changed", actor=user, project=project, kind="project", key=project.slug, name=project.name,
        changed=changed,
    )  # fmt: skip


def clean_up(seconds: float = STEP_SECONDS) -> int:
    """One step: some runs of each project whose policy is enabled, and what earlier steps took away; returns how many
    checkpoints went. Safe to repeat, and to interrupt anywhere."""
    until = time.monotonic() + seconds
    _delete_taken(until)
    count = 0
    for policy in RetentionPolicy.objects.filter(enabled=True).select_related("project"):
        folders.drop_old_logs(policy.project, policy, timezone.now())
        folders.drop_old_samples(policy.project, policy, timezone.now())
        count += _clean_project(policy, until)
    _delete_taken(until)
    return count


def _clean_project(policy: RetentionPolicy, until: float) -> int:
    """Where the disk is low, runs are looked at again that were looked at before, the oldest first, until it is not."""
    now, is_low = timezone.now(), is_disk_low()
    runs = ended_runs(policy.project)
    if not (is_low and policy.under_pressure):
        runs = not_lately_looked_at(runs, now)
    count = 0
    for run in runs[:MOST_RUNS] if not is_low else runs.iterator(chunk_size=100):
        if time.monotonic() > until:
            break
        taken = clean_run(run, policy, is_low=is_low)
        count += len(taken)
        if taken and is_low:
            _delete_taken(until)
            if not (is_low := watch_disk()):
                break
    return count


def clean_run(run: Run, policy: RetentionPolicy, *, is_low: bool) -> list[folders.Going]:
    """Take away what may go of one run of `ended_runs`; returns it.

    Under a lock of the run's row: a resume that is asked for meanwhile waits, and finds a folder that does not change
    any more. A run that is no longer as it was found is left alone.
    """
    now = timezone.now()
    is_written = now.timestamp() - folders.newest_change(run.pk) < STILL_WRITTEN.total_seconds()
    try:
        there = [] if is_written else folders.checkpoints_of(run.pk)
        found = folders.going(run, there, policy, now, is_low=is_low)
        with transaction.atomic():
            held = Run.objects.select_for_update().filter(
                pk=run.pk, state__in=ENDED, attempt_number=run.attempt_number, tags=run.tags
            )
            if not held.exists():
                return []
            for one in found:
                folders.take_away(run.pk, one.kept)
            if run.ended_at is not None and now - run.ended_at > folders.LOST_GRACE:
                folders.remove_logs(run.pk)
            _note(run, found)
            if not is_written:
                gone = {one.kept.folder for one in found}
                left = [kept for kept in there if kept.folder not in gone]
                is_empty = not folders.could_ever_go(run, left)
                Looked.objects.update_or_create(run_id=run.pk, defaults={"at": now, "is_empty": is_empty})
    except OSError as error:
        log.warning("clean-up of run %s: %s", run.pk, error)
        return []
    return found


def _note(run: Run, found: Sequence[folders.Going]) -> None:
    if not found:
        return
    steps = [one.kept.step for one in found if one.kept.step is not None]
    record_run(
        "run.checkpoints_removed", run, None, steps=", ".join(map(str, steps)) or "none",
        why=", ".join(sorted({one.why for one in found})), size=bytes_in_words(size_of(found)), bytes=size_of(found),
    )  # fmt: skip


def _delete_taken(until: float) -> None:
    """Here first, for the room; what the checkpoint store does not give up now is asked for again in the next step."""
    is_store_there = True
    for folder in folders.taken_away():
        if time.monotonic() > until:
            return
        folders.empty(folder)
        is_store_there = is_store_there and folders.remove_copy(folder)
        if is_store_there:
            folders.delete(folder)


# --- the disk -------------------------------------------------------------------------------------------------


def watch_disk() -> bool:
    """Look at the disk, write it down, and tell admins once when it has become low. Whether it is low."""
    if (disk := disk_now()) is None:
        return is_disk_low()
    now = timezone.now()
    DiskWatch.objects.bulk_create(
        [DiskWatch(pk=1, at=now, free=disk.free, total=disk.total)],
        update_conflicts=True, unique_fields=["id"], update_fields=["at", "free", "total"],
    )  # fmt: skip
    watch = DiskWatch.objects.filter(pk=1)
    if disk.is_low:
        with transaction.atomic():
            if watch.filter(low_since=None).update(low_since=now):
                _tell_admins(disk)
        return True
    if disk.free > RELIEF * disk.least:
        watch.exclude(low_since=None).update(low_since=None)
        return False
    return watch.exclude(low_since=None).exists()


def _tell_admins(disk: Disk) -> None:
    """Each person once, in the first project of which they are an admin."""
    told: set[int] = set()
    for user, project in _admins():
        if user.pk not in told:
            told.add(user.pk)
            notify(user, project=project, kind="disk", text=low_words(disk), url=reverse("status"))


def _admins() -> Iterable[tuple[User, Project]]:
    rows = Membership.objects.filter(role=Role.ADMIN, user__is_active=True).select_related("user", "project")
    yield from ((row.user, row.project) for row in rows.order_by("project_id", "user_id"))
    owned = Organisation.objects.filter(~Q(projects=None)).prefetch_related("owners", "projects").distinct()
    for organisation in owned:
        first = min(organisation.projects.all(), key=lambda project: project.pk)
        yield from ((owner, first) for owner in organisation.owners.all() if owner.is_active)
