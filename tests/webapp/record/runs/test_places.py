"""What a project may take: its limit under concurrency, order by priority and age, its share and quota."""

import threading

import pytest
from django.db import connection

from tests.launching import launched
from webapp.base.errors import Conflict, Forbidden, InvalidInput
from webapp.record.runs import editing, ingest, launch, lifecycle, places
from webapp.record.runs.models import Run, State


def claimed():
    """Seeds of the runs whose submissions are claimed now, in that order."""
    return [dispatch.run.seed for dispatch in lifecycle.claim_dispatches() if dispatch.kind == "submit"]


@pytest.fixture
def limit(project, user):
    """limit(2): no more than two runs of the project are at work."""
    return lambda most: places.set_queue(project, most_at_work=most, quota_hours=None, user=user)


@pytest.fixture
def quota(project, user):
    """quota(10.0): all runs of the project together may use that."""
    return lambda hours: places.set_queue(project, most_at_work=None, quota_hours=hours, user=user)


def test_priority_then_age(launch_one):
    for seed, priority in enumerate((1, 0, 2, 1)):
        launch_one(seed=seed, priority=priority)

    assert claimed() == [2, 0, 3, 1]


def test_no_more_than_the_limit_and_the_rest_says_what_it_waits_for(launch_one, limit):
    limit(2)
    runs = [launch_one(seed=seed) for seed in range(4)]

    assert claimed() == [0, 1]
    assert claimed() == []
    runs[2].refresh_from_db()
    said = "waits for a place in its project: 2 of 2 at work; behind 2 runs at work: "
    assert runs[2].state_reason.startswith(said)

    lifecycle.report_finished(runs[0], attempt=1, state="succeeded")
    assert claimed() == [2]
    runs[2].refresh_from_db()
    assert runs[2].state_reason == ""


def test_a_hint_for_a_late_run_does_not_overtake(launch_one, limit):
    limit(1)
    first, second, third = launch_one(seed=0), launch_one(seed=1), launch_one(seed=2, priority=2)

    assert lifecycle.claim_dispatches(run_id=first.pk) == []
    assert lifecycle.claim_dispatches(run_id=second.pk) == []
    assert len(lifecycle.claim_dispatches(run_id=third.pk)) == 1


def test_high_is_for_admins(launch_one, project, user):
    from tests.members import member

    grace = member("grace", project=project, role="launcher")
    run = launch_one(seed=0)

    for ask in (
        lambda: launch_one(seed=1, priority=2, user=grace),
        lambda: places.set_priority(run, 2, user=grace),
    ):
        with pytest.raises(InvalidInput, match="high is for admins") as caught:
            ask()
        assert caught.value.field == "priority"
    launch_one(seed=1, priority=0, user=grace)
    launch_one(seed=2, priority=2, user=None)
    assert places.set_priority(run, 2, user=user).priority == 2


def test_a_share_is_for_owners_and_stays_where_it_is_not_named(project, user, limit):
    from tests.members import member

    owner = member("olga", project=project, role="admin")
    project.organisation.owners.set([owner])
    limit(3)
    with pytest.raises(Forbidden, match="owner of the organisation"):
        places.set_queue(project, most_at_work=None, quota_hours=None, user=user, share=5.0)
    with pytest.raises(InvalidInput, match="share must be from"):
        places.set_queue(project, most_at_work=None, quota_hours=None, user=owner, share=0.0)

    places.set_queue(project, most_at_work=None, quota_hours=None, user=owner, share=5.0)
    row = limit(2)

    assert (places.share_of(project), row.most_at_work, row.steps_back) == (5.0, 2, False)


def test_a_full_project_keeps_nobody_elses_runs_waiting(launch_one, limit, request_body):
    from webapp.identity.accounts.services import create_project, set_role

    limit(1)
    for seed in range(3):
        launch_one(seed=seed)
    other = create_project(slug="code", name="Code")
    set_role(other, request_body["user"], "admin")
    launch_one(seed=9, project=other)
    assert set(claimed()) == {0, 9}


@pytest.mark.django_db(transaction=True)
def test_with_one_place_of_many_workers_one_gets_it(launch_one, limit):
    limit(1)
    runs = [launch_one(seed=seed) for seed in range(4)]
    barrier, claims = threading.Barrier(6), []

    def work(i):
        barrier.wait()
        claims.append(len(lifecycle.claim_dispatches(run_id=runs[i % 4].pk if i % 2 else None)))
        connection.close()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(claims) == 1
    assert Run.objects.filter(state=State.SUBMITTING).count() == 1


def test_priority_changes_while_queued_only(launch_one, limit, user):
    limit(1)
    first, second = launch_one(seed=0), launch_one(seed=1)
    places.set_priority(second, Run.Priority.HIGH, user=user)

    assert claimed() == [1]
    assert second.priority == Run.Priority.HIGH
    with pytest.raises(Conflict, match="only while it is queued"):
        places.set_priority(second, Run.Priority.LOW, user=user)
    with pytest.raises(InvalidInput):
        places.set_priority(first, 7, user=user)


def test_a_launch_beyond_the_quota_says_what_is_left(launch_one, quota, project, make_record):
    quota(2.0)
    run = launch_one(budget_hours=1.5)
    ingest.store_records(run, [make_record(1, {"a": 1.0}, hours=0.25)])
    known = places.quota_of(project)

    with pytest.raises(InvalidInput) as caught:
        launch_one(seed=1, budget_hours=0.75)

    assert (known.spent, known.promised, known.left) == (0.25, 1.25, 0.5)
    assert caught.value.field == "budget_hours"
    assert caught.value.message == (
        "The project's quota has 0.5 device-hours left, and this asks for 0.75: of 2, 0.25 are spent and 1.25 promised "
        "to unfinished runs."
    )
    launch_one(seed=1, budget_hours=0.5)
    assert Run.objects.count() == 2


def test_the_rest_of_the_quota_can_be_asked_for_to_the_last_digit(launch_one, quota):
    quota(1.0)
    launch_one(budget_hours=0.9)

    assert 1.0 - 0.9 < 0.1
    launch_one(seed=1, budget_hours=0.1)
    assert Run.objects.count() == 2


def test_what_a_run_did_not_use_is_free_again(launch_one, quota):
    quota(1.0)
    run = launch_one(budget_hours=1.0)
    lifecycle.cancel_run(run, user=None)

    launch_one(seed=1, budget_hours=1.0)
    with pytest.raises(InvalidInput, match="quota has 0 device-hours left"):
        launch.resume_run(run, user=None)


@pytest.mark.django_db(transaction=True)
def test_the_last_hours_are_promised_once(request_body, quota):
    quota(1.0)
    barrier, made = threading.Barrier(4), []

    def work(seed):
        barrier.wait()
        try:
            made.append(launched(**request_body | {"seed": seed, "budget_hours": 0.6}).pk)
        except InvalidInput:
            made.append(None)
        connection.close()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len([pk for pk in made if pk]) == 1


def test_a_project_has_at_least_one_place(project):
    with pytest.raises(InvalidInput):
        places.set_queue(project, most_at_work=0, quota_hours=None, user=None)


# --- drafts ---------------------------------------------------------------------------------------------------


def test_a_draft_reaches_nothing_until_it_is_launched(launch_one, user):
    run = launch_one(draft=True)

    assert (run.state, run.attempts.count(), claimed()) == (State.DRAFT, 0, [])
    with pytest.raises(Conflict, match="is a draft"):
        lifecycle.cancel_run(run, user=user)
    editing.launch_draft(run, user=user)
    assert (run.state, run.attempts.count(), claimed()) == (State.QUEUED, 1, [0])
    for again in (editing.launch_draft, editing.delete_draft):
        with pytest.raises(Conflict, match="no draft any more"):
            again(run, user=user)


def test_a_draft_is_deleted_for_good(launch_one, user):
    run = launch_one(draft=True)
    editing.delete_draft(run, user=user)

    assert not Run.objects.exists()
    with pytest.raises(Conflict, match="deleted already"):
        editing.delete_draft(run, user=user)


def test_a_draft_whose_model_has_gone_is_refused(launch_one, user, model_folder):
    import shutil

    own = shutil.copytree(model_folder, model_folder.with_name("own"))  # a tiny one would be made
    run = launch_one(draft=True, model="own")
    shutil.rmtree(own)

    with pytest.raises(InvalidInput) as caught:
        editing.launch_draft(run, user=user)

    run.refresh_from_db()
    assert (caught.value.field, run.state) == ("model", State.DRAFT)


# --- more budget ----------------------------------------------------------------------------------------------


def test_a_running_run_gets_more_through_the_outbox(launch_one, user, make_record):
    run = launch_one(budget_hours=0.5)
    for dispatch in lifecycle.claim_dispatches():
        lifecycle.dispatch_done(dispatch)
    lifecycle.report_started(run, attempt=1)

    lifecycle.extend_run(run, 1.0, user=user)
    (first,) = lifecycle.claim_dispatches()
    lifecycle.extend_run(run, 2.0, user=user)  # while the first is on its way
    lifecycle.dispatch_done(first)
    (second,) = lifecycle.claim_dispatches()
    lifecycle.dispatch_done(second)

    assert (first.kind, second.kind, lifecycle.claim_dispatches()) == ("budget", "budget", [])
    assert (run.budget_hours, run.config["budget"]["device_hours"]) == (2.0, 2.0)


def test_a_run_that_used_its_budget_goes_on_to_the_new_one(launch_one, user, make_record):
    run = launch_one(budget_hours=0.5)
    ingest.store_records(run, [make_record(1, {"a": 1.0}, hours=0.5)])
    lifecycle.report_finished(run, attempt=1, state="succeeded")

    lifecycle.extend_run(run, 1.0, user=user)
    launch.resume_run(run, user=user)

    (dispatch,) = [d for d in lifecycle.claim_dispatches() if d.attempt == 2]
    assert launch.job_spec(dispatch).recipe["budget"]["device_hours"] == 1.0


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (0.2, "0.25 device-hours are spent already: the budget must be above that."),
        (0.4, "The budget is 0.5 device-hours, of which 0.25 are spent; it can only be extended."),
        (float("nan"), "at most"),
        (1e12, "at most"),
    ],
)
def test_a_budget_below_what_is_spent_or_there_is_refused_with_figures(
    launch_one, user, make_record, hours, words
):
    run = launch_one(budget_hours=0.5)
    ingest.store_records(run, [make_record(1, {"a": 1.0}, hours=0.25)])

    with pytest.raises(InvalidInput) as caught:
        lifecycle.extend_run(run, hours, user=user)

    assert (caught.value.field, words in caught.value.message) == ("budget_hours", True)
    assert Run.objects.get(pk=run.pk).budget_hours == 0.5


def test_what_cannot_be_extended(launch_one, tracked, user, quota):
    with pytest.raises(Conflict, match="trains elsewhere"):
        lifecycle.extend_run(tracked, 1.0, user=user)
    with pytest.raises(Conflict, match="is a draft"):
        lifecycle.extend_run(launch_one(draft=True), 1.0, user=user)
    run = launch_one(seed=1, budget_hours=0.5)
    quota(1.0)
    with pytest.raises(InvalidInput, match="quota has 0.5 device-hours left, and this asks for 1:"):
        lifecycle.extend_run(run, 1.5, user=user)


def test_of_two_who_extend_one_is_told_of_the_other(launch_one, user):
    run = launch_one(budget_hours=0.5)
    mine, theirs = Run.objects.get(pk=run.pk), Run.objects.get(pk=run.pk)
    lifecycle.extend_run(theirs, 2.0, user=user)

    with pytest.raises(Conflict, match="it is 2 device-hours now"):
        lifecycle.extend_run(mine, 1.0, user=user)


def test_a_recipe_of_a_newer_version_waits_and_says_so(launch_one):
    run = launch_one()
    Run.objects.filter(pk=run.pk).update(config=run.config | {"field_of_tomorrow": 1})
    (dispatch,) = lifecycle.claim_dispatches()

    with pytest.raises(RuntimeError, match="another version.*field_of_tomorrow"):
        launch.job_spec(dispatch)
