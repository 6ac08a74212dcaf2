"""Alarms as they are stored: from the points alone, whatever the order in which these came."""

import random
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from webapp.record.runs import ingest, lifecycle
from webapp.record.runs.models import Run
from webapp.reporting.alarms import services
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.selectors import active_alarms, alarms_of

TRUNCATION = "train/truncation_rate"


@pytest.fixture
def report(tracked, make_record):
    """report([0.02, 0.12], first=1): truncation rates of consecutive steps, judged."""

    def make(values, *, first=1, metric=TRUNCATION, attempt=1):
        records = [make_record(first + i, {metric: value}, attempt=attempt) for i, value in enumerate(values)]
        ingest.store_records(tracked, records)
        services.judge_run(tracked.pk)
        return {alarm.rule: alarm for alarm in alarms_of(tracked)}

    return make


def facts():
    return list(Alarm.objects.order_by("rule").values_list("rule", *services.FIELDS))


def test_a_rate_that_stays_high_is_an_alarm_until_it_falls(report):
    assert report([0.02, 0.12, 0.13]) == {}

    alarm = report([0.12], first=4)["truncation_rate"]
    assert (alarm.active, alarm.level, alarm.first_step, alarm.value) == (True, "warning", 2, 0.13)

    over = report([0.05], first=5)["truncation_rate"]
    assert (over.active, over.first_step, over.last_step, over.raised_at) == (False, 2, 4, alarm.raised_at)


def test_repeated_and_late_records_change_nothing(tracked, make_record, report):
    rates = [0.02, 0.12, 0.13, 0.12, 0.05, 0.16, 0.17, 0.18]
    report(rates)
    once = facts()
    Alarm.objects.all().delete()
    records = [make_record(1 + i, {TRUNCATION: rate}) for i, rate in enumerate(rates)]
    other = Run.objects.create(project=tracked.project, name="late", task="", model="", origin="tracked")
    random.Random(0).shuffle(records)

    lifecycle.ensure_attempts(other, {1: "attempt"})
    for record in records:
        ingest.store_records(other, [record])
        ingest.store_records(other, [record])
        services.judge_run(other.pk)

    assert facts() == once


def test_superseded_points_do_not_count(tracked, report):
    assert report([0.02, 0.12, 0.13, 0.12, 0.12])["truncation_rate"].active

    lifecycle.ensure_attempts(tracked, {2: "attempt"})
    lifecycle.report_started(tracked, attempt=2, resumed_from_step=2)
    assert Run.objects.get(pk=tracked.pk).alarms_wanted_at is not None
    services.judge_run(tracked.pk)

    assert alarms_of(tracked) == []
    assert report([0.03], first=3, attempt=2) == {}


def test_a_null_is_an_alarm_of_its_metric_until_it_is_a_number_again(tracked, make_record, report):
    report([0.5, 0.4], metric="train/loss")
    alarm = report([None], first=3, metric="train/loss")["not_finite"]
    assert (alarm.metric, alarm.active, alarm.level, alarm.first_step) == ("train/loss", True, "critical", 3)

    assert report([0.3], first=4, metric="train/loss")["not_finite"].active is False


def test_a_null_standard_error_is_no_alarm(tracked, make_record):
    ingest.store_records(tracked, [make_record(1, {"eval/pass_rate": 0.5, "eval/pass_rate_stderr": None})])
    services.judge_run(tracked.pk)

    assert alarms_of(tracked) == []


def test_records_wish_to_be_judged_and_judging_serves_the_wish(tracked, make_record):
    ingest.store_records(tracked, [make_record(1, {TRUNCATION: 0.2})])
    wished = Run.objects.get(pk=tracked.pk).alarms_wanted_at
    ingest.store_records(tracked, [make_record(2, {TRUNCATION: 0.2})])
    assert wished is not None
    assert Run.objects.get(pk=tracked.pk).alarms_wanted_at == wished  # since then, not of late

    services.judge_run(tracked.pk)
    assert Run.objects.get(pk=tracked.pk).alarms_wanted_at is None


def test_a_repeated_record_wishes_nothing(tracked, make_record):
    record = make_record(1, {TRUNCATION: 0.2})
    ingest.store_records(tracked, [record])
    services.judge_run(tracked.pk)
    ingest.store_records(tracked, [record])

    assert Run.objects.get(pk=tracked.pk).alarms_wanted_at is None


def test_what_arrives_while_it_is_judged_stays_wished(tracked, make_record, monkeypatch):
    ingest.store_records(tracked, [make_record(1, {TRUNCATION: 0.2})])
    read = services.watched_series

    def slow_read(*arguments):
        found = read(*arguments)
        ingest.store_records(tracked, [make_record(2, {TRUNCATION: 0.2})])
        return found

    monkeypatch.setattr(services, "watched_series", slow_read)
    services.judge_run(tracked.pk)

    assert Run.objects.get(pk=tracked.pk).alarms_wanted_at is not None


def test_the_page_is_told_of_a_change_and_only_then(tracked, report):
    report([0.2, 0.2, 0.2])
    version = Run.objects.get(pk=tracked.pk).version

    assert services.judge_run(tracked.pk) is False
    assert Run.objects.get(pk=tracked.pk).version == version


def test_without_a_worker_the_reader_judges_after_a_while(tracked, make_record):
    ingest.store_records(tracked, [make_record(i, {TRUNCATION: 0.2}) for i in (1, 2, 3)])
    tracked.refresh_from_db()
    assert services.current_alarms(tracked) == []  # a worker may be at it

    tracked.alarms_wanted_at = timezone.now() - services.OVERDUE - timedelta(seconds=1)
    assert [alarm.rule for alarm in services.current_alarms(tracked)] == [
        "truncation_rate_critical",
        "truncation_rate",
    ]


def test_another_threshold_holds_once_the_run_is_judged_again(tracked, report, settings):
    report([0.12, 0.12, 0.12])
    settings.HEADROOM_ALARMS = '{"truncation_rate": {"threshold": 0.125}}'

    assert services.judge_all_anew() == 1
    assert Run.objects.get(pk=tracked.pk).alarms_wanted_at is not None
    services.judge_run(tracked.pk)
    assert alarms_of(tracked) == []


def test_a_rule_that_is_off_is_gone_at_once(tracked, report, settings):
    report([0.12, 0.12, 0.12])
    settings.HEADROOM_ALARMS = '{"truncation_rate": "off"}'

    assert alarms_of(tracked) == []
    assert active_alarms([tracked.pk]) == {}


def test_of_a_warning_and_a_critical_alarm_the_list_counts_the_worse(tracked, report):
    report([0.2, 0.2, 0.2])

    assert [alarm.rule for alarm in active_alarms([tracked.pk])[tracked.pk]] == ["truncation_rate_critical"]


def test_judging_takes_few_queries(tracked, report):
    report([0.2, 0.2, 0.2])

    with CaptureQueriesContext(connection) as captured:
        services.judge_run(tracked.pk)

    assert len(captured) <= 7  # with the savepoint of the test's own transaction


def test_the_command_says_how_many_runs_it_means(tracked, report, capsys):
    report([0.02])
    call_command("judge_alarms")

    assert "1 run will be judged anew" in capsys.readouterr().out
    assert Run.objects.get(pk=tracked.pk).alarms_wanted_at is not None


def test_a_wrong_setting_keeps_the_stack_from_starting(settings, db):
    settings.HEADROOM_ALARMS = '{"entropy": {"threshold": "low"}}'

    with pytest.raises(SystemCheckError, match="entropy: threshold must be a finite number"):
        call_command("prepare_stack", skip_checks=False)
