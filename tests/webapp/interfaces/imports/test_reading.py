"""The worker's part: repeated, grown, changed, broken and mended files, and a worker that is killed on the way."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.launching import tracked_run
from tests.members import member
from tests.webapp.interfaces.imports.conftest import Killed, upload
from tests.webapp.interfaces.imports.readers.test_trackers import event_file, scalar
from tests.webapp.reporting.alerts.data import make_rule
from webapp.identity.audit.models import Event
from webapp.interfaces.imports import claims, uploads
from webapp.interfaces.imports.models import Import, State
from webapp.interfaces.imports.readers.rows import BATCH_ROWS
from webapp.interfaces.imports.reading import take_turn
from webapp.interfaces.imports.services import resume_import
from webapp.record.runs.editing import delete_run
from webapp.record.runs.lifecycle import report_finished
from webapp.record.runs.models import Point, Record, Run
from webapp.record.runs.points import effective_points
from webapp.record.runs.selectors import stored_name
from webapp.reporting.alerts.firing import check_changed
from webapp.reporting.alerts.models import Firing

pytestmark = pytest.mark.django_db

TWO = "a 1 0.1\nb 1 0.2\na 2 0.3\n"


def steps(name="a"):
    return list(Record.objects.filter(run__name=name).order_by("seq").values_list("seq", "step"))


def told(one):
    return list(Event.objects.filter(object_id=one.pk).order_by("pk").values_list("verb", flat=True))


def test_each_run_of_the_source_becomes_a_run_here(begin, user, django_capture_on_commit_callbacks):
    one = begin(TWO, task="math", model="8b")

    with django_capture_on_commit_callbacks(execute=True):
        done = take_turn()

    assert done is not None
    assert (done.pk, done.state, done.rows_read, done.rows_stored) == (one.pk, State.FINISHED, 3, 3)
    a, _ = Run.objects.order_by("name")
    assert (a.origin, a.name, a.task, a.model, a.created_by) == ("tracked", "a", "math", "8b", user)
    assert (a.state, a.state_reason) == ("succeeded", "Imported. Its source does not say how it ended.")
    assert steps("a") == [(1, 1), (3, 2)] and steps("b") == [(2, 1)]
    assert told(one) == ["import.started", "import.finished"]
    assert not uploads.folder_of(one.pk).exists()
    assert take_turn() is None


def test_what_is_not_known_is_null_and_a_row_without_a_time_has_that_of_the_import(begin):
    begin(TWO)
    take_turn()

    record = Record.objects.filter(run__name="a").latest("seq")
    assert record.compute == {"device_hours": None, "flops": None, "tokens": None}
    assert record.time == record.run.created_at


def test_the_same_file_again_stores_nothing_twice(begin):
    begin(TWO)
    take_turn()
    again = begin(TWO)

    done = take_turn()

    assert (done.pk, done.state, done.rows_read, done.rows_stored) == (again.pk, State.FINISHED, 3, 0)
    assert Run.objects.count() == 2 and Record.objects.count() == 3


def test_a_file_that_has_grown_adds_to_the_same_runs(begin):
    begin(TWO)
    take_turn()
    begin(TWO + "a 3 0.4\nc 1 0.5\n")

    done = take_turn()

    assert (done.state, done.rows_stored, done.runs_found) == (State.FINISHED, 2, 3)
    assert steps("a") == [(1, 1), (3, 2), (4, 3)]
    assert Run.objects.count() == 3


def test_a_run_that_was_deleted_is_not_filled_and_the_others_are(begin):
    begin(TWO)
    take_turn()
    delete_run(Run.objects.get(name="a"), user=None)
    begin(TWO + "a 3 0.4\nb 2 0.5\n")

    done = take_turn()

    assert (done.state, done.rows_stored) == (State.PARTIAL, 1)
    assert done.reason.startswith("This run was imported before and is deleted: restore it")
    assert steps("b") == [(2, 1), (5, 2)]
    assert Record.objects.count() == 4


def test_another_name_of_the_source_makes_other_runs(begin):
    begin(TWO)
    take_turn()
    begin(TWO, source="the second try")
    take_turn()

    assert Run.objects.count() == 4


def test_a_file_whose_old_rows_have_changed_is_refused_by_line(begin):
    begin(TWO)
    take_turn()
    begin("a 1 0.1\nb 1 0.2\na 2 0.9\na 3 0.4\n")

    done = take_turn()

    assert (done.state, done.broken_file, done.broken_line) == (State.PARTIAL, "metrics.lines", 3)
    assert "imported before with other content" in done.reason
    assert steps("a") == [(1, 1), (3, 2)]


def test_a_broken_line_leaves_what_came_before_it_and_a_mended_file_the_rest(begin, user):
    lines = [f"a {step} 0.1" for step in range(1, 11)]
    one = begin("\n".join([*lines[:5], "!", *lines[6:]]))

    broken = take_turn()

    assert (broken.state, broken.broken_line, broken.reason) == (State.PARTIAL, 6, "This is no row.")
    assert [step for _, step in steps()] == [1, 2, 3, 4, 5]
    assert Run.objects.get().state == "running"
    assert uploads.folder_of(one.pk).exists()

    resume_import(one, user=user, files=[upload("\n".join(lines))])
    mended = take_turn()

    assert (mended.state, mended.rows_stored, mended.reason) == (State.FINISHED, 10, "")
    assert [step for _, step in steps()] == list(range(1, 11))
    assert Run.objects.get().state == "succeeded"
    assert told(one) == ["import.started", "import.stopped", "import.resumed", "import.finished"]


def test_one_broken_run_keeps_the_others_not_out(begin):
    begin("a 1 0.1\na x 0.1\nb 1 0.2\n")

    done = take_turn()

    assert done.state == State.PARTIAL
    assert steps("b") == [(3, 1)]
    assert Run.objects.get(name="b").state == "succeeded"


def test_a_run_that_is_broken_before_its_first_row_is_not_made(begin):
    begin("a x 0.1\na 1 0.1\nb 1 0.2\n")

    done = take_turn()

    assert (done.state, done.broken_line) == (State.PARTIAL, 1)
    assert list(Run.objects.values_list("name", flat=True)) == ["b"]


def test_a_source_of_which_nothing_can_be_read_has_failed(begin, user):
    one = begin("!")
    take_turn()
    one.refresh_from_db()
    assert one.state == State.FINISHED  # no run in it, nothing broken

    two = begin("\xff".encode("latin-1"), name="bytes.lines")
    done = take_turn()

    assert (done.pk, done.state) == (two.pk, State.FAILED)
    assert "UnicodeDecodeError" in done.reason
    assert Run.objects.count() == 0


def killed():
    """A turn in the middle of which the worker dies, and whose claim has run out since."""
    with pytest.raises(Killed):
        take_turn()
    Import.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))


def test_a_worker_that_is_killed_loses_its_open_batch_and_another_goes_on(begin, lines_kind):
    rows = BATCH_ROWS
    lines = [f"a {step} 0.1" for step in range(1, 2 * rows + 1)]
    one = begin("\n".join([*lines[: rows + 10], "KILL", *lines[rows + 10 :]]))

    killed()

    one.refresh_from_db()
    assert (one.state, one.rows_stored) == (State.READING, rows)
    assert claims.waiting() == 1
    lines_kind.deadly = False
    done = take_turn()
    assert (done.state, done.rows_stored, done.rows_read) == (State.FINISHED, 2 * rows, 2 * rows)
    assert [step for _, step in steps()] == list(range(1, 2 * rows + 1))


def test_what_kills_every_worker_is_given_up(begin):
    one = begin("a 1 0.1\nKILL\n")
    for _ in range(claims.MOST_TRIES):
        killed()

    done = take_turn()

    assert (done.pk, done.state) == (one.pk, State.FAILED)
    assert "came no further" in done.reason


def test_one_that_is_read_elsewhere_is_left_alone(begin):
    begin(TWO)
    claim = claims.claim_next()

    assert take_turn() is None and claims.waiting() == 0
    Import.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))
    assert take_turn().state == State.FINISHED
    with pytest.raises(claims.Superseded):
        claim.keep()


def test_a_long_import_gives_others_their_turn(begin):
    rows = BATCH_ROWS
    long = begin("\n".join(f"a {step} 0.1" for step in range(2 * rows)), source="long")
    short = begin(TWO, source="short")

    turns = [take_turn(seconds=0) for _ in range(4)]

    assert [(turn.pk, turn.state) for turn in turns[:2]] == [
        (long.pk, State.READING),
        (short.pk, State.READING),
    ]
    assert claims.waiting() == 2
    while take_turn() is not None:
        pass
    assert set(Import.objects.values_list("state", flat=True)) == {State.FINISHED}
    assert Record.objects.count() == 2 * rows + 3


def test_many_imports_of_one_user_hold_up_none_of_another(begin, project):
    for source in "abc":
        begin(TWO, source=source)
    begin(TWO, source="other", by=member("bob", project=project))

    assert [take_turn().source for _ in range(4)] == ["a", "other", "b", "c"]


def test_metrics_that_somebody_ignores_are_left_out(begin):
    begin(TWO, ignore=["eval/pass_rate"])
    take_turn()

    assert Record.objects.filter(run__name="a").earliest("seq").metrics == {}


def test_a_column_that_becomes_the_pass_rate_is_found_by_its_name(begin):
    table = "step,acc,loss\n1,40,3\n2,45,2\n"
    begin(table, kind="csv", name="m.csv", columns={"step": "step", "pass_rate": "acc"}, percent=True)
    take_turn()

    run = Run.objects.get()
    assert (stored_name(run, "acc"), stored_name(run, "loss")) == ("eval/pass_rate", "loss")
    assert [point.value for point in effective_points(run, "acc")] == [0.4, 0.45]


def test_a_run_began_with_its_first_row_and_ended_with_its_newest(begin):
    table = "step,time,loss\n1,2026-01-01T00:00:00Z,3\n2,2026-01-01T03:00:00Z,2\n"
    begin(table, kind="csv", name="m.csv", columns={"step": "step", "time": "time"})
    take_turn()

    run = Run.objects.get()
    for row in (run, run.attempts.get()):
        assert row.started_at.isoformat() == "2026-01-01T00:00:00+00:00"
        assert row.ended_at.isoformat() == "2026-01-01T03:00:00+00:00"


def test_what_was_imported_fires_no_rule(begin, user, project):
    make_rule(user, project, "state", {"states": ["succeeded"]}, runs="by:me")
    begin(TWO)
    take_turn()
    elsewhere = tracked_run(user=user, project=project, name="elsewhere")
    report_finished(elsewhere, attempt=1, state="succeeded", message="")

    check_changed(seconds=60)

    assert [firing.run for firing in Firing.objects.all()] == [elsewhere]


# --- the newest row, of which a source that grows may have more


def grown(begin, *contents, **options):
    """The same source imported as often, each time with this content."""
    for content in contents:
        begin(content, kind="tensorboard", name="x.tfevents.1", **options)
        done = take_turn()
    return done


def test_the_newest_step_is_there_at_once_and_whole_after_the_next_import(begin):
    first = [scalar(1, "a", 1), scalar(1, "train/num_tokens", 10), scalar(2, "a", 2)]
    more = [scalar(2, "eval/pass_rate", 0.5), scalar(2, "train/num_tokens", 20)]

    done = grown(begin, event_file(first), event_file(first + more), event_file(first + more))

    assert (done.state, done.rows_read, done.rows_stored) == (State.FINISHED, 2, 0)
    records = list(Record.objects.order_by("seq").values_list("seq", "step", "compute__tokens", "metrics"))
    assert records == [
        (1, 1, 10, {"a": 1, "train/num_tokens": 10}),
        (3, 2, 20, {"a": 2, "eval/pass_rate": 0.5, "train/num_tokens": 20}),
    ]
    points = Point.objects.order_by("series__metric", "step").values_list(
        "series__metric", "step", "value", "tokens"
    )
    assert list(points) == [
        ("a", 1, 1, 10), ("a", 2, 2, 20), ("eval/pass_rate", 2, 0.5, 20), ("train/num_tokens", 1, 10, 10),
        ("train/num_tokens", 2, 20, 20),
    ]  # fmt: skip
    assert Run.objects.get().summary.pass_rate == 0.5


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([scalar(1, "a", 1)], [scalar(1, "a", 2), scalar(1, "b", 1)]),  # a value has changed
        ([scalar(1, "a", 1)], [scalar(1, "b", 1)]),  # one is gone
        ([scalar(1, "a", 1)], [scalar(2, "a", 1), scalar(2, "b", 1)]),  # another step
        ([scalar(1, "a", 1)], [scalar(1, "a", 1, 1.8e9), scalar(1, "b", 1)]),  # another time
        ([scalar(1, "a", 1), scalar(2, "a", 1)], [scalar(1, "a", 1), scalar(1, "b", 1), scalar(2, "a", 1)]),  # not it
    ],
)  # fmt: skip
def test_a_newest_row_with_other_content_is_refused_as_any_other(begin, before, after):
    done = grown(begin, event_file(before), event_file(after))

    assert (done.state, done.rows_stored) == (State.PARTIAL, 0)
    assert "imported before with other content" in done.reason and "under Metrics" in done.reason
    assert Point.objects.count() == Record.objects.count() == len(before)


def test_other_devices_are_refused_and_it_is_said_where_they_can_be_said(begin):
    content = event_file([scalar(1, "a", 1), scalar(2, "a", 2, 1.7e9 + 3600)])

    done = grown(begin, content)
    begin(content, kind="tensorboard", name="x.tfevents.1", devices=8.0)
    done = take_turn()

    assert done.state == State.PARTIAL and "on the run's page, under Metrics" in done.reason
    assert Record.objects.filter(compute__device_hours=None).count() == 2
