"""A run that trains elsewhere is deleted, for a day not for good."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.launching import tracked_run
from webapp.base.errors import Conflict, NotFound
from webapp.record.runs import bulk, ingest, lifecycle, selectors
from webapp.record.runs.editing import UNDO, delete_run, purge, restore_run
from webapp.record.runs.filtering import compile_filter
from webapp.record.runs.models import Point, Record, Run
from webapp.record.runs.points import effective_points


@pytest.fixture
def ended(tracked, make_record):
    """With three records, and ended."""
    ingest.store_records(tracked, [make_record(step, {"eval/pass_rate": step / 10}) for step in range(3)])
    return lifecycle.report_finished(tracked, attempt=1, state="succeeded")


def left_by(project, text=""):
    return list(compile_filter(text, user=None).runs(project).values_list("pk", flat=True))


def test_it_is_nowhere_and_comes_back_as_it_was(ended, project, user, make_record):
    before = Run.objects.values("name", "state", "meaning").get(pk=ended.pk)

    delete_run(ended, user=user)

    assert not project.runs.exists()
    assert left_by(project) == []
    assert left_by(project, "deleted:yes") == [ended.pk]
    with pytest.raises(NotFound):
        selectors.run_by_id(project, ended.pk)
    with pytest.raises(NotFound):
        ingest.store_records(ended, [make_record(3, {})])

    restore_run(selectors.run_by_id(project, ended.pk, deleted=True), user=user)

    assert Run.objects.values("name", "state", "meaning").get(pk=ended.pk) == before
    assert [p.value for p in effective_points(ended)] == [0.0, 0.1, 0.2]
    with pytest.raises(Conflict, match="not deleted"):
        restore_run(ended, user=user)


def test_after_a_day_all_that_it_has_is_gone(ended, project):
    other = tracked_run(user=None, project=project, name="stays")
    delete_run(ended, user=None)
    deleted_at = timezone.now() - UNDO + timedelta(minutes=1)
    Run.with_deleted.filter(pk=ended.pk).update(deleted_at=deleted_at)
    assert purge() == 0

    Run.with_deleted.update(deleted_at=None)
    Run.with_deleted.filter(pk=ended.pk).update(deleted_at=timezone.now() - UNDO - timedelta(minutes=1))

    assert purge() == 1
    assert list(Run.with_deleted.values_list("pk", flat=True)) == [other.pk]
    assert not Record.objects.filter(run=ended.pk).exists()
    assert not Point.objects.filter(series__run=ended.pk).exists()
    assert purge() == 0


def test_what_cannot_be_deleted_says_why(tracked, launch_one):
    with pytest.raises(Conflict, match="has not ended"):
        delete_run(tracked, user=None)
    with pytest.raises(Conflict, match="launched here"):
        delete_run(launch_one(), user=None)
    lifecycle.report_finished(tracked, attempt=1, state="failed")
    delete_run(tracked, user=None)
    with pytest.raises(Conflict, match="deleted already"):
        delete_run(tracked, user=None)


def test_an_archived_run_is_listed_among_the_deleted(ended, project):
    Run.objects.filter(pk=ended.pk).update(archived_at=timezone.now())
    delete_run(ended, user=None)

    assert left_by(project, "deleted:yes") == [ended.pk]
    assert left_by(project, "archived:yes") == []


def test_many_are_deleted_and_restored(ended, tracked, project, user, launch_one):
    open_run = tracked_run(user=user, project=project, name="open")
    ids = [ended.pk, open_run.pk, launch_one().pk]
    act = lambda action: bulk.act(bulk.BulkRequest(action, ids, action), user=user, project=project)

    deleted = act("delete")
    assert bulk.sentence(deleted) == "1 deleted, 2 not deleted."
    assert [o["words"] for o in deleted.outcomes][1] == "It has not ended; stop it first."
    assert bulk.sentence(act("restore")) == "1 restored, 2 was not deleted."
    assert Run.objects.filter(project=project).count() == 3


def test_many_are_changed(tracked, project, user, launch_one):
    second = tracked_run(user=user, project=project, name="second", task="code")
    ids = [tracked.pk, second.pk, launch_one().pk]
    act = lambda key, **changes: bulk.act(
        bulk.BulkRequest("change", ids, key, changes=changes), user=user, project=project
    )

    assert bulk.sentence(act("k", task="code", notes="moved")) == "2 changed, 1 not changed."
    assert bulk.sentence(act("k", task="code", notes="moved")) == "2 changed, 1 not changed."
    assert bulk.sentence(act("2", task="code")) == "2 was so before, 1 not changed."
    assert set(Run.objects.filter(origin="tracked").values_list("task", "notes")) == {("code", "moved")}
    with pytest.raises(Conflict, match="sent before"):
        act("k", task="math")
