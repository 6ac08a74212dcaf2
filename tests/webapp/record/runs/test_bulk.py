"""One action on many runs: what becomes of each, once, for members only."""

import pytest
from django.db.models import Count

from tests.launching import tracked_run
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.services import create_project
from webapp.identity.audit.models import Event
from webapp.record.runs import bulk, ingest, lifecycle
from webapp.record.runs.models import BulkAction, Point, Run, State


@pytest.fixture
def act(user, project):
    """act("stop", runs, key="k"): the sentence that is told."""

    def send(action, runs, *, key="key", **more):
        ids = [getattr(run, "pk", run) for run in runs]
        row = bulk.act(bulk.BulkRequest(action, ids, key, **more), user=user, project=project)
        return bulk.sentence(row)

    return send


@pytest.fixture
def ended(launch_one):
    run = launch_one(seed=9)
    Run.objects.filter(pk=run.pk).update(state=State.SUCCEEDED)
    run.attempts.update(state=State.SUCCEEDED)
    run.refresh_from_db()
    return run


def test_stopping(act, launch_one, tracked, ended):
    queued, running = launch_one(), launch_one(seed=1)
    lifecycle.report_started(running, attempt=1)

    said = act("stop", [queued, running, tracked, ended, "nothere"])

    assert said == "3 stopped, 1 had already ended, 1 not found."
    states = dict(Run.objects.values_list("pk", "state"))
    assert [states[run.pk] for run in (queued, running, tracked, ended)] == [
        "cancelled", "stopping", "cancelled", "succeeded",
    ]  # fmt: skip
    assert act("stop", [running], key="again") == "1 already stopping."


def test_the_same_key_is_the_same_action(act, launch_one, ended):
    assert act("resume", [ended]) == "1 resumed."
    Run.objects.filter(pk=ended.pk).update(state=State.SUCCEEDED)  # it ended again meanwhile

    assert act("resume", [ended]) == "1 resumed."
    assert Run.objects.get(pk=ended.pk).attempt_number == 2
    assert BulkAction.objects.count() == 1
    with pytest.raises(Conflict):
        act("stop", [ended])


def test_resuming_says_what_could_not_be(act, tracked, ended):
    running = tracked

    assert act("resume", [ended, running]) == "1 resumed, 1 not resumed."
    outcome = BulkAction.objects.get().outcomes[1]
    assert (outcome["name"], outcome["words"]) == ("elsewhere", "This run trains elsewhere; resume it there.")


def test_priority_of_those_that_wait(act, launch_one, ended):
    queued, other = launch_one(), launch_one(seed=1)

    said = act("priority", [queued, other, ended], priority=Run.Priority.LOW)

    assert said == "2 changed, 1 not changed. Priority: low."
    assert BulkAction.objects.get().outcomes[2]["words"].startswith("This run is succeeded")
    assert {run.priority for run in Run.objects.exclude(pk=ended.pk)} == {Run.Priority.LOW}
    said = act("priority", [queued], key="again", priority=Run.Priority.LOW)
    assert said == "1 was so before. Priority: low."


def test_tags(act, tracked, ended):
    assert act("tag", [tracked], tag=" Paper ") == "1 tagged. Tag: paper."
    assert act("tag", [tracked, ended], key="2", tag="paper") == "1 tagged, 1 had the tag before. Tag: paper."
    assert act("tag", [tracked], key="3", tag="a") == "1 tagged. Tag: a."
    assert Run.objects.get(pk=tracked.pk).tags == ["a", "paper"]
    assert Run.objects.get(pk=tracked.pk).version == tracked.version + 2
    assert act("untag", [tracked, ended], key="4", tag="a") == "1 untagged, 1 did not have the tag. Tag: a."

    Run.objects.filter(pk=ended.pk).update(tags=[f"t{i:02}" for i in range(bulk.MAX_TAGS)])
    assert act("tag", [ended], key="5", tag="more") == "1 not tagged. Tag: more."


def test_archiving_only_what_has_ended(act, tracked, ended):
    assert act("archive", [tracked, ended]) == "1 archived, 1 not archived."
    assert act("archive", [ended], key="2") == "1 archived before."
    assert act("unarchive", [tracked, ended], key="3") == "1 unarchived, 1 was not archived."
    assert not Run.objects.exclude(archived_at=None).exists()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"action": "explode"}, "action"),
        ({"run_ids": []}, "runs"),
        ({"run_ids": [f"r{i}" for i in range(201)]}, "runs"),
        ({"key": ""}, "key"),
        ({"key": "k" * 65}, "key"),
        ({"action": "priority"}, "priority"),
        ({"action": "priority", "priority": 7}, "priority"),
        ({"action": "tag", "tag": ""}, "tag"),
        ({"action": "tag", "tag": "two words"}, "tag"),
        ({"action": "tag", "tag": "x" * 41}, "tag"),
        ({"action": "tag", "tag": "\0"}, "tag"),
    ],
)
def test_bad_requests_name_the_field_and_do_nothing(user, project, tracked, change, field):
    request = {"action": "stop", "run_ids": [tracked.pk], "key": "k"} | change

    with pytest.raises(InvalidInput) as caught:
        bulk.act(bulk.BulkRequest(**request), user=user, project=project)

    assert caught.value.field == field
    assert not BulkAction.objects.exists()


def test_only_runs_of_this_project(act, user, project, tracked):
    other = create_project(slug="code", name="Code")
    foreign = tracked_run(user=user, project=other, name="foreign")
    assert act("stop", [foreign]) == "1 not found."
    assert Run.objects.get(pk=foreign.pk).state == State.RUNNING


@pytest.mark.parametrize("count", [3, 200])
def test_tagging_costs_the_same_for_many_runs(act, user, project, count, django_assert_max_num_queries):
    Run.objects.bulk_create(
        Run(project=project, name=f"r{i}", task="t", model="m", state=State.SUCCEEDED) for i in range(count)
    )
    runs = list(Run.objects.all())

    with django_assert_max_num_queries(8):
        act("tag", runs, tag="x")
    with django_assert_max_num_queries(8):
        act("archive", runs, key="2")


@pytest.mark.parametrize("count", [3, 200])
def test_changing_and_deleting_cost_the_same_for_many_runs(
    act, project, tracked, count, django_assert_max_num_queries
):
    queued = {"origin": Run.Origin.LAUNCHED, "state": State.QUEUED}
    for origin in ({"state": State.SUCCEEDED, "origin": Run.Origin.TRACKED}, queued):
        Run.objects.bulk_create(
            Run(project=project, name=f"r{i}", task="t", model="m", **origin) for i in range(count)
        )
    launched = list(Run.objects.filter(**queued))
    runs = [tracked, *Run.objects.filter(origin=Run.Origin.TRACKED).exclude(pk=tracked.pk)]

    with django_assert_max_num_queries(10):
        said = act("priority", launched, key="1", priority=Run.Priority.LOW)
    assert said == f"{count} changed. Priority: low."
    with django_assert_max_num_queries(10):
        said = act("change", [*runs, *launched], key="2", changes={"task": "code", "tags": ["a"]})
    assert said == f"{count + 1} changed, {count} not changed."
    with django_assert_max_num_queries(24):
        assert act("delete", runs, key="3") == f"{count} deleted, 1 not deleted."
    with django_assert_max_num_queries(16):
        assert act("restore", runs, key="4") == f"{count} restored, 1 was not deleted."
    verbs = Event.objects.filter(
        verb="run.changed", detail__changes={"task": ["t", "code"], "tags": ["none", "a"]}
    )
    assert verbs.count() == count
    deleted = Event.objects.filter(verb__in=("run.deleted", "run.restored", "run.priority_changed"))
    assert sorted(deleted.values_list("verb").annotate(Count("pk"))) == [
        ("run.deleted", count), ("run.priority_changed", count), ("run.restored", count),
    ]  # fmt: skip


def test_what_metrics_mean_is_said_of_some_runs_at_a_time(act, user, project, make_record, monkeypatch):
    changes = {"meaning": {"pass_rate": "val/acc"}}
    few, many = (tracked_run(user=user, project=project, name=name) for name in "ab")
    for run, count in ((few, 2), (many, 6)):
        ingest.store_records(run, [make_record(step, {"val/acc": 0.5}) for step in range(count)])
    monkeypatch.setattr(bulk, "AT_ONCE", 8)  # 4 points of each of two runs

    assert act("change", [few, many], changes=changes) == "2 changed."

    made = dict(Run.objects.values_list("pk", "remaking"))
    assert made == {few.pk: None, many.pk: {"undo": [], "after": 0}}
    rates = Point.objects.filter(series__metric="eval/pass_rate").values_list("series__run", flat=True)
    assert list(rates) == [few.pk] * 2
    with pytest.raises(InvalidInput, match="at most 100 runs at a time, not of 101"):
        act("change", [str(number) for number in range(101)], key="other", changes=changes)
