"""Policies that act: once for each attempt, for what the attempt itself showed, through the run's own stop."""

import pytest

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.audit.models import Event
from webapp.interfaces.pages.run.attempts import acted
from webapp.record.runs import launch, lifecycle
from webapp.record.runs.models import Dispatch
from webapp.reporting.alarms.services import judge_run
from webapp.reporting.alerts.models import Notice
from webapp.reporting.policies import services
from webapp.reporting.policies.models import DEFAULTS, KINDS, PolicyAction, kind_of_alarm
from webapp.reporting.policies.selectors import policy_of, project_policy
from webapp.reporting.policies.services import act_on, set_project_policy, set_run_policy, sweep

pytestmark = pytest.mark.django_db
TRUNCATION = "train/truncation_rate"


@pytest.fixture
def set_policy(project, user):
    return lambda delta=0.01, **actions: set_project_policy(
        project, actions=DEFAULTS | actions, advice_delta=delta, user=user
    )


def state(run) -> str:
    run.refresh_from_db()
    return run.state


def resume(run, *, at: int):
    """The run was stopped, and a person resumed it from the checkpoint of this step."""
    lifecycle.report_finished(run, attempt=run.attempt_number, state="cancelled")
    run = launch.resume_run(run, user=None)
    lifecycle.report_started(run, attempt=run.attempt_number, resumed_from_step=at, device="cpu")
    judge_run(run.pk)
    return run


def test_by_default_an_alarm_stops_nothing(make_run, report):
    run = make_run(6)
    report(run, TRUNCATION, 0.5, 5)

    assert act_on(run.pk) == []
    assert state(run) == "running"


def test_a_critical_alarm_stops_the_run_once_with_its_reason(make_run, report, set_policy, user):
    set_policy(truncation="stop")
    run = make_run(6)
    report(run, TRUNCATION, 0.5, 5)

    (action,) = act_on(run.pk)
    assert (action.kind, action.action, action.attempt, action.by_run) == ("truncation", "stop", 1, False)
    assert state(run) == "stopping"
    assert run.state_reason.startswith(
        "Stopped by the policy of its project: Truncation rate is at or above 15 %"
    )
    assert Dispatch.objects.filter(run=run, kind="stop").count() == 1  # the driver writes its checkpoint
    event = Event.objects.get(verb="run.stopped_by_policy")
    assert (event.actor_name, event.detail["finding"], event.detail["whose"]) == (
        "system",
        "truncation",
        "project",
    )
    assert "could be stopped" not in Notice.objects.get(user=user, kind="policy").text

    assert act_on(run.pk) == []
    assert PolicyAction.objects.count() == 1


def test_two_workers_stop_it_once(make_run, report, set_policy):
    set_policy(truncation="stop")
    run = make_run(6)
    report(run, TRUNCATION, 0.5, 5)
    act_on(run.pk)
    type(run).objects.filter(pk=run.pk).update(state="running")  # as the other worker still saw it

    assert act_on(run.pk) == []


def test_a_warning_stops_nothing(make_run, report, set_policy):
    set_policy(truncation="stop")
    run = make_run(6)
    report(run, TRUNCATION, 0.12, 5)

    assert act_on(run.pk) == []


def test_whoever_resumes_it_is_not_stopped_by_what_was_found_before(make_run, report, set_policy):
    set_policy(truncation="stop")
    run = make_run(6)
    report(run, TRUNCATION, 0.5, 5)
    act_on(run.pk)
    run = resume(run, at=1004)
    assert act_on(run.pk) == []  # the alarm still holds, by the records of the first attempt

    report(run, TRUNCATION, 0.5, 2, first=1005, attempt=2)
    assert act_on(run.pk) == []  # two are not three in a row

    report(run, TRUNCATION, 0.5, 1, first=1007, attempt=2)
    (action,) = act_on(run.pk)
    assert (action.attempt, state(run)) == (2, "stopping")


def test_a_value_that_is_not_finite_stops_at_once_and_again_only_if_it_recurs(make_run, report, set_policy):
    set_policy(not_finite="stop")
    run = make_run(6)
    report(run, "train/grad_norm", None, 1)
    assert [action.kind for action in act_on(run.pk)] == ["not_finite"]

    run = resume(run, at=1000)
    assert act_on(run.pk) == []
    report(run, "train/grad_norm", None, 1, first=1001, attempt=2)
    assert [action.attempt for action in act_on(run.pk)] == [2]


def test_a_run_of_its_own_mind_does_otherwise(make_run, report, set_policy):
    set_policy(truncation="stop")
    calm, strict = make_run(6), make_run(6, seed=1)
    set_run_policy([calm], {"truncation": "warn"})
    set_run_policy([strict], {"mismatch": "stop"})
    report(calm, TRUNCATION, 0.5, 5)
    report(strict, "train/mismatch_logp_mean", 0.5, 5)

    assert act_on(calm.pk) == []
    (action,) = act_on(strict.pk)
    assert action.by_run and "the policy of this run" in (state(strict) and strict.state_reason)
    assert policy_of(strict).of_run == {"mismatch"}


def test_an_overrun_budget_is_stopped(make_run, report, set_policy):
    run = make_run(6, budget_hours=16.0)
    report(run, TRUNCATION, 0.0, 2, first=15_500)
    assert act_on(run.pk) == []  # by less than 5 %
    report(run, TRUNCATION, 0.0, 1, first=16_000)
    assert act_on(run.pk) == []  # one long step, the last one: its evaluation may be under way

    report(run, TRUNCATION, 0.0, 1, first=16_001)
    assert [action.kind for action in act_on(run.pk)] == ["budget"]
    assert "17.0 of 16.0 device-hours are spent" in (state(run) and run.state_reason)


def test_an_overrun_budget_that_is_to_warn_is_said_once(make_run, report, set_policy, user):
    set_policy(budget="warn")
    run = make_run(6, budget_hours=16.0)
    report(run, TRUNCATION, 0.0, 2, first=16_000)

    (action,) = act_on(run.pk)

    assert (action.action, state(run)) == ("warn", "running")
    assert "Warned <time" in " ".join(acted(run).split())
    assert "(attempt 1): 17.0 of 16.0 device-hours are spent" in acted(run)
    assert "goes on (budget overrun): 17.0 of 16.0" in Notice.objects.get(user=user, kind="policy").text
    assert Event.objects.filter(verb="run.warned_by_policy").count() == 1
    assert act_on(run.pk) == []

    set_policy(budget="stop")
    assert [one.action for one in act_on(run.pk)] == ["stop"]


@pytest.mark.parametrize(
    ("action", "expected"), [("off", "running"), ("advise", "running"), ("stop", "stopping")]
)
def test_the_planners_advice_is_off_said_or_followed(make_run, set_policy, action, expected):
    set_policy(delta=0.05, advice=action)
    run = make_run(40, noise=0.001)  # its curve is flat by now

    done = act_on(run.pk, after_refit=True)

    assert state(run) == expected
    assert [one.action for one in done] == ([] if action == "off" else [action])
    if done:
        assert done[0].reason.startswith("Stop: ")
    assert act_on(run.pk, after_refit=True) == []


def test_a_run_that_still_climbs_is_not_advised_to_stop(make_run, set_policy):
    set_policy(delta=0.001, advice="stop")
    run = make_run(12, to=1.5)

    assert act_on(run.pk, after_refit=True) == []


@pytest.mark.parametrize("ended", ["succeeded", "failed"])
def test_what_has_ended_is_left_alone(make_run, report, set_policy, ended):
    set_policy(truncation="stop")
    run = make_run(6)
    report(run, TRUNCATION, 0.5, 5)
    lifecycle.report_finished(run, attempt=1, state=ended)

    assert act_on(run.pk) == []


def test_a_run_that_ends_meanwhile_leaves_no_action_behind(make_run, report, set_policy, monkeypatch):
    set_policy(truncation="stop")
    run = make_run(6)
    report(run, TRUNCATION, 0.5, 5)

    def too_late(*args, **kwargs):
        raise Conflict("This run has already ended: succeeded.")

    monkeypatch.setattr(services.lifecycle, "cancel_run", too_late)
    assert act_on(run.pk) == []
    assert (
        not PolicyAction.objects.exists() and not Event.objects.filter(verb="run.stopped_by_policy").exists()
    )


def test_the_sweep_finds_what_a_lost_hint_left(make_run, report, set_policy):
    run = make_run(6)
    report(run, TRUNCATION, 0.5, 5)
    assert sweep() == 1 and state(run) == "running"

    set_policy(truncation="stop")  # newer than the alarm
    assert sweep() == 1 and state(run) == "stopping"
    assert sweep() == 0


def test_a_policy_that_is_set_is_recorded(project, user):
    set_project_policy(project, actions={"advice": "stop"}, advice_delta=0.02, user=user)
    set_project_policy(project, actions={"advice": "stop"}, advice_delta=0.02, user=user)
    assert project_policy(project).actions == DEFAULTS | {"advice": "stop"}
    assert Event.objects.get(verb="policy.changed").detail["changed"] == {"advice": ["off", "stop"]}


@pytest.mark.parametrize(
    ("actions", "delta", "field"),
    [
        ({"nothing": "stop"}, 0.01, "policies"), ({"truncation": "off"}, 0.01, "policies.truncation"),
        ({}, 0.0, "advice_delta"), ({}, 1.0, "advice_delta"), ({}, float("nan"), "advice_delta"),
    ],
)  # fmt: skip
def test_what_is_no_policy_is_refused(project, user, actions, delta, field):
    with pytest.raises(InvalidInput) as error:
        set_project_policy(project, actions=actions, advice_delta=delta, user=user)

    assert error.value.field == field


def test_each_rule_belongs_to_one_kind():
    assert kind_of_alarm("truncation_rate_critical", TRUNCATION) == "truncation"
    assert kind_of_alarm("ratio_max_critical", "train/ratio_max") == "mismatch"
    assert kind_of_alarm("not_finite", "train/ratio_max") == "not_finite"
    assert kind_of_alarm("kl_critical", "train/kl") == "other"
    assert all(kind.default in kind.actions for kind in KINDS)
