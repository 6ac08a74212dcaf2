"""Rules fire once for each (rule, run, episode), for each kind of condition."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.members import member
from tests.webapp.reporting.alerts.data import entropy_below, make_rule, report
from webapp.identity.accounts.models import Membership, Role
from webapp.record.runs import lifecycle
from webapp.record.runs.launch import resume_run
from webapp.record.runs.models import Run
from webapp.reporting.alarms.services import judge_run
from webapp.reporting.alerts import firing
from webapp.reporting.alerts.models import AlertRule, Firing, Notice, Watch
from webapp.reporting.alerts.rules import DEFAULTS, ensure_defaults, ensure_for_everybody, turn
from webapp.science.curves.models import Fit
from webapp.science.curves.services import refit

pytestmark = pytest.mark.django_db


def check(times=2):
    """Some rounds of the worker."""
    for _ in range(times):
        firing.check_changed(seconds=60)


def texts():
    return list(Firing.objects.order_by("id").values_list("text", flat=True))


# --- each kind ------------------------------------------------------------------------------------------------


def test_a_state_fires_for_each_attempt(user, project, make_run):
    run = make_run(0, name="first")
    make_rule(user, project, "state", {"states": ["failed", "started"]}, runs="by:me")
    lifecycle.report_started(run, attempt=1)
    check()
    assert texts() == ["first, seed 0: has started"]

    lifecycle.report_finished(run, attempt=1, state="failed", message="out of memory\nTraceback")
    check()
    run.refresh_from_db()
    resume_run(run, user=user)
    lifecycle.report_finished(run, attempt=2, state="failed")
    check()

    assert texts()[1:] == [
        "first, seed 0: has failed: out of memory",
        "first, seed 0: has failed (attempt 2)",
    ]
    assert Notice.objects.filter(user=user, kind="alert").count() == 3


def test_a_state_that_was_passed_between_two_looks_is_not_missed(user, project, make_run):
    run = make_run(0)
    make_rule(user, project, "state", {"states": ["started"]})
    lifecycle.report_started(run, attempt=1)
    lifecycle.report_finished(run, attempt=1, state="succeeded")
    check()

    assert len(texts()) == 1


def test_a_metric_fires_at_the_last_of_so_many_in_a_row(user, project, make_run):
    run = make_run(0, name="one")
    rule = make_rule(user, project, "metric", entropy_below())
    report(run, [0.3, 0.09, 0.08, 0.2, 0.09])
    check()
    assert texts() == []

    report(run, [0.05, 0.04], first=6)
    check()
    assert texts() == ["one, seed 0: train/entropy is 0.04 at step 7: below 0.1, 3 times in a row"]

    report(run, [0.03] * 20, first=8)  # the same episode goes on
    check()
    report(run, [0.5, 0.02, 0.02, 0.02], first=28)  # the next one
    check()
    assert [row.episode for row in Firing.objects.filter(rule=rule).order_by("id")] == ["step:5", "step:29"]


def test_an_episode_whose_beginning_moves_is_the_same(user, project, make_run):
    run = make_run(0)
    make_rule(user, project, "metric", entropy_below())
    report(run, [0.05, 0.05, 0.05], first=10)
    check()
    report(run, [0.05, 0.05], first=8)  # comes late
    check()

    assert [row.episode for row in Firing.objects.all()] == ["step:10"]


def test_an_alarm_fires_by_its_level(user, project, make_run):
    run = make_run(0)
    warning = make_rule(user, project, "alarm", {"level": "warning", "rule": ""}, name="any")
    critical = make_rule(user, project, "alarm", {"level": "critical", "rule": ""}, name="critical")
    other = make_rule(user, project, "alarm", {"level": "warning", "rule": "kl"}, name="other")
    report(run, [0.12] * 4, metric="train/truncation_rate")
    judge_run(run.pk)
    check()
    assert Firing.objects.get().rule == warning

    report(run, [0.2] * 4, metric="train/truncation_rate", first=5)
    judge_run(run.pk)
    check()
    found = Firing.objects.get(rule=critical)
    assert found.critical and "at or above 15 %" in found.text
    assert not Firing.objects.filter(rule=other).exists()
    assert Firing.objects.filter(rule=warning).count() == 2  # of the two alarms


def fits(run, *said):
    """Stored fits with forecasts that said so of the ceiling, one after the other: (status, ceiling, lo, hi)."""
    for place, (status, ceiling, lo, hi) in enumerate(said):
        forecast = {
            "status": status,
            "message": "",
            "level": 0.9,
            "seen": 1.0,
            "ceiling": ceiling,
            "interval": [lo, hi],
        }
        forecast |= dict.fromkeys(("compute", "value", "lo", "hi"), [1.0])
        Fit.objects.create(
            run=run, metric="eval/pass_rate", data_digest=f"{Fit.objects.count()}", status=status, n=20 + place,
            forecast=forecast, fitted_lo=0.1, fitted_hi=1.0 + Fit.objects.count(),
        )  # fmt: skip
    Run.objects.filter(pk=run.pk).update(version=run.version + Fit.objects.count())


OPEN, KNOWN = ("not_identified", 0.7, 0.5, 0.9), ("ok", 0.62, 0.6, 0.64)


def test_a_ceiling_that_becomes_identified_fires_once_a_stretch(user, project, make_run):
    run = make_run(0, name="one")
    make_rule(user, project, "fit", {"event": "identified"})
    fits(run, OPEN, KNOWN)
    check()
    assert texts() == []
    fits(run, KNOWN)
    check()
    assert texts() == ["one, seed 0: forecast ceiling known: 0.62 (0.60 to 0.64), at 3.00 device-hours"]
    fits(run, KNOWN, KNOWN, OPEN, KNOWN)
    check()
    assert len(texts()) == 1
    fits(run, KNOWN)
    check()
    assert len(texts()) == 2


@pytest.mark.parametrize(
    ("event", "value", "certain", "fires"),
    [
        ("ceiling_below", 0.63, False, True),
        ("ceiling_below", 0.63, True, False),
        ("ceiling_below", 0.65, True, True),
        ("ceiling_below", 0.61, False, False),
        ("ceiling_above", 0.61, False, True),
        ("ceiling_above", 0.61, True, False),
        ("ceiling_above", 0.59, True, True),
    ],
)
def test_a_ceiling_is_below_or_above_with_or_without_its_interval(
    user, project, make_run, event, value, certain, fires
):
    run = make_run(0)
    make_rule(user, project, "fit", {"event": event, "value": value, "certain": certain})
    fits(run, KNOWN, KNOWN)
    check()

    assert Firing.objects.exists() == fires


def test_a_ceiling_that_is_not_identified_is_neither_below_nor_above(user, project, make_run):
    run = make_run(0)
    make_rule(user, project, "fit", {"event": "ceiling_above", "value": 0.1})
    fits(run, OPEN, OPEN)
    check()

    assert texts() == []


def test_each_new_fit_fires_once_whatever_it_says(user, project, make_run):
    run = make_run(0, name="one")
    make_rule(user, project, "fit", {"event": "stored"})
    fits(run, OPEN, KNOWN)
    check()
    fits(run, KNOWN)
    check()

    known = "the forecast ceiling is 0.62 (0.60 to 0.64)"
    assert texts() == [
        "one, seed 0: a new fit of 20 evaluations: the ceiling is not known yet, at 1.00 device-hours",
        f"one, seed 0: a new fit of 21 evaluations: {known}, at 2.00 device-hours",
        f"one, seed 0: a new fit of 20 evaluations: {known}, at 3.00 device-hours",
    ]
    episodes = Firing.objects.order_by("id").values_list("episode", flat=True)
    assert list(episodes) == [f"fit:{fit.pk}" for fit in Fit.objects.order_by("id")]


def test_a_collapse_leaves_the_band_of_the_fit_before_it(user, project, make_run):
    run = make_run(30)  # made in the past, by its trainer's clock
    make_rule(user, project, "fit", {"event": "left_band"})
    check()
    assert texts() == []

    report(run, [0.58, 0.59], metric="eval/pass_rate", first=90)
    refit(run.pk)
    check()
    assert texts() == []
    report(run, [0.35, 0.34, 0.33], metric="eval/pass_rate", first=92)
    refit(run.pk)
    check()

    (text,) = texts()
    assert "the actual left the band downwards: pass rate 0.340 at 9.30 device-hours" in text


def test_the_budget_fires_at_its_share(user, project, make_run):
    run = make_run(0, budget_hours=2.0, name="one")
    make_rule(user, project, "budget", {"percent": 80})
    report(run, [1.0] * 15)
    check()
    assert texts() == []
    report(run, [1.0] * 3, first=16)
    check()

    assert texts() == ["one, seed 0: 80 % of its budget is spent: 1.80 of 2.00 device-hours"]


# --- once, and only what is new -------------------------------------------------------------------------------


def test_a_rule_does_not_fire_for_what_happened_before_it_was_made(user, project, make_run):
    run = make_run(0)
    report(run, [0.05] * 5, minutes=1)
    make_rule(user, project, "metric", entropy_below(), since=timedelta(0))
    check()
    report(run, [0.05] * 5, first=6)  # the old episode goes on
    check()

    assert texts() == []


def test_turned_off_it_does_not_fire_and_turned_on_again_it_watches_from_then_on(user, project, make_run):
    run = make_run(0)
    rule = make_rule(user, project, "state", {"states": ["started", "failed"]})
    turn(rule.pk, user=user, project=project, on=False)
    lifecycle.report_started(run, attempt=1)
    check()
    turn(rule.pk, user=user, project=project, on=True)
    lifecycle.report_finished(run, attempt=1, state="failed")
    check()

    assert [row.episode.split(":")[1] for row in Firing.objects.all()] == ["failed"]


def test_what_is_older_than_a_day_is_no_news_for_a_run_that_a_filter_matches_only_now(
    user, project, make_run
):
    run = make_run(0)
    make_rule(user, project, "metric", entropy_below(), runs="tag:paper", since=timedelta(days=9))
    report(run, [0.05] * 5, minutes=3 * 24 * 60)
    check()
    Run.objects.filter(pk=run.pk).update(tags=["paper"], version=run.version + 100)
    check()
    assert texts() == []

    report(run, [0.5, 0.05, 0.05, 0.05], first=6)
    check()
    assert len(texts()) == 1


def test_within_the_cooldown_it_is_kept_but_nobody_is_told(user, project, make_run):
    run = make_run(0)
    make_rule(user, project, "metric", entropy_below(in_a_row=1), cooldown_minutes=60)
    report(run, [0.05, 0.5, 0.05, 0.5, 0.05])
    check()

    assert [row.muted for row in Firing.objects.order_by("id")] == [False, True, True]
    assert Notice.objects.filter(user=user).count() == 1


def test_the_filter_says_in_which_runs_and_me_is_the_owner(user, project, make_run):
    ben = member("ben", project=project)
    mine = make_run(0)
    for owner, runs in ((user, "by:me"), (ben, "by:me"), (ben, "model:other"), (ben, "state:failed seed:0")):
        make_rule(owner, project, "state", {"states": ["failed"]}, runs=runs, name=runs)
    lifecycle.report_started(mine, attempt=1)
    lifecycle.report_finished(mine, attempt=1, state="failed")
    check()

    assert {(row.owner, row.rule_name) for row in Firing.objects.all()} == {
        (user, "by:me"),
        (ben, "state:failed seed:0"),
    }


def test_only_runs_that_changed_are_looked_at(user, project, make_run, django_assert_num_queries):
    runs = [make_run(0, seed=seed) for seed in range(4)]
    make_rule(user, project, "metric", entropy_below())
    check()
    with django_assert_num_queries(1):  # none changed
        assert firing.check_changed() == 0
    report(runs[2], [0.5])
    assert firing.check_changed() == 1
    assert Watch.objects.count() == 4


def test_rules_of_who_left_do_not_fire(user, project, make_run):
    ben = member("ben", project=project)
    run = make_run(0)
    make_rule(ben, project, "state", {"states": ["started"]})
    Membership.objects.filter(user=ben).delete()
    lifecycle.report_started(run, attempt=1)
    check()

    assert texts() == []


def test_one_rule_that_cannot_be_read_stops_no_other(user, project, make_run):
    run = make_run(0)
    broken = make_rule(user, project, "state", {"states": ["started"]}, name="broken")
    AlertRule.objects.filter(pk=broken.pk).update(condition={"states": ["exploded"]})
    make_rule(user, project, "state", {"states": ["started"]}, name="whole")
    lifecycle.report_started(run, attempt=1)
    check()

    assert [row.rule_name for row in Firing.objects.all()] == ["whole"]


def test_a_rule_of_the_project_tells_every_member(user, project, make_run):
    ben = member("ben", project=project, role=Role.VIEWER)
    run = make_run(0)
    make_rule(user, project, "state", {"states": ["started"]}, shared=True)
    lifecycle.report_started(run, attempt=1)
    check()

    assert set(Notice.objects.values_list("user__username", flat=True)) == {user.username, ben.username}
    assert Firing.objects.get().owner is None


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_fire_once(user, project, make_run):
    run = make_run(0)
    make_rule(user, project, "state", {"states": ["started"]})
    lifecycle.report_started(run, attempt=1)
    start = threading.Barrier(4)
    failed = []

    def work():
        try:
            start.wait(10)
            firing.check_changed(seconds=30)
        except Exception as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert not failed
    assert Firing.objects.count() == Notice.objects.filter(kind="alert").count() == 1


# --- the rules that everybody has -----------------------------------------------------------------------------


def test_every_member_gets_the_default_rules_once_and_keeps_what_was_changed(user, project):
    ensure_for_everybody()
    rule = AlertRule.objects.get(owner=user, default_key="run_done")
    turn(rule.pk, user=user, project=project, on=False)
    ensure_for_everybody()
    ensure_defaults(user, project)

    assert AlertRule.objects.filter(owner=user).count() == len(DEFAULTS)
    assert not AlertRule.objects.get(pk=rule.pk).enabled
    assert ensure_for_everybody() == 0


def test_the_default_rules_tell_of_a_failed_run_its_launcher_alone(user, project, make_run):
    member("ben", project=project)
    run = make_run(0)
    ensure_for_everybody()
    lifecycle.report_started(run, attempt=1)
    lifecycle.report_finished(run, attempt=1, state="failed")
    check()

    assert [row.user for row in Notice.objects.all()] == [user]


def test_a_rule_is_no_news_to_the_clock(user, project):
    rule = make_rule(user, project, "budget", {"percent": 50}, since=timedelta(0))
    assert abs((timezone.now() - rule.since).total_seconds()) < 5


def test_a_thousand_runs_that_did_not_change_cost_one_query(user, project, make_run):
    run = make_run(0)
    base = {name: getattr(run, name) for name in ("project_id", "revision_id", "task", "model", "config")}
    runs = Run.objects.bulk_create([Run(name=f"run {place}", version=3, **base) for place in range(1000)])
    Watch.objects.bulk_create([Watch(run=one, version=3, checked_at=timezone.now()) for one in runs])
    check(1)
    Run.objects.filter(pk=runs[17].pk).update(version=4)

    with CaptureQueriesContext(connection) as asked:
        assert [one.pk for one in firing.changed_runs()] == [runs[17].pk]
    assert len(asked) == 1
