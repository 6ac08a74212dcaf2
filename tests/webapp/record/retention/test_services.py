"""Cleaning up: in steps that can be repeated and interrupted, never of a run that lives; and the disk that fills."""

import shutil
from collections import namedtuple
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from tests.launching import launched
from tests.members import member
from tests.webapp.interfaces.pages.addresses import make_prediction
from tests.webapp.record.retention.conftest import grow_old, steps_of, write_checkpoint
from webapp.base.errors import InvalidInput, NoRoom
from webapp.identity.accounts.models import Role
from webapp.identity.audit.models import Event
from webapp.record.logs.chunking import add_lines
from webapp.record.logs.models import JobLog, LogChunk
from webapp.record.logs.selectors import Kept
from webapp.record.retention import folders, services
from webapp.record.retention.models import DiskWatch, Looked, RetentionPolicy
from webapp.record.retention.selectors import preview
from webapp.record.retention.services import clean_up, set_policy, watch_disk
from webapp.record.runs import launch
from webapp.record.runs.models import Attempt, Run
from webapp.record.samples.models import SampleFile
from webapp.reporting.alerts.models import Notice

pytestmark = pytest.mark.django_db
GIB = 2**30
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def disk(monkeypatch, settings):
    """disk(free): bytes free of 100 GiB, of which 2 GiB must stay."""
    settings.MIN_FREE_BYTES, settings.MIN_FREE_PERCENT = 2 * GIB, 1.0

    def set_free(free: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(100 * GIB, 100 * GIB - free, free))

    return set_free


def test_nothing_goes_without_a_policy(ended_run, project):
    run = ended_run(days=400)
    assert clean_up() == 0
    RetentionPolicy.objects.create(project=project, enabled=False)

    assert clean_up() == 0
    assert steps_of(run) == [5, 10, 15]


def test_all_but_the_newest_go_with_an_event(ended_run, policy):
    run = ended_run(days=2, steps=(5, 10, 15, 20))
    assert clean_up() == 2

    assert steps_of(run) == [15, 20]
    assert list(folders.taken_away()) == []
    event = Event.objects.get(verb="run.checkpoints_removed")
    assert (event.object_id, event.actor_name, event.detail["steps"]) == (run.pk, "system", "5, 10")
    assert event.detail["bytes"] == 200


def test_a_step_does_not_look_again_at_what_it_looked_at(ended_run, policy, monkeypatch):
    run = ended_run(days=2)
    clean_up()
    grow_old(run.pk, 1)
    looked = []
    monkeypatch.setattr(folders, "checkpoints_of", lambda run_id: looked.append(run_id) or [])
    clean_up()
    assert looked == []

    Looked.objects.update(at=timezone.now() - timedelta(days=1))
    clean_up()
    assert len(looked) == 1


@pytest.mark.parametrize("state", ["queued", "submitting", "starting", "running", "stopping"])
def test_a_run_that_lives_loses_nothing(ended_run, policy, state):
    run = ended_run(days=400)
    Run.objects.filter(pk=run.pk).update(state=state)

    assert clean_up() == 0
    assert steps_of(run) == [5, 10, 15]


def test_a_resume_that_comes_first_saves_the_checkpoints(ended_run, policy):
    """Found as ended, resumed before its row is locked: the queued attempt needs them."""
    run = ended_run(days=400)
    found = services.ended_runs(run.project).get(pk=run.pk)
    launch.resume_run(run, user=None)

    assert services.clean_run(found, policy, is_low=False) == []
    assert steps_of(run) == [5, 10, 15]


def test_a_folder_that_is_still_written_is_left_alone(ended_run, policy):
    run = ended_run(days=400)
    write_checkpoint(run.pk, "step-00000020")  # by a driver that does not know that it is lost

    assert clean_up() == 0
    grow_old(run.pk, 1)
    assert clean_up() == 4


def test_protected_runs_keep_everything(ended_run, policy, user):
    tagged, predicted = ended_run(days=400), ended_run(days=400, seed=1)
    Run.objects.filter(pk=tagged.pk).update(tags=["keep"])
    from tests.webapp.interfaces.pages.data import curve_records
    from webapp.record.runs import ingest
    from webapp.science.curves.services import refit

    ingest.store_records(predicted, curve_records(30, first=2))
    refit(predicted.pk)
    make_prediction(user, predicted)
    for run in (tagged, predicted):
        SampleFile.objects.create(run=run, kind="eval", step=5, attempt=1, rows=1, size=1, prompts={})
        JobLog.objects.create(attempt=run.attempts.get(), closed_at=timezone.now(), lines=1)

    assert clean_up() == 0
    assert steps_of(tagged) == steps_of(predicted) == [5, 10, 15]
    assert SampleFile.objects.filter(size=1).count() == JobLog.objects.filter(lines=1).count() == 2


def test_a_worker_that_dies_while_deleting_leaves_it_to_the_next(ended_run, policy, monkeypatch):
    run = ended_run(days=2)
    monkeypatch.setattr(folders, "delete", lambda folder: None)
    assert clean_up() == 1
    assert len(list(folders.taken_away())) == 1
    monkeypatch.undo()

    assert clean_up() == 0
    assert list(folders.taken_away()) == []
    assert steps_of(run) == [10, 15]


def test_a_folder_that_cannot_be_read_does_not_stop_the_others(ended_run, policy, monkeypatch):
    bad, good = ended_run(days=3), ended_run(days=2, seed=1)
    real = folders.checkpoints_of

    def flaky(run_id):
        if run_id == bad.pk:
            raise PermissionError("no")
        return real(run_id)

    monkeypatch.setattr(folders, "checkpoints_of", flaky)
    assert clean_up() == 1
    monkeypatch.undo()
    assert (steps_of(bad), steps_of(good)) == ([5, 10, 15], [10, 15])


def test_old_logs_go_and_their_tails_stay(ended_run, policy):
    run = ended_run(days=100, steps=())
    attempt = run.attempts.get()
    Attempt.objects.update(log_tail="the end\n")
    row = JobLog.objects.create(attempt=attempt, closed_at=timezone.now())
    LogChunk.objects.bulk_create(add_lines(row, None, ["all", "of", "it", "the end"]))
    row.save()
    assert len(Kept(run.attempts.get()).after(0, 10)) == 4

    clean_up()
    assert not LogChunk.objects.exists()
    assert [line.text for line in Kept(run.attempts.get()).after(0, 10)] == ["the end"]


def test_what_a_lost_driver_copied_of_its_log_goes_after_a_day(ended_run, policy):
    fresh, old = ended_run(days=0.5, state="lost"), ended_run(days=2, state="lost", seed=1)
    copies = [folders.runs_folder() / run.pk / "attempt-1.log" for run in (fresh, old)]
    for copy in copies:
        copy.write_text("step 1\n")
    clean_up()

    assert [copy.exists() for copy in copies] == [True, False]


def test_the_dry_run_says_what_would_go_and_removes_nothing(ended_run, project, capsys):
    run = ended_run(days=2, steps=(5, 10, 15, 20), name="a big one")
    found = preview(project, RetentionPolicy(project=project))
    assert (found.count, found.size, found.looked_at, found.runs) == (2, 200, 1, 1)

    call_command("clean_up", "--dry-run")
    said = capsys.readouterr().out
    assert "default (not enabled: nothing goes by itself): 2 checkpoints, 200 bytes" in said
    assert f"{run.pk} a big one: step 5, 10: not among the newest 2" in said
    ended_run(days=2, steps=(5, 10, 15), name="a small one", seed=1)
    RetentionPolicy.objects.create(project=project, keep_newest=2, log_days=1)
    SampleFile.objects.create(run=run, kind="eval", step=5, attempt=1, rows=1, size=1, prompts={})
    call_command("clean_up", "--dry-run")
    said = capsys.readouterr().out
    assert "3 checkpoints" in said and "and the samples of 1 step\n" in said
    assert steps_of(run) == [5, 10, 15, 20]


def test_the_command_cleans_up_now(ended_run, policy, capsys):
    ended_run(days=2)
    call_command("clean_up")

    assert "1 checkpoint removed; " in capsys.readouterr().out


def test_a_low_disk_is_told_once_and_again_only_after_it_was_well(disk, project, user):
    member("vera", project=project, role=Role.VIEWER)
    disk(GIB)
    assert watch_disk() and watch_disk()
    notice = Notice.objects.get()
    assert (notice.user, notice.url) == (user, "/status")
    assert "Only 1 GiB are free" in notice.text and "2 GiB must stay free" in notice.text

    disk(int(2.1 * GIB))
    assert watch_disk()  # not enough to call it well
    disk(3 * GIB)
    assert not watch_disk()
    disk(GIB)
    assert watch_disk()
    assert Notice.objects.count() == 2


def test_the_threshold_is_the_greater_of_bytes_and_percent(disk, settings):
    disk(3 * GIB)
    assert not watch_disk()
    settings.MIN_FREE_PERCENT = 5.0  # of 100 GiB

    assert watch_disk()
    assert DiskWatch.objects.get().low_since is not None


def test_launches_and_resumes_are_refused_with_figures(disk, ended_run, user, project, model_folder):
    run = ended_run(days=1)
    disk(GIB)
    with pytest.raises(NoRoom, match=r"Only 1 GiB are free .* and 2 GiB must stay free"):
        launched(
            user=user, project=project, recipe="tiny-scalerl", task="arithmetic", model="tiny-arithmetic", seed=9,
            budget_hours=1.0,
        )  # fmt: skip
    with pytest.raises(NoRoom, match="Only 1 GiB are free"):
        launch.resume_run(run, user=user)
    run.refresh_from_db()
    assert (Run.objects.count(), run.state, run.attempt_number) == (1, "cancelled", 1)


def test_under_pressure_the_longest_ended_go_first_until_there_is_room(ended_run, policy, disk, monkeypatch):
    old, new = ended_run(days=20), ended_run(days=2, seed=1)
    disk(GIB)
    watch_disk()
    real = folders.delete

    def freeing(folder):
        real(folder)
        disk(3 * GIB)  # the first removal is enough

    monkeypatch.setattr(folders, "delete", freeing)
    assert clean_up() == 2

    assert (steps_of(old), steps_of(new)) == ([15], [5, 10, 15])
    assert not DiskWatch.objects.filter(low_since__isnull=False).exists()


def test_without_leave_the_disk_hurries_nothing(ended_run, policy, disk):
    RetentionPolicy.objects.update(under_pressure=False)
    run = ended_run(days=2)
    disk(GIB)
    watch_disk()
    clean_up()

    assert steps_of(run) == [10, 15]


WANTED = {"enabled": True, "keep_newest": 3, "checkpoint_days": 14, "log_days": 0, "under_pressure": False}


def test_a_new_policy_is_recorded_and_runs_are_looked_at_anew(ended_run, project, user, policy):
    ended_run(days=2)
    clean_up()

    set_policy(project, user=user, **WANTED)
    set_policy(project, user=user, **WANTED)
    assert not Looked.objects.exists()
    changed = Event.objects.get(verb="retention.changed").detail["changed"]
    assert changed["keep_newest"] == [2, 3] and "enabled" not in changed


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"keep_newest": 0}, "keep_newest"), ({"keep_newest": 101}, "keep_newest"),
        ({"checkpoint_days": 0}, "checkpoint_days"), ({"log_days": -1}, "log_days"), ({"log_days": 4000}, "log_days"),
    ],
)  # fmt: skip
def test_what_is_no_policy_is_refused(project, user, change, field):
    with pytest.raises(InvalidInput) as error:
        set_policy(project, user=user, **(WANTED | change))

    assert error.value.field == field
    assert not RetentionPolicy.objects.exists()
