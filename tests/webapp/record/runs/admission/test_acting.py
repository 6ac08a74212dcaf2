"""The queue as it is stored: what goes, what waits says for what, and who steps back."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from webapp.identity.accounts.services import create_project, set_role
from webapp.record.health.models import ClusterSeen
from webapp.record.health.services import note_cluster, note_groups
from webapp.record.runs import ingest, lifecycle, observation, places
from webapp.record.runs.admission import reading
from webapp.record.runs.admission.acting import LATER, UNKNOWN
from webapp.record.runs.models import Attempt, Run, State, Summary
from webapp.record.runs.observation import JobStatus

TWO_CORES = {"generator_cpus": 1, "trainer_cpus": 1}


@pytest.fixture
def large_cluster():
    """In the place of the conftest's: here each test says what there is."""
    cache.clear()


def saw(gpus, cpus):
    dead = {"id": "b", "address": "", "alive": False, "is_head": False, "cpus": 8, "gpus": 8}
    note_cluster([dead | {"id": "a", "alive": True, "cpus": cpus, "gpus": gpus}, dead])


def needs(run, **resources):
    Run.objects.filter(pk=run.pk).update(config=run.config | {"resources": resources})


def job(run):
    return f"run-{run.pk}-a{run.attempt_number}"


def claimed():
    """Seeds of the runs that are handed over now, as if Ray had taken them."""
    found = [dispatch for dispatch in lifecycle.claim_dispatches() if dispatch.kind == "submit"]
    for dispatch in found:
        lifecycle.dispatch_done(dispatch)
    return [dispatch.run.seed for dispatch in found]


def reason(run):
    return Run.objects.get(pk=run.pk).state_reason


def end(run, state="succeeded"):
    return lifecycle.report_finished(Run.objects.get(pk=run.pk), attempt=run.attempt_number, state=state)


@pytest.fixture
def two_cores(launch_one):
    """two_cores(3): as many runs, each of which takes all of a machine with two cores."""

    def make(count, **changes):
        runs = [launch_one(**{"seed": seed} | changes) for seed in range(count)]
        for run in runs:
            needs(run, **TWO_CORES)
        return runs

    saw(0, 2)
    return make


def test_of_nine_launches_on_two_cores_one_is_handed_over_at_a_time(two_cores):
    runs = two_cores(9)

    assert (claimed(), claimed()) == ([0], [])
    lifecycle.report_started(runs[0], attempt=1)
    assert claimed() == []
    end(runs[0])
    assert (claimed(), claimed()) == ([1], [])
    assert Run.objects.filter(state=State.QUEUED).count() == 7


def test_what_waits_says_for_what_behind_whom_and_when(two_cores, make_record):
    runs = two_cores(3, budget_hours=0.5)
    claimed()
    lifecycle.report_started(runs[0], attempt=1)
    claimed()

    name = runs[0].name
    assert reason(runs[1]) == (
        f"waits for the cluster: needs 2 CPU cores, 0 free; behind 1 run at work: {name}, seed 0; "
        "starts in 15 min at the earliest"
    )
    assert reason(runs[2]).split("; ")[1:] == [
        f"behind 1 run: {name}, seed 1",
        "starts in 30 min at the earliest",
    ]
    version = Run.objects.get(pk=runs[2].pk).version
    claimed()
    assert Run.objects.get(pk=runs[2].pk).version == version  # nothing new is said


def test_a_run_that_cannot_be_placed_says_what_it_lacks_and_holds_up_nobody(launch_one):
    large, _ = launch_one(seed=0), launch_one(seed=1)
    needs(large, generator_gpus=1, trainer_gpus=1, generator_cpus=1, trainer_cpus=1)
    saw(0, 64)

    assert claimed() == [1]
    assert reason(large) == "needs 2 GPUs, the cluster has 0"


def test_it_goes_when_the_cluster_may_grow(launch_one, settings):
    needs(launch_one(), generator_gpus=1, trainer_gpus=1)
    saw(0, 64)
    assert claimed() == []

    settings.CLUSTER_GROWS = True
    assert claimed() == [0]


def test_of_a_cluster_that_was_not_seen_lately_one_run_finds_out(two_cores):
    runs = two_cores(3)
    ClusterSeen.objects.update(seen_at=timezone.now() - 2 * reading.SIGHT_HOLDS)

    assert (claimed(), claimed()) == ([0], [])
    assert reason(runs[1]) == UNKNOWN
    lifecycle.report_started(runs[0], attempt=1)
    assert claimed() == [1]


def test_what_ray_says_of_placement_groups_counts(launch_one):
    first, second = launch_one(seed=0), launch_one(seed=1)
    for run in (first, second):
        needs(run, **TWO_CORES)
    saw(0, 4)
    note_groups({"placed": {"": [["a", 1.0, 0.0]]}, "waiting": []})  # of somebody else

    assert claimed() == [0]
    note_groups({"placed": {}, "waiting": [job(first)]})  # somebody took its place
    assert claimed() == []
    note_groups({"placed": {job(first): [["a", 1.0, 0.0], ["a", 1.0, 0.0]]}, "waiting": []})
    assert claimed() == [1]


def test_one_run_goes_ahead_while_an_ended_one_gives_its_place_back(launch_one):
    ended, *runs = (launch_one(seed=seed) for seed in range(3))
    for run in (ended, *runs):
        needs(run, generator_cpus=1, trainer_cpus=1)
    saw(0, 4)
    lifecycle.claim_dispatches(run_id=ended.pk)
    lifecycle.report_started(ended, attempt=1)
    note_groups({"placed": {job(ended): [["a", 2.0, 0.0], ["a", 2.0, 0.0]]}, "waiting": []})
    end(ended)

    assert (claimed(), claimed()) == ([1], [])
    note_groups({"placed": {}, "waiting": []})
    assert claimed() == [2]


def test_projects_take_turns_by_what_they_use(two_cores, user, launch_one):
    other = create_project(slug="code", name="Code")
    set_role(other, user, "admin")
    two_cores(3)
    needs(launch_one(seed=9, project=other), **TWO_CORES)
    saw(0, 4)

    assert claimed() == [0, 9]


def test_what_runs_used_counts_when_their_places_are_given_away(two_cores, user, launch_one):
    """Also where nobody asked between the end of one and the end of the next."""
    other = create_project(slug="code", name="Code")
    set_role(other, user, "admin")
    runs = two_cores(3)
    needs(launch_one(seed=9, project=other), **TWO_CORES)
    needs(launch_one(seed=10, project=other), **TWO_CORES)

    def trains(run, hours):
        lifecycle.report_started(run, attempt=1)
        Summary.objects.update_or_create(run=run, defaults={"used_hours": hours})
        end(run)

    assert claimed() == [0]
    trains(runs[0], 0.5)
    assert claimed() == [9]
    trains(Run.objects.get(seed=9), 0.4)
    assert claimed() == [10]
    trains(Run.objects.get(seed=10), 0.4)
    assert claimed() == [1]


# --- stepping back --------------------------------------------------------------------------------------------


@pytest.fixture
def stepping(two_cores, project, user):
    """A run at work and one of high priority that waits; the project lets its runs step back."""
    places.set_queue(project, most_at_work=None, quota_hours=None, user=user, steps_back=True)
    working, urgent = two_cores(2)
    lifecycle.claim_dispatches(run_id=working.pk)
    for dispatch in working.dispatches.all():
        lifecycle.dispatch_done(dispatch)
    lifecycle.report_started(working, attempt=1)
    places.set_priority(urgent, 2, user=user)
    return working, urgent


def test_a_run_steps_back_for_a_higher_priority_and_goes_on_after_it(stepping):
    working, urgent = stepping

    assert claimed() == []
    working.refresh_from_db()
    assert (working.state, working.dispatches.filter(kind="stop").count()) == (State.STOPPING, 1)
    assert working.state_reason.startswith("Steps back for a run of higher priority")

    observation.observe(observation.unfinished_attempts(), {job(working): JobStatus("STOPPED")})
    assert lifecycle.go_on() == 1
    working.refresh_from_db()
    assert (working.state, working.attempt_number) == (State.QUEUED, 2)
    assert claimed() == [urgent.seed]
    lifecycle.report_started(urgent, attempt=1)
    end(urgent)
    assert claimed() == [working.seed]


def test_nobody_steps_back_whose_project_did_not_agree_or_twice_in_a_while(stepping, project, user):
    working, _ = stepping
    places.set_queue(project, most_at_work=None, quota_hours=None, user=user)
    claimed()
    working.refresh_from_db()
    assert working.state == State.RUNNING

    places.set_queue(project, most_at_work=None, quota_hours=None, user=user, steps_back=True)
    lately = timezone.now() - reading.STEPS_BACK_EVERY / 2
    Attempt.objects.create(
        run=working, number=9, submission_id="earlier", failure=Attempt.Failure.STEPPED_BACK, ended_at=lately
    )
    claimed()
    working.refresh_from_db()
    assert working.state == State.RUNNING

    Attempt.objects.filter(number=9).update(ended_at=lately - reading.STEPS_BACK_EVERY)
    claimed()
    working.refresh_from_db()
    assert working.state == State.STOPPING


def test_a_person_who_stops_a_run_that_steps_back_stops_it_for_good(stepping, user):
    working, _ = stepping
    claimed()
    working.refresh_from_db()

    lifecycle.cancel_run(working, user=user)
    end(working, "cancelled")

    assert lifecycle.go_on() == 0
    assert Run.objects.get(pk=working.pk).state == State.CANCELLED


# --- size -----------------------------------------------------------------------------------------------------


def test_the_number_of_queries_does_not_grow_with_the_queue(two_cores, launch_one):
    runs = two_cores(4)
    claimed()
    lifecycle.report_started(runs[0], attempt=1)
    claimed()
    counts = []
    for seed in (10, 20):
        for more in range(5):
            needs(launch_one(seed=seed + more), **TWO_CORES)
        claimed()
        with CaptureQueriesContext(
            connection,
        ) as seen:
            claimed()
        counts.append(len(seen))

    assert counts[0] == counts[1] <= 16


def test_far_behind_only_that_is_said(two_cores, monkeypatch):
    from webapp.record.runs.admission import deciding

    monkeypatch.setattr(deciding, "TOLD", 1)
    runs = two_cores(3)
    claimed()

    assert (reason(runs[1]).split(";")[0], reason(runs[2])) == (
        "waits for the cluster: needs 2 CPU cores, 0 free", LATER,
    )  # fmt: skip


def test_ages_count_across_projects(two_cores, launch_one, user):
    """A run that waits for long is before a higher priority."""
    low, normal = two_cores(2)
    Run.objects.filter(pk=low.pk).update(priority=0)
    low.dispatches.update(created_at=timezone.now() - timedelta(hours=7))

    assert claimed() == [low.seed]
    assert normal.seed == 1


def test_records_shorten_the_wait(two_cores, make_record):
    first, second = two_cores(2, budget_hours=2.0)
    claimed()
    lifecycle.report_started(first, attempt=1)
    claimed()
    before = reason(second)
    ingest.store_records(first, [make_record(1, {"a": 1.0}, hours=1.0)])
    claimed()

    assert before.endswith("; starts in 1 h at the earliest")
    assert reason(second).endswith("; starts in 30 min at the earliest")
